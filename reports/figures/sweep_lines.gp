# Figures of the runs of `quire sweep` against a parameter, as small multiples. The table has the
# columns panel and curve (from 1), x and y (s for times, % for shares); a panel is a metric or the
# value of another parameter. The curve 0 has again the points of runs that rejected requests: they
# get a ring. quire puts it in front of the script and sets
#
#   panel_total, panel_name_1, ...  titles of the panels
#   panel_kind_1, ...               time, share or plain
#   panel_unfinished_1, ...         set where no run of the panel finished
#   curve_total, curve_name_1, ...  names of the curves
#   x_title, is_log                 the axis, which has a tic for each value of the parameter:
#   tic_total, tic_text_1, tic_at_1, ...
#   is_shared = 1                   all panels have the same y axis, of metric_name
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c sweep_lines.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("sweep_lines.gp")]."style.gp"
	table = ARGV[2]
}
set datafile columnheaders
points = 0
stats table using (column("panel")):(column("y")) nooutput
if (exists("STATS_records")) { points = STATS_records; most_panels = STATS_max_x }
if (points == 0) {
	eval figure_empty("no run has a value")
	exit
}
if (!exists("panel_total")) { panel_total = int(most_panels) }
if (!exists("curve_total")) {
	stats table using "curve" nooutput
	curve_total = int(STATS_max)
}
if (!exists("is_log")) { is_log = 0 }
if (!exists("is_shared")) { is_shared = 0 }
if (!exists("tic_total")) { tic_total = 0 }
if (!exists("x_title")) { x_title = "" }
text_at(name, k, otherwise) = exists(sprintf("%s_%d", name, k)) ? \
	value(sprintf("%s_%d", name, k)) : otherwise
panel_title(k) = text_at("panel_name", k, sprintf("%d", k))
kind(k) = text_at("panel_kind", k, "plain")
stats table using "x" nooutput
x_low = STATS_min
x_high = STATS_max
# stats looks only at what is within the ranges, so before any is set.
is_of(k) = column("panel") == k || is_shared
array low[panel_total]
array high[panel_total]
array values[panel_total]
do for [k = 1:panel_total] {
	undefine STATS_records
	stats table using (column("panel") == k ? column("y") : NaN) nooutput
	values[k] = exists("STATS_records") ? STATS_records : 0
	undefine STATS_records
	stats table using (is_of(k) ? column("y") : NaN) nooutput
	has_values = exists("STATS_records") && STATS_records > 0
	low[k] = has_values ? STATS_min : 1.0
	high[k] = has_values ? STATS_max : 1.0
	if (has_values) {
		eval note("describe", sprintf("%s: from %s to %s.", panel_title(k), \
			kind(k) eq "time" ? text_of(low[k]) : short_text(low[k]), \
			kind(k) eq "time" ? text_of(high[k]) : short_text(high[k])))
	}
}
has_legend = has_legend && curve_total > 1
eval grid_open(has_legend ? 22 * curve_total + 8 : 8, 250, 3)
set multiplot
if (has_legend) {
	set key at screen 0.012, screen 1 - 3.0 / height left top vertical Left reverse \
		noenhanced samplen 2 textcolor rgb text_color
} else {
	unset key
}
if (is_log) {
	set logscale x
	set xrange [x_low / 1.15:x_high * 1.15]
} else {
	margin = x_high > x_low ? 0.05 * (x_high - x_low) : 0.5
	set xrange [x_low - margin:x_high + margin]
}
set xtics ()
tic_most = 30
every = (tic_total - 1) / (columns == 1 ? 10 : columns == 2 ? 8 : 6) + 1
do for [k = 1:tic_total] {
	if ((k - 1) % every == 0) {
		plain = fit(text_at("tic_text", k, ""), tic_most)
		eval tic_label
		set xtics add (shown_as text_at("tic_at", k, 0))
	}
}
layers = '"layers":['.layer(text_at("curve_name", 1, ""))
do for [k = 2:curve_total] { layers = layers.",".layer(text_at("curve_name", k, "")) }
layers = layers."],"
do for [k = 1:panel_total] {
	eval panel_place(k, 24)
	unset logscale y
	y_scale = "linear"
	if (kind(k) eq "time" && low[k] > 0) {
		eval log_axis("y", low[k] / 1.3, high[k] * 1.3)
		y_scale = "log"
	} else {
		y_unit = kind(k) eq "share" ? " %%" : ""
		eval y_axis(high[k])
	}
	set xlabel (is_lowest(k) ? x_title : "") noenhanced
	unset label 92
	if (values[k] == 0) {
		if (!is_shared) { set ytics () }
		set label 92 exists(sprintf("panel_unfinished_%d", k)) ? "no run finished" : \
			"no run has a value" at graph 0.5, graph 0.5 center textcolor rgb text_color
	}
	plot for [c = 1:curve_total] table using \
		(column("panel") == k && column("curve") == c ? column("x") : NaN):"y" \
		smooth unique with linespoints pointtype marker(c) pointsize 0.6 linewidth 1.8 \
		dashtype dash(c) linecolor rgb color(c) \
		title (has_legend ? text_at("curve_name", c, "") : ""), \
		table using (column("panel") == k && column("curve") == 0 ? column("x") : NaN):"y" \
		with points pointtype 6 pointsize 1.2 linewidth 1.4 linecolor rgb slo_color notitle
	x_scale = is_log ? "log" : "linear"
	eval kind(k) eq "time" ? panel("Value", "s", "Parameter", "") : \
		kind(k) eq "share" ? panel("Value", "%%", "Parameter", "") : \
		panel("Value", "", "Parameter", "")
	unset key
}
