# Figures of the runs of `quire sweep` over two parameters, a heat map for each metric. The table
# has the columns panel, x and y (numbers of the values, from 1), and value (s for times, % for
# shares).
# quire puts it in front of the script and sets panel_total, panel_name_1, panel_kind_1 as for
# sweep_lines.gp; x_title, x_total, x_text_1, ... and y_title_text, y_total, y_text_1, ...
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c sweep_heat.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("sweep_heat.gp")]."style.gp"
	table = ARGV[2]
}
set datafile columnheaders
points = 0
stats table using (column("panel")):(column("value")) nooutput
if (exists("STATS_records")) { points = STATS_records; most_panels = STATS_max_x }
if (points == 0) {
	eval figure_empty("no run has a value")
	exit
}
if (!exists("panel_total")) { panel_total = int(most_panels) }
if (!exists("x_total")) { stats table using "x" nooutput; x_total = int(STATS_max) }
if (!exists("y_total")) { stats table using "y" nooutput; y_total = int(STATS_max) }
if (!exists("x_title")) { x_title = "" }
if (!exists("y_title_text")) { y_title_text = "" }
text_at(name, k, otherwise) = exists(sprintf("%s_%d", name, k)) ? \
	value(sprintf("%s_%d", name, k)) : otherwise
panel_title(k) = text_at("panel_name", k, sprintf("%d", k))
kind(k) = text_at("panel_kind", k, "plain")
shown(k, v) = kind(k) eq "time" ? text_of(v) : kind(k) eq "share" ? sprintf("%.3g %%", v) : \
	short_text(v)
# stats looks only at what is within the ranges, so before any is set.
# The colours of a map span a fifth of its largest value at least, so that values that are nearly
# equal look so.
span_floor = 0.2
array low_of[panel_total]
array high_of[panel_total]
do for [k = 1:panel_total] {
	undefine STATS_records
	values = ""
	stats table using (column("panel") == k ? (values = values.sprintf(",%.4g", \
		column("value")), column("value")) : NaN) nooutput
	has_values = exists("STATS_records") && STATS_records > 0
	low_of[k] = has_values ? STATS_min : 0.0
	high_of[k] = has_values ? STATS_max : 1.0
	if (has_values) {
		eval note("describe", sprintf("%s: from %s to %s.", panel_title(k), \
			shown(k, low_of[k]), shown(k, high_of[k])))
	}
	eval note("cells", "[".values[2:*]."]")
}
span_of(k) = shown(k, low_of[k]).(low_of[k] < high_of[k] ? " to ".shown(k, high_of[k]) : "")
eval grid_open(8, 280, 3)
# A map with its values written into it needs no scale.
has_numbers = x_total <= (columns == 1 ? 9 : columns == 2 ? 8 : 6) && y_total <= 12
set palette defined (0 "#fde725", 1 "#7ad151", 2 "#22a884", 3 "#2a788e", 4 "#414487", 5 "#440154") \
	maxcolors 32
unset colorbox
unset key
unset grid
set xrange [0.5:x_total + 0.5]
set yrange [0.5:y_total + 0.5]
set xtics ()
set ytics ()
every_x = (x_total - 1) / (columns == 1 ? 10 : columns == 2 ? 8 : 6) + 1
every_y = (y_total - 1) / 10 + 1
# A long name is broken behind a hyphen, in a smaller font, and what is still too wide is cut.
break_at(text) = strlen(text) > 9 && strstrt(text[5:*], "-") > 0 ? strstrt(text[5:*], "-") + 4 : 0
name_of(text, most) = break_at(text) == 0 ? fit(text, most) : \
	fit(text[1:break_at(text)], most)."\n".fit(text[break_at(text) + 1:*], most)
tic_pixels = 6.5 # of a letter
x_most = int((panel_width - 104.0) / x_total * every_x / tic_pixels)
set tics font ",11"
# Names in two lines leave the x axis no room for its title.
has_broken = 0
do for [k = 1:x_total] { has_broken = has_broken || break_at(text_at("x_text", k, "")) > 0 }
do for [k = 1:x_total + y_total] {
	is_x = k <= x_total
	i = is_x ? k : k - x_total
	plain = name_of(text_at(is_x ? "x_text" : "y_text", i, ""), is_x ? x_most : 11)
	eval tic_label
	if (is_x && (i - 1) % every_x == 0) { set xtics add (shown_as i) }
	if (!is_x && (i - 1) % every_y == 0) { set ytics add (shown_as i) }
}
# What has no value is grey: the run failed or is missing.
set object 1 rectangle from graph 0, graph 0 to graph 1, graph 1 behind fillstyle solid 1 noborder \
	fillcolor rgb grid_color
set multiplot
do for [k = 1:panel_total] {
	eval panel_place(k, 24)
	if (!has_numbers) { set title panel_title(k).", ".span_of(k) noenhanced offset 0, 0.4 }
	set xlabel (is_lowest(k) && !has_broken ? x_title : "") noenhanced
	set label 90 (has_broken ? y_title_text." by ".x_title : y_title_text) \
		at screen y_title_x, graph 1 left offset 0, 0.75 noenhanced \
		textcolor rgb text_color
	low = low_of[k]
	high = high_of[k] > low ? high_of[k] : low + 1
	least = span_floor * (abs(high_of[k]) > abs(low_of[k]) ? abs(high_of[k]) : abs(low_of[k]))
	if (high - low < least) {
		middle = (low + high) / 2
		low = middle - least / 2
		high = middle + least / 2
	}
	set cbrange [low:high]
	depth(v) = (v - low) / (high - low)
	plot table using (column("panel") == k && column("value") == column("value") ? \
		column("x") : NaN):"y":(column("x") - 0.48):(column("x") + 0.48): \
		(column("y") - 0.48):(column("y") + 0.48):"value" \
		with boxxyerror fillstyle solid 1 noborder linecolor palette, \
		for [dark = 0:has_numbers ? 1 : -1] table using (column("panel") == k && \
		(depth(column("value")) > 0.45) == dark ? column("x") : NaN):"y": \
		(shown(k, column("value"))) with labels font ",13" \
		textcolor rgb (dark ? "#fefefe" : "#111111")
	eval kind(k) eq "time" ? panel("Value", "s", "", "") : \
		kind(k) eq "share" ? panel("Value", "%%", "", "") : panel("Value", "", "", "")
}
