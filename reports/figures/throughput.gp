# Output tokens and computed prompt tokens a second over time, from timeline.tsv.
if (ARGC < 2) { print "usage: gnuplot -c throughput.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("throughput.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
eval figure_open(400, 2)
curve = records_most > 24 ? line_style : curve_style
eval time_axis

eval largest_of(5)
eval y_axis(largest)
set ylabel "Output tokens/s"
set xlabel ""
plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):5 @curve linecolor rgb color(i) \
	title label(i)

unset key
eval largest_of(6)
eval y_axis(largest)
set ylabel "Prefill tokens/s"
set xlabel time_label
plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):6 @curve linecolor rgb color(i) \
	notitle
