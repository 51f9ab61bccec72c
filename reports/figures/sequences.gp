# Running and waiting sequences over time, from timeline.tsv. Without waiting ones there is no panel
# of them.
if (ARGC < 2) { print "usage: gnuplot -c sequences.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("sequences.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
eval largest_of(3)
has_waiting = largest > 0
eval figure_open(has_waiting ? 440 : 300, 1 + has_waiting)
curve = records_most > 24 ? line_style : curve_style
eval time_axis
eval describe("running", 2)
eval describe("waiting", 3)

eval largest_of(2)
eval y_axis(largest)
eval y_title("Running")
set xlabel (has_waiting ? "" : time_label)
plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):2 @curve linecolor rgb color(i) \
	title label(i)
eval panel_in_time("Running", "")
if (has_waiting) {
	unset key
	eval largest_of(3)
	eval y_axis(largest)
	eval y_title("Waiting")
	set xlabel time_label
	plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):3 @curve \
		linecolor rgb color(i) notitle
	eval panel_in_time("Waiting", "")
}
