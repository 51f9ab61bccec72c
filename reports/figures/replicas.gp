# How evenly the replicas of a fleet were loaded: tokens, hit rate and busy time of each. Of one
# result each replica has a bar, and a line marks the mean; of several a curve each. gnuplot cannot
# read summary.json, so quire sets $replicas_1, ... with the columns replica, prompt and output
# tokens, hit rate in % and busy time in s; run by hand it draws nothing.
if (ARGC < 2) { print "usage: gnuplot -c replicas.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("replicas.gp")]."style.gp" }

if (!exists("$replicas_1")) {
	eval figure_empty("no figures of replicas")
	exit
}
of_replicas(i) = sprintf("$replicas_%d", i)
array panel_name[3] = ["Tokens, prompt and output", "Prefix-cache hit rate", "Busy time"]
array top[3]
last = 0.0
y(k) = k == 1 ? $2 + $3 : k == 2 ? $4 : $5
array mean[3]
do for [k = 1:3] {
	top[k] = 0.0
	mean[k] = 0.0
	do for [i = 1:ARGC - 1] {
		undefine STATS_records
		stats of_replicas(i) using 1:(y(k)) nooutput
		if (exists("STATS_records") && STATS_records > 0) {
			top[k] = STATS_max_y > top[k] ? STATS_max_y : top[k]
			mean[k] = STATS_mean_y
			last = STATS_max_x > last ? STATS_max_x : last
			eval note("describe", of_run(i).sprintf("%s of %d replicas: from %s to ".\
				"%s, most at replica %d.", panel_name[k], STATS_records, \
				short_text(STATS_min_y), short_text(STATS_max_y), STATS_pos_max_y))
		}
	}
}
panels = top[2] > 0 ? 3 : 2
eval figure_open(panels * 150 + 70, panels)
set xrange [-0.7:last + 0.7]
x_tic = tic_of((last + 1) / 8.0)
set xtics x_tic < 1 ? 1 : x_tic
set boxwidth last > 100 ? 1 : 0.8
set style fill solid 0.75 noborder
drawn = 0
do for [k = 1:3] {
	if (k == 2 && panels == 2) { continue }
	drawn = drawn + 1
	y_unit = k == 2 ? " %%" : k == 3 ? " s" : ""
	eval y_axis(top[k])
	eval y_title(panel_name[k])
	set xlabel (drawn == panels ? "Replica" : "")
	unset arrow 1
	unset label 1
	if (ARGC == 2 && k != 2) {
		set arrow 1 from graph 0, first mean[k] to graph 1, first mean[k] nohead front \
			linewidth 1.4 dashtype 13 linecolor rgb text_color
		set label 1 "mean" at graph 0.995, first mean[k] right offset 0, 0.5 \
			font ",12" textcolor rgb text_color front
	}
	if (ARGC == 2) {
		plot of_replicas(1) using 1:(y(k)) with boxes linecolor rgb color(1) notitle
	} else {
		plot for [i = 1:ARGC - 1] of_replicas(i) using 1:(y(k)) with linespoints \
			pointtype marker(i) pointsize 0.5 linewidth pen(i) dashtype dash(i) \
			linecolor rgb color(i) title label(i)
	}
	unset key
	eval panel(panel_name[k], k == 2 ? "%%" : k == 3 ? "s" : "tokens", "Replica", "")
}
