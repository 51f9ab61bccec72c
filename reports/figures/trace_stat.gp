# What a trace holds: requests a second over time, and how long prompts and outputs are, from a
# table of rows (kind, x, y) that `quire trace stat --plot` puts in front of this script.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c trace_stat.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("trace_stat.gp")]."style.gp"
	table = ARGV[2]
}

set datafile columnheaders
has_legend = 0
eval figure_open(480, 2)
of(kind, value) = strcol("kind") eq kind ? value : NaN

stats table using (of("rate", column("x"))) nooutput
start = STATS_min
time_end = STATS_max - STATS_min
stats table using (of("rate", column("y"))) nooutput
eval y_axis(STATS_max)
eval time_axis
set ylabel "Requests/s"
set label 1 time_end > 0 ? time_label : "all at once" at graph 0.99, 0.08 right \
	textcolor rgb text_color
plot table using (of("rate", (column("x") - start) / time_unit)):(of("rate", column("y"))) \
	with steps linewidth 1.2 linecolor rgb color(1) notitle

unset label 1
set key at graph 0.98, 0.1 right bottom vertical Left reverse noenhanced samplen 2 \
	textcolor rgb text_color
set yrange [0:100]
set ytics 25
set format y "%g %%"
set ylabel "Requests"
set xlabel "Tokens at most"
set logscale x
set xrange [*:*]
set format x "%.0s%c"
plot for [kind in "input output"] table using (of(kind, column("x"))): \
	(of(kind, 100 * column("y"))) with lines linewidth 2 \
	linecolor rgb color(kind eq "input" ? 1 : 2) title kind
