# GPU time by operation over the run, from kernel_timeline.tsv: what share of the time each took; a
# panel for each result. What is missing to 100 % is time in which the GPU had nothing to do.
if (ARGC < 2) { print "usage: gnuplot -c operations.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("operations.gp")]."style.gp" }

set datafile columnheaders
file(i) = folder(i)."kernel_timeline.tsv"
time_end = 0.0
most = 0.0
do for [i = 1:ARGC - 1] {
	stats file(i) using (column("time_s") + column("width_s")) nooutput
	time_end = exists("STATS_records") && STATS_records > 0 && STATS_max > time_end ? \
		STATS_max : time_end
	stats file(i) using ((column("below_ns") + column("sum_ns")) / column("width_s") / 1e7) \
		nooutput
	most = exists("STATS_records") && STATS_records > 0 && STATS_max > most ? STATS_max : most
}
if (time_end == 0) {
	eval figure_empty("no kernel was measured")
	exit
}

# The seven that took most have a colour, the rest is grey.
colors_max = 7
name_of(text) = strlen(text) > 17 ? text[1:16]."…" : text
eval panels_open(8, 275, 2)
time_pixels = 368
eval time_axis
set samples 2
set yrange [0:most > 100 ? most : 100]
set ytics 25 format "%g %%"
set xlabel time_label
set style fill solid 1 noborder
set multiplot
do for [i = 1:ARGC - 1] {
	eval panel_place(i, 192)
	eval y_title("Share of the time")
	set key at screen (panel_left(i) + panel_width - 182.0) / width, \
		screen 1 - (panel_top(i) + 24.0) / height left top vertical Left reverse \
		noenhanced samplen 0.6 invert
	array shown[colors_max]
	ranks = 0
	stats file(i) using (k = int(column("rank")), ranks = k > ranks ? k : ranks, \
		k <= colors_max ? (shown[k] = name_of(stringcolumn("operation")), 1) : 1) nooutput
	if (ranks == 0) {
		plot NaN notitle
		continue
	}
	colors = ranks < colors_max ? ranks : colors_max
	# Of many results every other bin, or the figure would be large.
	bin(row) = int(column("time_s") / column("width_s") + 0.5)
	x(row) = ARGC > 5 && bin(row) % 2 == 1 ? NaN : \
		(column("time_s") + column("width_s") / 2) / time_unit
	share(ns) = ns / column("width_s") / 1e7
	plot file(i) using (column("rank") == ranks ? x(0) : NaN): \
		(share(column("below_ns") + column("sum_ns"))) with filledcurves y1=0 \
		linecolor rgb grid_color notitle, \
		for [k = 1:colors] file(i) using \
		(column("rank") == k ? x(0) : NaN):(share(column("below_ns"))): \
		(share(column("below_ns") + column("sum_ns"))) with filledcurves \
		linecolor rgb color(k) title shown[k], \
		for [k = 1:ranks > colors ? 1 : 0] NaN with filledcurves y1=0 \
		linecolor rgb grid_color title "the others"
	layers = '"layers":['.layer(shown[1])
	do for [k = 2:colors] { layers = layers.",".layer(shown[k]) }
	layers = layers."],"
	eval panel_in_time("Share of the time", "%%")
	eval note("describe", of_run(i)."most time went to ".shown[1]. \
		(colors > 1 ? ", then ".shown[2] : "").(colors > 2 ? ", then ".shown[3] : "").".")
}
