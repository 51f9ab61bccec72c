# Preemptions so far over time, from timeline.tsv: where the curve is steep, blocks ran out.
if (ARGC < 2) { print "usage: gnuplot -c preemptions.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("preemptions.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
eval largest_of(9)
if (largest == 0) {
	eval figure_empty("no sequence was preempted")
	exit
}
eval figure_open(300, 1)
curve = records_most > 24 ? line_style : curve_style
eval time_axis
eval describe("preemptions so far", 9)

eval largest_of(9)
eval y_axis(largest)
eval y_title("Preemptions so far")
set xlabel time_label
plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):9 @curve linecolor rgb color(i) \
	title label(i)
eval panel_in_time("Preemptions so far", "")
