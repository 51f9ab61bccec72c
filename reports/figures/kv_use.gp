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

capacity(i) = exists(sprintf("kv_capacity_%d", i)) ? value(sprintf("kv_capacity_%d", i)) : NaN
eval largest_of(4)
do for [i = 1:ARGC - 1] {
	if (capacity(i) > largest) { largest = capacity(i) }
	eval capacity(i) > 0 ? note("describe", \
		of_run(i).sprintf("the pool has %d blocks.", capacity(i))) : ""
}
eval y_axis(largest)
eval y_title("KV blocks")
set xlabel time_label
set samples 2
plot for [i = 1:ARGC - 1] capacity(i) with lines dashtype 2 linewidth 1.2 \
	linecolor rgb color(i) notitle, \
	for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):4 @curve linecolor rgb color(i) \
	title label(i)
eval panel_in_time("KV blocks", "")
