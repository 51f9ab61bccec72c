# Latencies against load, from plan.tsv of `quire plan`, with the limits of the SLO, the load that
# passes and the two intervals of it: median, p90 and p99 where each request has a limit, or none;
# the median and what limits name where they are of the run. style.gp says what quire may have set.
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
if (!exists("limit_total")) { limit_total = 0 }
panel_name(k) = word("Time_to_first_token Time_per_output_token End-to-end_latency Queue ".\
	"Inter-token_latency", k)
spaced(name) = strstrt(name, "_") ? spaced(name[1:strstrt(name, "_") - 1]." ".\
	name[strstrt(name, "_") + 1:*]) : name
limit_latency(i) = value(sprintf("limit_latency_%d", i))
limit_statistic(i) = value(sprintf("limit_statistic_%d", i))
limit_value(i) = value(sprintf("limit_value_%d", i)) / 1e3
slo(k) = k == 1 && exists("ttft_slo") ? ttft_slo / 1e3 : k == 2 && exists("tpot_slo") ? \
	tpot_slo / 1e3 : k == 3 && exists("e2e_slo") ? e2e_slo / 1e3 : 0
# Of each panel: the names of its series, and their columns.
array names[5]
array columns_of[5]
do for [k = 1:5] {
	names[k] = ""
	columns_of[k] = ""
	is_limited = 0
	do for [i = 1:limit_total] { is_limited = is_limited || limit_latency(i) == k }
	prefix = word("ttft tpot e2e queue itl", k)
	if (k <= 3) {
		names[k] = is_limited && slo(k) == 0 ? "p50" : k == 3 ? "p50 p99" : "p50 p90 p99"
		do for [name in names[k]] {
			columns_of[k] = columns_of[k]." ".prefix."_".name."_ms"
		}
	}
	do for [i = 1:limit_total] {
		is_drawn = 0
		do for [name in names[k]] { is_drawn = is_drawn || name eq limit_statistic(i) }
		if (limit_latency(i) == k && !is_drawn) {
			names[k] = names[k]." ".limit_statistic(i)
			columns_of[k] = columns_of[k]." limit.".prefix.".".limit_statistic(i)
		}
	}
	if (k == 3 && slo(k) == 0 && !is_limited) { names[k] = "" }
}
y_of(k, j) = column(word(columns_of[k], j)) > 0 ? column(word(columns_of[k], j)) / 1e3 : NaN
array low[5]
array high[5]
drawn = 0
panels = 0
all_names = ""
do for [k = 1:5] {
	low[k] = 0.0
	high[k] = 0.0
	panels = panels + (words(names[k]) > 0)
	do for [j = 1:words(names[k])] {
		is_new = 1
		do for [name in all_names] { is_new = is_new && name ne word(names[k], j) }
		if (is_new) { all_names = all_names." ".word(names[k], j) }
		stats table using (x_of(0) == x_of(0) ? y_of(k, j) : NaN) nooutput
		if (exists("STATS_records") && STATS_records > 0) {
			drawn = drawn + 1
			low[k] = low[k] == 0 || STATS_min < low[k] ? STATS_min : low[k]
			high[k] = STATS_max > high[k] ? STATS_max : high[k]
			if (j == words(names[k])) {
				eval note("describe", sprintf("%s, %s: from %s to %s.", \
					spaced(panel_name(k)), word(names[k], j), \
					text_of(STATS_min), text_of(STATS_max)))
			}
		}
		undefine STATS_records
	}
}
if (drawn == 0) {
	eval figure_empty("no request gave a value")
	exit
}
# 1, not 0, of no name: gnuplot looks at the body of a loop that has no turn
place(name) = 1 + int(sum [i=1:words(all_names)] (word(all_names, i) eq name ? i - 1 : 0))
eval table_open(panels * 220 + 60, 3, panels)
eval load_axis
shown = 0
do for [k = 1:5] {
	if (words(names[k]) == 0) { continue }
	shown = shown + 1
	bottom = low[k] == 0 ? 0.001 : low[k] / 1.5
	top = high[k] == 0 ? 1 : high[k] * 1.5
	do for [i = 0:limit_total] {
		limit = i == 0 ? slo(k) : limit_latency(i) == k ? limit_value(i) : 0
		bottom = limit > 0 && limit / 2 < bottom ? limit / 2 : bottom
		top = limit * 2 > top ? limit * 2 : top
	}
	eval log_axis("y", bottom, top)
	do for [i = 0:16] {
		unset arrow 1 + i
		unset label 1 + i
	}
	do for [i = 0:limit_total] {
		limit = i == 0 ? slo(k) : limit_latency(i) == k ? limit_value(i) : 0
		if (limit == 0) { continue }
		set arrow 1 + i from graph 0, first limit to graph 1, first limit nohead back \
			linewidth 1.4 linecolor rgb slo_color
		slo_text = (i == 0 ? "SLO " : "SLO of ".limit_statistic(i)." ").text_of(limit)
		set label 1 + i slo_text at graph 0.01, first limit left offset 0, 0.6 \
			textcolor rgb slo_color front
	}
	eval load_bands
	eval y_title(spaced(panel_name(k)))
	set xlabel (shown == panels ? knob_title : "")
	if (shown > 1) { unset key }
	others = "" # of the legend, which is that of all panels
	do for [name in all_names] {
		if (!strstrt(" ".names[k]." ", " ".name." ")) { others = others." ".name }
	}
	layers = ""
	do for [name in names[k]] { layers = layers.(layers eq "" ? '' : ',').'"'.name.'"' }
	layers = '"layers":['.layers.'],'
	plot for [j = 1:words(names[k])] table using (x_of(0)):(y_of(k, j)) \
		smooth unique with linespoints pointtype marker(place(word(names[k], j))) \
		pointsize 0.5 linewidth 1.8 dashtype dash(place(word(names[k], j))) \
		linecolor rgb color(place(word(names[k], j))) title word(names[k], j), \
		for [name in others] NaN with linespoints pointtype marker(place(name)) \
		pointsize 0.5 linewidth 1.8 dashtype dash(place(name)) \
		linecolor rgb color(place(name)) title name, \
		NaN with lines linewidth 1.6 dashtype 13 linecolor rgb text_color \
		title (exists("pass") ? "answer" : ""), \
		NaN with lines linewidth 8 linecolor rgb sampling_color + 0x60000000 \
		title (has_sampling ? "sampling interval" : ""), \
		NaN with lines linewidth 8 linecolor rgb model_color + 0x60000000 \
		title (has_model ? "model interval" : "")
	y_scale = "log"
	eval panel(spaced(panel_name(k)), "s", knob, unit)
}
