# Latencies against load, from plan.tsv of `quire plan`: median, p90 and p99 of the time to first
# token and of the time per output token, with the limits of the SLO, the load that passes and the
# two intervals of it. style.gp says what quire may have set.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c plan_latency.gp OUT.svg PLAN.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("plan_latency.gp")]."style.gp"
	table = ARGV[2]
}
eval plan_load
if (x_points == 0) {
	eval figure_empty("the search made no run")
	exit
}
panels = exists("e2e_slo") ? 3 : 2
array column_of[9] = ["ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p90_ms", \
	"tpot_p99_ms", "e2e_p50_ms", "", "e2e_p99_ms"]
array panel_name[3] = ["Time to first token", "Time per output token", "End-to-end latency"]
limit(k) = k == 1 ? (exists("ttft_slo") ? ttft_slo / 1e3 : 0) : \
	k == 2 ? (exists("tpot_slo") ? tpot_slo / 1e3 : 0) : e2e_slo / 1e3
series(k, j) = column_of[3 * k - 3 + j]
y_of(k, j) = column(series(k, j)) > 0 ? column(series(k, j)) / 1e3 : NaN
array low[3]
array high[3]
drawn = 0
do for [k = 1:panels] {
	low[k] = 0.0
	high[k] = 0.0
	do for [j = 1:3] {
		if (series(k, j) eq "") { continue }
		stats table using (x_of(0) == x_of(0) ? y_of(k, j) : NaN) nooutput
		if (exists("STATS_records") && STATS_records > 0) {
			drawn = drawn + 1
			low[k] = low[k] == 0 || STATS_min < low[k] ? STATS_min : low[k]
			high[k] = STATS_max > high[k] ? STATS_max : high[k]
			if (j == 3) {
				eval note("describe", sprintf("%s, p99: from %s to %s.", \
					panel_name[k], text_of(STATS_min), text_of(STATS_max)))
			}
		}
		undefine STATS_records
	}
}
if (drawn == 0) {
	eval figure_empty("no request gave a value")
	exit
}
eval table_open(panels * 220 + 60, 3, panels)
eval load_axis
layers = '"layers":["p50","p90","p99"],'
do for [k = 1:panels] {
	bottom = low[k] == 0 ? 0.001 : low[k] / 1.5
	top = high[k] == 0 ? 1 : high[k] * 1.5
	bottom = limit(k) > 0 && limit(k) / 2 < bottom ? limit(k) / 2 : bottom
	top = limit(k) * 2 > top ? limit(k) * 2 : top
	eval log_axis("y", bottom, top)
	unset arrow 1
	unset label 1
	if (limit(k) > 0) {
		set arrow 1 from graph 0, first limit(k) to graph 1, first limit(k) nohead back \
			linewidth 1.4 linecolor rgb slo_color
		set label 1 "SLO ".text_of(limit(k)) at graph 0.01, first limit(k) left \
			offset 0, 0.6 textcolor rgb slo_color front
	}
	eval load_bands
	eval y_title(panel_name[k])
	set xlabel (k == panels ? knob_title : "")
	if (k > 1) { unset key }
	plot for [j = 1:3] table using (x_of(0)):(series(k, j) eq "" ? NaN : y_of(k, j)) \
		smooth unique with linespoints pointtype marker(j) pointsize 0.5 \
		linewidth 1.8 dashtype dash(j) linecolor rgb color(j) \
		title word("p50 p90 p99", j), \
		NaN with lines linewidth 1.6 dashtype 13 linecolor rgb text_color \
		title (exists("pass") ? "answer" : ""), \
		NaN with lines linewidth 8 linecolor rgb sampling_color + 0x60000000 \
		title (exists("sampling_low") ? "sampling interval" : ""), \
		NaN with lines linewidth 8 linecolor rgb model_color + 0x60000000 \
		title (exists("model_low") ? "model interval" : "")
	y_scale = "log"
	eval panel(panel_name[k], "s", knob, unit)
}
