# What a trace holds: requests a second over time, and how long prompts and outputs are, from a
# table of rows (kind, x, y) that `quire trace stat --plot` puts in front of this script; it sets
# subject, the trace's name, and requests, their number.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c trace_stat.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("trace_stat.gp")]."style.gp"
	table = ARGV[2]
}
if (!exists("subject")) { subject = "" }
subject = subject.(exists("requests") ? sprintf(": %.0f requests", requests) : "")

set datafile columnheaders
eval standalone_open(540, 52, 2)
of(kind, value) = strcol("kind") eq kind ? value : NaN

stats table using (of("rate", column("x"))) nooutput
start = STATS_min
time_end = STATS_max - STATS_min
stats table using (of("rate", column("y"))) nooutput
eval note("describe", sprintf("At most %.3g requests/s.", STATS_max))
eval y_axis(STATS_max)
eval time_axis
eval y_title("Requests/s")
set xlabel time_end > 0 ? time_label : "all at once"
unset key
plot table using (of("rate", (column("x") - start) / time_unit)):(of("rate", column("y"))) \
	with steps linewidth 1.2 linecolor rgb color(1) notitle

unset label 91
set key at screen 0.965, screen 0.5 - 32.0 / height right center horizontal Left reverse \
	noenhanced samplen 2 textcolor rgb text_color
set yrange [0:100]
set ytics 25
set format y "%g %%"
eval y_title("Share of requests")
set xlabel "Tokens at most"
set logscale x
set xrange [*:*]
set format x "%.0s%c"
number(kind) = kind eq "input" ? 1 : 2
plot for [kind in "input output"] table using (of(kind, column("x"))): \
	(of(kind, 100 * column("y"))) with lines linewidth 2 \
	dashtype dash(number(kind)) linecolor rgb color(number(kind)) title kind
eval note("title", "Requests and lengths of ".subject)
set xrange [*:*]
set yrange [*:*]
do for [kind in "input output"] {
	stats table using (of(kind, column("x"))) nooutput
	eval note("describe", sprintf("%s: %d to %d tokens, median %d.", kind, STATS_min, \
		STATS_max, STATS_median))
}
