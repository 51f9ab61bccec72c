# The share of requests within the SLO against load, from plan.tsv of `quire plan`, with its 95 %
# Wilson interval, and the share that is asked for. Where no request has a limit of its own, that is
# the share that finishes. From 90 to 99 % is as long as from 99 to 99.9 %.
# Points pass, crosses fail. style.gp says what quire may have set.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c plan_attained.gp OUT.svg PLAN.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("plan_attained.gp")]."style.gp"
	table = ARGV[2]
}
eval plan_load
of(name) = x_of(0) == x_of(0) ? column(name) : NaN
values = 0
if (x_points > 0) {
	stats table using (of("attained")) nooutput
	values = exists("STATS_records") ? STATS_records : 0
}
if (values == 0) {
	eval figure_empty(x_points == 0 ? "the search made no run" : "no run has a share")
	exit
}
if (!exists("has_slo")) { has_slo = 1 }
what = has_slo ? "within the SLO" : "finished"
eval note("describe", sprintf("From %.2f to %.2f %% of the requests %s.", \
	100 * STATS_min, 100 * STATS_max, has_slo ? "are within the SLO" : "finish"))
end = 3.5
height_of(share) = share >= 1 ? end : -log10(1 - share) > end ? end : -log10(1 - share)
eval table_open(490, 3, 1)
eval load_axis
band_lift = 0.6
eval load_bands
set yrange [0:end * 1.03]
set ytics ("0" 0, "50 %%" 0.30103, "90 %%" 1, "99 %%" 2, "99.9 %%" 3)
if (exists("attain_slo")) {
	set arrow 1 from graph 0, first height_of(attain_slo) to graph 1, \
		first height_of(attain_slo) nohead back linewidth 1.4 linecolor rgb slo_color
	set label 1 sprintf("%s %g %%", has_slo ? "SLO" : "at least", 100 * attain_slo) \
		at graph 0.99, first height_of(attain_slo) right offset 0, 0.6 \
		textcolor rgb slo_color front
}
eval y_title("Requests ".what)
set xlabel knob_title
is_passed(unused) = column("passes") == 1
plot table using (x_of(0)):(height_of(of("attained"))) smooth unique with lines \
	linewidth 1.2 linecolor rgb color(1) notitle, \
	table using (x_of(0)):(height_of(of("attained_low"))):(0): \
	(height_of(of("attained_high")) - height_of(of("attained_low"))) with vectors heads \
	size screen 0.005, 90 linewidth 1.4 linecolor rgb color(1) + 0x10000000 \
	title "95 % interval", \
	table using (is_passed(0) ? x_of(0) : NaN):(height_of(of("attained"))) with points \
	pointtype 7 pointsize 0.7 linecolor rgb color(1) + 0x10000000 title "passes", \
	table using (is_passed(0) ? NaN : x_of(0)):(height_of(of("attained"))) with points \
	pointtype 2 pointsize 0.8 linewidth 2.2 linecolor rgb slo_color title "fails", \
	NaN with lines linewidth 1.6 dashtype 13 linecolor rgb text_color \
	title (exists("pass") ? "answer" : ""), \
	NaN with lines linewidth 8 linecolor rgb sampling_color + 0x60000000 \
	title (has_sampling ? "sampling interval" : ""), \
	NaN with lines linewidth 8 linecolor rgb model_color + 0x60000000 \
	title (has_model ? "model interval" : "")
y_scale = "tail"
eval panel(has_slo ? "Within the SLO" : "Finished", "%%", knob, unit)
