# Prefix-cache hit rate over time, from timeline.tsv: hit tokens over query tokens of first
# admissions, so far (strong) and in each slice of time (faint).
if (ARGC < 2) { print "usage: gnuplot -c hit_rate.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("hit_rate.gp")]."style.gp" }

eval timeline_load
queries = 0.0
do for [i = 1:ARGC - 1] {
	if (records_most > 0) {
		stats timeline(i) using 8 nooutput
		queries = exists("STATS_sum") ? queries + STATS_sum : queries
	}
}
if (queries == 0) {
	eval figure_empty("no prompt asked the cache")
	exit
}
eval figure_open(300, 1)
curve = records_most > 24 ? line_style : curve_style
eval time_axis

is_known(i) = !exists(sprintf("no_hits_%d", i))
percent(hit, query) = query > 0 && is_known(i) ? 100.0 * hit / query : NaN
so_far(row) = (row == 0 ? (hits = 0.0, asked = 0.0) : 0, hits = hits + $7, asked = asked + $8, \
	percent(hits, asked))
largest = 0.0
do for [i = 1:ARGC - 1] {
	stats timeline(i) using (percent($7, $8)) nooutput
	if (exists("STATS_max") && STATS_max > largest) { largest = STATS_max }
	stats timeline(i) using ($7) nooutput
	found = exists("STATS_sum") ? STATS_sum : 0.0
	stats timeline(i) using ($8) nooutput
	asked_of = exists("STATS_sum") ? STATS_sum : 0
	eval note("describe", of_run(i).(is_known(i) ? sprintf("%.1f %% of the prompt tokens ".\
		"were found in the cache.", percent(found, asked_of)) : "not known."))
}
eval time_axis
y_unit = " %%"
eval y_axis(largest)
eval y_title("Hit rate, tokens")
set xlabel time_label
# Of more than three results, the faint curves would only hide each other.
plot for [i = 1:(ARGC > 4 ? 0 : ARGC - 1)] timeline(i) \
	using ($1 / time_unit):(percent($7, $8)) with lines \
	linewidth 1 linecolor rgb faint(i) notitle, \
	for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):(so_far(int(column(0)))) @curve \
	linecolor rgb color(i) title label(i)
eval panel_in_time("Hit rate so far", "%%")
