# KV blocks in use over time, from timeline.tsv; dashed where the pool ends, if it is known.
if (ARGC < 2) { print "usage: gnuplot -c kv_use.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("kv_use.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
eval figure_open(300, 1)
curve = records_most > 24 ? line_style : curve_style
eval time_axis
eval describe("KV blocks in use", 4)

# Blocks of different sizes do not compare: then their tokens are drawn.
size(i) = exists(sprintf("kv_block_size_%d", i)) ? value(sprintf("kv_block_size_%d", i)) : 0
has_sizes = 1
are_equal = 1
do for [i = 1:ARGC - 1] {
	has_sizes = has_sizes && size(i) > 0
	are_equal = are_equal && size(i) == size(1)
}
in_tokens = has_sizes && !are_equal
scale(i) = in_tokens ? size(i) : 1
unit_text = in_tokens ? "KV tokens" : "KV blocks"

capacity(i) = exists(sprintf("kv_capacity_%d", i)) ? \
	scale(i) * value(sprintf("kv_capacity_%d", i)) : NaN
top = 0.0
do for [i = 1:ARGC - 1] {
	set yrange [*:*]
	undefine STATS_max
	stats timeline(i) using (scale(i) * $4) nooutput
	if (exists("STATS_max") && STATS_max > top) { top = STATS_max }
	if (capacity(i) > top) { top = capacity(i) }
	eval capacity(i) > 0 ? note("describe", \
		of_run(i).sprintf("the pool has %d blocks.", capacity(i) / scale(i))) : ""
}
eval y_axis(top)
eval y_title(unit_text)
set xlabel time_label
set samples 2
plot for [i = 1:ARGC - 1] capacity(i) with lines dashtype 2 linewidth 1.2 \
	linecolor rgb color(i) notitle, \
	for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):(scale(i) * $4) @curve \
	linecolor rgb color(i) title label(i)
eval panel_in_time(unit_text, "")
