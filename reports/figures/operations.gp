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
short(text) = strlen(text) > 17 ? text[1:16]."…" : text
panel = ARGC > 2 ? 290 : 265
height = 8 + panel * (ARGC - 1)
eval time_axis
set samples 2
eval sprintf("set terminal svg size 640, %d dynamic font 'sans-serif,15' background '%s'", \
	height, background_color)
set output ARG1
set yrange [0:most > 100 ? most : 100]
set ytics 25 format "%g %%"
set xlabel time_label
set style fill solid 1 noborder
set multiplot
do for [i = 1:ARGC - 1] {
	top = 1 - (14.0 + (ARGC > 2 ? 32 : 0) + panel * (i - 1)) / height
	set tmargin at screen top
	set bmargin at screen 1 - (panel * i - 52.0) / height
	set lmargin at screen 0.105
	set rmargin at screen 0.70
	set key at screen 0.715, screen top left top vertical Left reverse noenhanced \
		samplen 0.6 invert
	if (ARGC > 2) { set title label(i) noenhanced offset 0, -0.6 }
	array shown[colors_max]
	ranks = 0
	stats file(i) using (k = int(column("rank")), ranks = k > ranks ? k : ranks, \
		k <= colors_max ? (shown[k] = short(stringcolumn("operation")), 1) : 1) nooutput
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
}
