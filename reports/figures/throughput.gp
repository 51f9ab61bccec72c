# Output tokens and computed prompt tokens a second over time, from timeline.tsv.
if (ARGC < 2) { print "usage: gnuplot -c throughput.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("throughput.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
eval figure_open(440, 2)
curve = records_most > 24 ? line_style : curve_style
eval time_axis
eval describe("output tokens/s", 5)
eval describe("prefill tokens/s", 6)

eval largest_of(5)
eval y_axis(largest)
eval y_title("Output tokens/s")
set xlabel ""
plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):5 @curve linecolor rgb color(i) \
	title label(i)
eval panel_in_time("Output", "tokens/s")

unset key
eval largest_of(6)
eval y_axis(largest)
eval y_title("Prefill tokens/s")
set xlabel time_label
plot for [i = 1:ARGC - 1] timeline(i) using ($1 / time_unit):6 @curve linecolor rgb color(i) \
	notitle
eval panel_in_time("Prefill", "tokens/s")
