# Goodput and tokens against load, from plan.tsv of `quire plan`: requests a second that were within
# the SLO, of those that were offered, or that there is capacity for if that is less; beside them,
# those that were offered. So the time behind the last arrival is not counted; a closed loop offers
# none, and has the goodput of the run. style.gp says what quire may have set.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c plan_goodput.gp OUT.svg PLAN.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("plan_goodput.gp")]."style.gp"
	table = ARGV[2]
}
eval plan_load
if (x_points == 0) {
	eval figure_empty("the search made no run")
	exit
}
what = exists("has_slo") && !has_slo ? "finished" : "within the SLO"
# A column without a value is not to be read: column() of it takes the whole point away.
known(name) = stringcolumn(name) ne "-"
carried(unused) = known("demand") && column("demand") > 1 ? 1 / column("demand") : 1
goodput(unused) = known("offered_requests_per_s") ? \
	column("offered_requests_per_s") * column("attained") * carried(0) : \
	column("goodput_requests_per_s")
of(name) = x_of(0) == x_of(0) ? column(name) : NaN
stats table using (of("offered_requests_per_s")) nooutput
top = exists("STATS_max") ? STATS_max : 0
undefine STATS_max
stats table using (x_of(0)):(x_of(0) == x_of(0) ? goodput(0) : NaN) nooutput
if (exists("STATS_max_y")) {
	top = STATS_max_y > top ? STATS_max_y : top
	eval note("describe", sprintf("Goodput: at most %.4g requests/s, at %.4g %s.", \
		STATS_max_y, STATS_pos_max_y, unit eq "" ? knob : unit))
}
stats table using (of("output_tokens_per_s")) nooutput
tokens_top = exists("STATS_max") ? STATS_max : 0
eval table_open(490, 3, 2)
eval load_axis
eval load_bands
eval y_axis(top)
eval y_title("Requests/s")
set xlabel ""
plot table using (x_of(0)):(goodput(0)) smooth unique with linespoints \
	pointtype 7 pointsize 0.5 linewidth 1.8 linecolor rgb color(1) title what, \
	table using (x_of(0)):(of("offered_requests_per_s")) smooth unique with lines \
	linewidth 1.4 dashtype dash(2) linecolor rgb color(2) title "offered", \
	NaN with lines linewidth 1.6 dashtype 13 linecolor rgb text_color \
	title (exists("pass") ? "answer" : ""), \
	NaN with lines linewidth 8 linecolor rgb sampling_color + 0x60000000 \
	title (has_sampling ? "sampling interval" : ""), \
	NaN with lines linewidth 8 linecolor rgb model_color + 0x60000000 \
	title (has_model ? "model interval" : "")
layers = '"layers":["'.what.'","offered"],'
eval panel("Requests", "requests/s", knob, unit)
unset key
eval load_bands
eval y_axis(tokens_top)
eval y_title("Output tokens/s")
set xlabel knob_title
plot table using (x_of(0)):(of("output_tokens_per_s")) smooth unique with linespoints \
	pointtype 7 pointsize 0.5 linewidth 1.8 linecolor rgb color(1) notitle
layers = '"layers":["output"],'
eval panel("Output", "tokens/s", knob, unit)
