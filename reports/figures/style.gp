# What all figures share: data format, palette, helpers. A figure calls for this file from its own
# folder; quire puts it in front of the figure instead and may then also have set
#
#   label_1, label_2, ...             names of the results (else the last part of each folder)
#   kv_capacity_1, kv_capacity_2, ... KV blocks of the pool (else no capacity is drawn)
#   kv_block_size_1, ...              tokens of a block; where they differ, tokens are drawn
#   has_legend = 0                    no legend in the figure: the page around it has one
#   no_hits_1, no_hits_2, ...         set where nothing is known of the result's cache hits
#   slo_1, slo_2, ...                 limit on the metric in s (else no line is drawn)
#   level_count, level_start_1, level_rate_1, ... levels of a ramp, in s and requests/s
#   window_start, window_end          the measured part of the run, in s
#   metric = "ttft"                   which latency latency.gp draws
#   is_linear = 1                     latency.gp draws linear axes
#   has_notes = 1                     print what reports/figures/notes.h reads
#   has_real = 1                      the first result is what the second simulates: it is drawn
#                                     broad, so that it is seen below a curve that meets it

quire_style = 1
if (!exists("has_legend")) { has_legend = 1 }
if (!exists("has_real")) { has_real = 0 }
if (!exists("has_notes")) { has_notes = 0 }

set encoding utf8
set datafile separator "\t"
set datafile missing NaN
set datafile commentschars ""

# A file name is never a pipe ("<...") or a home ("~..."): it starts with / or with ./
folder(i) = (ARGV[i + 1][1:1] eq "/" ? "" : "./").ARGV[i + 1]."/"
last_part(path) = strstrt(path, "/") ? last_part(path[strstrt(path, "/") + 1:*]) : path
trimmed(path) = strlen(path) > 1 && path[strlen(path):*] eq "/" ? \
	trimmed(path[1:strlen(path) - 1]) : path
label(i) = exists(sprintf("label_%d", i)) ? value(sprintf("label_%d", i)) : \
	last_part(trimmed(ARGV[i + 1]))

# The palette of Okabe and Ito, two of its colours replaced by ones that read on white. The page
# reads these lines and X_color below: a light page has the same colours, a dark one its own.
array palette_run[8]
palette_run[1] = 0x0072b2
palette_run[2] = 0xd55e00
palette_run[3] = 0x009e73
palette_run[4] = 0xcc79a7
palette_run[5] = 0x56b4e9
palette_run[6] = 0xe69f00
palette_run[7] = 0x7a5195
palette_run[8] = 0x8c8c00
color(i) = palette_run[i]
pen(i) = has_real && i == 1 ? 5 : 1.8
faint(i) = palette_run[i] + 0xa0000000
# Of what is read as values too, and not only seen behind another curve.
light(i) = palette_run[i] + 0x50000000
# Besides its colour a result has its dashes and its marker, for print without colours.
set dashtype 12 (6, 2.5)
set dashtype 13 (2, 1.5)
set dashtype 14 (8, 2, 1.5, 2)
set dashtype 15 (12, 3)
set dashtype 16 (3, 1.5)
set dashtype 17 (8, 2, 1.5, 2, 1.5, 2)
set dashtype 18 (2, 4)
dash(i) = i == 1 ? 1 : 10 + i
marker(i) = word("7 5 9 13 11 15 4 6", i) + 0
text_color = "#1f2933"
grid_color = "#d5dbe1"
slo_color = "#a62c00"
background_color = "#fdfdfe"

set border 3 linecolor rgb text_color linewidth 1
set tics nomirror out scale 0.4 textcolor rgb text_color
set grid linetype 1 linecolor rgb grid_color linewidth 1
set xtics offset 0, 0.4
set xlabel offset 0, 0.8 textcolor rgb text_color
set ylabel offset 0.5, 0 textcolor rgb text_color
set cblabel textcolor rgb text_color
set title textcolor rgb text_color
set key at screen 0.02, 0.99 left top vertical Left reverse noenhanced samplen 1.5 \
	textcolor rgb text_color
set lmargin 9
set rmargin 3

# The name of a result in a sentence about several.
of_run(i) = ARGC > 2 ? label(i).": " : ""

# A sentence of a kind for what surrounds the figure: `eval note("describe", text)`.
note(kind, text) = (noted = "note ".kind." ".text, has_notes ? "print noted" : "")

# What turns a place in the panel just plotted into values, for page.js:
# `eval panel(name, unit, x, unit of x)`. box: left, right, top and bottom edge in the drawing.
# x, y: values of the edges. A tail is drawn as -log10(1 - share). layers: names of stacked areas by
# their colours. A text from a file is never part of what eval takes, which would run it: it is a
# variable there.
x_scale = "linear"
y_scale = "linear"
layers = ""
layer(text) = "\"".without_quotes(text)."\""
without_quotes(text) = text eq "" ? "" : \
	(strstrt("\"\\", text[1:1]) > 0 ? "'" : text[1:1]).without_quotes(text[2:*])
panel(name, y_unit, x_name, x_unit) = sprintf("if (has_notes) { print sprintf('note panel ".\
	"{\"name\":\"%s\",\"y_unit\":\"%s\",\"x_name\":\"%s\",\"x_unit\":\"%s\",".\
	"\"x_scale\":\"%s\",\"y_scale\":\"%s\",%%s\"box\":[%%.2f,%%.2f,%%.2f,%%.2f],".\
	"\"x\":[%%.9g,%%.9g],\"y\":[%%.9g,%%.9g]}', layers, GPVAL_TERM_XMIN, GPVAL_TERM_XMAX, ".\
	"height - GPVAL_TERM_YMAX, height - GPVAL_TERM_YMIN, GPVAL_X_MIN, GPVAL_X_MAX, ".\
	"GPVAL_Y_MIN, GPVAL_Y_MAX) }", name, y_unit, x_name, x_unit, x_scale, y_scale)
panel_in_time(name, y_unit) = panel(name, y_unit, "Time", time_name)

# The title of a y axis stands above it, where wide tic labels leave it free: `eval y_title(text)`.
y_title(text) = sprintf("set label 90 '%s' at screen y_title_x, graph 1 left offset 0, %g ".\
	"textcolor rgb text_color noenhanced", text, y_title_lift)
y_title_lift = 0.75
y_title_x = 0.012

# Opens a figure of some panels, one above the other: `eval figure_open(height, panels)`. A legend
# adds a line a result.
figure_open(height, panels) = sprintf("has_legend = has_legend && ARGC > 2; ".\
	"legend_height = has_legend ? 19 * (ARGC - 1) + 8 : 0; height = %d + legend_height; ".\
	"set terminal svg size 640, height dynamic font 'sans-serif,15' background '%s'; ".\
	"set output ARG1; if (!has_legend) { unset key }; ".\
	"set multiplot layout %d, 1 margins screen 0.125, 0.965, 60.0 / height, ".\
	"1 - (legend_height + 28.0) / height spacing screen 0, 60.0 / height", \
	height, background_color, panels)

# Opens a figure with a panel for each result, side by side: `eval panels_open(head, panel, most)`.
# head: pixels above all panels; panel: of a row of them; most: columns at most.
panel_columns(n, most) = n == 1 ? 1 : n == 2 || n == 4 || most == 2 ? 2 : n < 7 || most == 3 ? 3 : 4
panels_open(head, panel, most) = "panel_total = ARGC - 1; ".grid_open(head, panel, most)
panel_title(i) = label(i)
# The same of panel_total panels, whose panel_title(i) may be replaced:
# `eval grid_open(head, panel, most)`.
grid_open(head, panel, most) = sprintf("columns = panel_columns(panel_total, %d); ".\
	"width = columns == 1 ? 640 : 1280; panel_width = width / columns; panel_head = %d; ".\
	"title_most = int((panel_width - 104) / 7.2); ".\
	"panel_height = %d + (panel_total > 1 ? 24 : 0); ".\
	"height = panel_head + panel_height * ((panel_total - 1) / columns + 1); ".\
	"set terminal svg size width, height dynamic font 'sans-serif,15' background '%s'; ".\
	"set output ARG1", most, head, panel, background_color)
# Places the i-th: `eval panel_place(i, right)`; right: pixels that stay free for a legend.
panel_left(i) = (i - 1) % columns * panel_width
panel_top(i) = panel_head + (i - 1) / columns * panel_height
is_lowest(i) = i + columns > panel_total
panel_place(i, right) = sprintf("set lmargin at screen (panel_left(%d) + 80.0) / width; ".\
	"set rmargin at screen (panel_left(%d) + panel_width - %d) / (width * 1.0); ".\
	"set tmargin at screen 1 - (panel_top(%d) + (panel_total > 1 ? 48.0 : 24.0)) / height; ".\
	"set bmargin at screen 1 - (panel_top(%d) + panel_height - 52.0) / height; ".\
	"y_title_x = (panel_left(%d) + 8.0) / width; ".\
	"if (panel_total > 1) { set title cut_title(%d) noenhanced ".\
	"offset 0, 0.4 }", i, i, right, i, i, i, i)
fit(text, most) = strlen(text) > most ? text[1:most - 1]."…" : text
title_most = 30 # of a panel of 320 pixels

# Titles of panels that are too long are cut at the end; those that would then be equal, in the
# middle; and where that does not tell them apart either, they are numbered.
cut_end(i) = fit(panel_title(i), title_most)
middle(text, most) = strlen(text) > most ? text[1:most / 2 - 1]."…".\
	text[strlen(text) - most + most / 2 + 1:*] : text
cut_middle(i) = middle(panel_title(i), title_most)
of_one_end(i) = (sum [k = 1:panel_total] (cut_end(k) eq cut_end(i)))
of_one_cut(i) = (sum [k = 1:panel_total] \
	(cut_end(k) eq cut_end(i) && cut_middle(k) eq cut_middle(i)))
cut_title(i) = of_one_end(i) == 1 ? cut_end(i) : of_one_cut(i) == 1 ? cut_middle(i) : \
	fit(sprintf("%d. ", i).panel_title(i), title_most)

# The label of a tic is a format: `eval tic_label` sets shown_as to the text `plain`, in which a %
# is doubled.
tic_label = "shown_as = ''; do for [c = 1:strlen(plain)] ".\
	"{ shown_as = shown_as . plain[c:c] . (plain[c:c] eq '%' ? '%' : '') }"

# Opens a figure that stands alone, with subject as its title and a legend above the panels:
# `eval standalone_open(height, head, panels)`. head: pixels above the first panel.
standalone_open(pixels, head, panels) = sprintf("height = %d; ".\
	"set terminal svg size 640, height dynamic font 'sans-serif,15' background '%s'; ".\
	"set output ARG1; ".\
	"set label 91 subject at screen 0.012, screen 1 - 14.0 / height left noenhanced ".\
	"font ',17' textcolor rgb text_color; ".\
	"set key at screen 0.012, screen 1 - 30.0 / height left top horizontal Left reverse ".\
	"noenhanced samplen 2 maxcols 3 textcolor rgb text_color; ".\
	"set multiplot layout %d, 1 margins screen 0.125, 0.965, 60.0 / height, ".\
	"1 - %d.0 / height spacing screen 0, 76.0 / height", pixels, background_color, panels, \
	head + 20)

# Instead of a figure without a curve, a sentence: `eval figure_empty(text)`.
figure_empty(text) = note("empty", text)."; ".\
	sprintf("set terminal svg size 640, 130 dynamic font 'sans-serif,15' ".\
	"background '%s'; set output ARG1; unset border; unset tics; unset key; unset grid; ".\
	"unset xlabel; unset ylabel; set xrange [0:1]; set yrange [0:1]; ".\
	"set label 1 '%s' at graph 0.5, graph 0.5 center textcolor rgb text_color; ".\
	"plot NaN notitle", background_color, text)

# A timeline becomes some hundred points, each the average of `per` bins: more would not be seen,
# least of all where curves lie over each other, and would make the file large. A point holds some
# steps at least, or rates would tell in which bin a step happened to end. Columns of $timeline_N:
# time in s, running, waiting, used blocks, output tokens/s, prefill tokens/s, hit tokens, query
# tokens, preemptions so far, busy share.
fold_start(row) = (s_running = 0, s_waiting = 0, s_used = 0, s_output = 0, s_prefill = 0, \
	s_hit = 0, s_query = 0, s_busy = 0, bins = 0, from = column("time_s"))
fold_add(row) = (s_running = s_running + column("running"), \
	s_waiting = s_waiting + column("waiting"), s_used = s_used + column("used_blocks"), \
	s_output = s_output + column("output_tokens"), \
	s_prefill = s_prefill + column("prefill_tokens"), s_hit = s_hit + column("hit_tokens"), \
	s_query = s_query + column("query_tokens"), \
	s_preempted = s_preempted + column("preemptions"), \
	s_busy = s_busy + column("busy_share"), width = column("width_s"), bins = bins + 1)
fold(row) = (row % per == 0 ? fold_start(row) : 0, fold_add(row), row_count = row + 1, \
	(from + column("time_s") + width) / 2)
timeline_load = "set datafile columnheaders; ".\
	"points_max = ARGC == 2 ? 300 : ARGC == 3 ? 160 : 120; do for [i = 1:ARGC - 1] { ".\
	"stats folder(i).'timeline.tsv' using (column('time_s') + column('width_s')) nooutput; ".\
	"records = exists('STATS_records') ? int(STATS_records) : 0; ".\
	"records_most = records > records_most ? records : records_most; ".\
	"time_end = records > 0 && STATS_max > time_end ? STATS_max : time_end; ".\
	"points = points_max; ".\
	"if (records > 0) { stats folder(i).'timeline.tsv' using (column('steps')) nooutput; ".\
	"points = STATS_sum / 20 < 60 ? 60 : STATS_sum / 20 < points_max ? int(STATS_sum / 20) : ".\
	"points_max }; ".\
	"per = (records + points - 1) / points; s_preempted = 0.0; row_count = 0; ".\
	"eval sprintf(records > 0 ? 'set table $timeline_%d' : 'set print $timeline_%d', i); ".\
	"if (records == 0) { print nothing; unset print } else { ".\
	"plot folder(i).'timeline.tsv' using (fold(row_count)):(s_running / bins):".\
	"(s_waiting / bins):(s_used / bins):(s_output / (bins * width)):".\
	"(s_prefill / (bins * width)):(s_hit):(s_query):(s_preempted):(s_busy / bins) ".\
	"with table if (bins == per || row_count == records); unset table } }; ".\
	"set datafile nocolumnheaders"
records_most = 0
time_end = 0.0
nothing = "NaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN"
timeline(i) = sprintf("$timeline_%d", i)

# The largest value of a column of all timelines (stats looks only at what is in the range).
largest_of(column_number) = sprintf("largest = 0.0; set yrange [*:*]; do for [i = 1:ARGC - 1] { ".\
	"stats timeline(i) using %d nooutput; ".\
	"if (exists('STATS_max') && STATS_max > largest) { largest = STATS_max } }", column_number)

# An axis from 0 with about four tics of 1, 2 or 5 times a power of ten: `eval y_axis(largest)`.
short_text(x) = x < 1000 ? sprintf("%.3g", x) : x < 999500 ? sprintf("%.3gk", x / 1e3) : \
	x < 999.5e6 ? sprintf("%.3gM", x / 1e6) : sprintf("%.3gG", x / 1e9)
# 2 to the power of k: 512, 2k, 1M.
power_text(k) = k < 10 ? sprintf("%d", 2 ** k) : k < 20 ? sprintf("%dk", 2 ** (k - 10)) : \
	sprintf("%dM", 2 ** (k - 20))

# Times with their unit: 250 µs, 40 ms, 2 s.
text_of(x) = x < 0.9995e-6 ? sprintf("%.3g ns", x * 1e9) : \
	x < 0.9995e-3 ? sprintf("%.3g µs", x * 1e6) : x < 0.9995 ? sprintf("%.3g ms", x * 1e3) : \
	x < 999.5 ? sprintf("%.3g s", x) : sprintf("%.0f s", x)
power_below(x) = 10.0 ** floor(log10(x) + 1e-9)
tic_of(x) = x / power_below(x) < 1.5 ? power_below(x) : x / power_below(x) < 3.5 ? \
	2 * power_below(x) : x / power_below(x) < 7.5 ? 5 * power_below(x) : 10 * power_below(x)
count_text(x) = x < 1000 ? sprintf("%g", x) : x < 999500 ? \
	sprintf("%gk", x / 1e3) : x < 999.5e6 ? sprintf("%gM", x / 1e6) : sprintf("%gG", x / 1e9)
y_axis(top) = sprintf("y_top = %.9g > 0 ? 1.05 * %.9g : 1.0; y_tic = tic_of(y_top / 4.2); ".\
	"set yrange [0:y_top]; set ytics (); do for [k = 0:int(y_top / y_tic)] ".\
	"{ set ytics add (count_text(k * y_tic).y_unit k * y_tic) }", top, top)
y_unit = ""

# In figures of one run over time: the edges of a ramp's levels with their rates, and a shade over
# what is not measured.
marks_max = 40
labels_max = 10
time_pixels = 536 # the width of such a figure's panel
if (!exists("level_count")) { level_count = 0 }
# A rate is written where the one before ends, at 6.5 pixels a character.
mark_levels = "if (level_count <= marks_max) { rate_end = -10.0; do for [k = 1:level_count] { ".\
	"place = value(sprintf('level_start_%d', k)) / time_unit; ".\
	"set arrow 100 + k from first place, graph 0 to first place, graph 1 nohead back ".\
	"linewidth 1 dashtype 14 linecolor rgb '#9aa5b1'; ".\
	"rate_text = sprintf('%.3g/s', value(sprintf('level_rate_%d', k))); ".\
	"rate_at = time_end > 0 ? time_pixels * place * time_unit / time_end : 0; ".\
	"if (level_count <= labels_max && rate_at >= rate_end) { ".\
	"rate_end = rate_at + 6.5 * strlen(rate_text) + 6; set label 100 + k rate_text ".\
	"at first place, graph 1 left offset 0.2, -0.5 font ',11' textcolor rgb text_color } } }"
mark_shade = " behind fillcolor rgb grid_color fillstyle transparent solid 0.5 noborder }"
mark_window = "if (exists('window_end') && window_start > 0.005 * time_end) { ".\
	"set object 101 rectangle from graph 0, graph 0 to ".\
	"first window_start / time_unit, graph 1".mark_shade."; ".\
	"if (exists('window_end') && window_end < 0.995 * time_end) { ".\
	"set object 102 rectangle from first window_end / time_unit, graph 0 to ".\
	"graph 1, graph 1".mark_shade

# The axis of time in a unit that keeps its numbers short: `eval time_axis`. The unit is not an
# integer: quire sets places in whole seconds, and 50 / 60 is 0.
time_axis = "time_unit = time_end < 1 ? 0.001 : time_end < 300 ? 1.0 : time_end < 10800 ? ".\
	"60.0 : 3600.0; time_name = time_unit < 1 ? 'ms' : time_unit < 60 ? 's' : ".\
	"time_unit < 3600 ? 'min' : 'h'; time_label = 'Time (' . time_name . ')'; ".\
	"set xrange [0:time_end > 0 ? time_end / time_unit : 1]; ".mark_levels."; ".mark_window

# A column of the timelines in words, after time_axis: `eval describe(name, column)`.
describe(name, column_number) = sprintf("set xrange [*:*]; set yrange [*:*]; ".\
	"do for [i = 1:ARGC - 1] { stats timeline(i) using 1:%d nooutput; ".\
	"if (exists('STATS_max_y')) { eval note('describe', sprintf('%%s%s: at most %%s, after ".\
	"%%.3g %%s; %%s on average.', of_run(i), short_text(STATS_max_y), ".\
	"STATS_pos_max_y / time_unit, time_name, short_text(STATS_mean_y))) } }; eval time_axis", \
	column_number, name)

# Few points are drawn as points too: a line needs two.
curve_style = "with linespoints pointtype marker(i) pointsize 0.5 pointnumber 24 ".\
	"linewidth pen(i) dashtype dash(i)"
line_style = "with lines linewidth pen(i) dashtype dash(i)"

# Opens a figure of a table, with panels one above the other and a legend of `rows` lines:
# `eval table_open(height, rows, panels)`.
table_open(pixels, rows, panels) = sprintf("height = %d + 24 * %d; ".\
	"set terminal svg size 640, height dynamic font 'sans-serif,15' background '%s'; ".\
	"set output ARG1; ".\
	"set key at screen 0.012, screen 1 - 3.0 / height left top horizontal Left reverse ".\
	"noenhanced samplen 2 maxcols 3 textcolor rgb text_color; ".\
	"set multiplot layout %d, 1 margins screen 0.125, 0.965, 60.0 / height, ".\
	"1 - (38.0 + 24 * %d) / height spacing screen 0, 76.0 / height", pixels, rows, \
	background_color, panels, rows)

# A logarithmic axis of times: `eval log_axis("y", low, high)`, in s. Within a decade 1, 2 and 5
# would be two tics or fewer, so it has equal steps there.
log_axis(axis, low, high) = sprintf("set logscale %s; set %srange [%.9g:%.9g]; set %stics (); ".\
	"decades = log10(1.0 * %.9g / %.9g); ", axis, axis, low, high, axis, high, low).\
	(high < 10.0 * low ? step_tics(axis, low, high) : power_tics(axis, low, high))
step_tics(axis, low, high) = sprintf("log_step = tic_of((%.9g - %.9g) / 4.2); ".\
	"do for [k = int(ceil(%.9g / log_step)):int(floor(%.9g / log_step))] ".\
	"{ set %stics add (text_of(k * log_step) k * log_step) }", high, low, low, high, axis)
power_tics(axis, low, high) = sprintf(\
	"do for [e = floor(log10(%.9g)):ceil(log10(%.9g))] { ".\
	"do for [m in decades > 4.5 ? '1' : decades > 2.2 ? '1 3' : '1 2 5'] { ".\
	"at = m * 10.0 ** e; if (at >= %.9g && at <= %.9g && (decades < 7 || e %% 2 == 0)) ".\
	"{ set %stics add (text_of(at) at) } } }", low, high, low, high, axis)

# ---- plans ----
# Figures over the load of `quire plan` read plan.tsv, and may find set
#
#   knob, unit                         what varies, and the unit of its values
#   pass, fail                         the value that passes, and the nearest one that fails
#   sampling_low, sampling_high        ends of the two intervals of the value that passes; an
#   model_low, model_high              interval of which one is missing is open there
#   ttft_slo, tpot_slo, e2e_slo        limits of each request in ms; attain_slo, the share that
#                                      must be within them, and has_slo = 1 where there are any:
#                                      else it is the share that finishes
#   limit_total, limit_latency_1, ...  limits on latencies of the run: of TTFT, TPOT, E2E, queue or
#   limit_statistic_1, limit_value_1   ITL (1 to 5), "p95" and its like, ms
#   chosen                             whose rows are drawn (else those of the first row)
#   lost_own                           replicas lost in the runs of the search (else 0)
#
# A row counts if it is one of the search itself, on the trace itself: `is_own(0)`.
sampling_color = palette_run[7]
model_color = palette_run[6]
plan_load = "set datafile columnheaders; ".\
	"if (!exists('knob')) { knob = 'Load' }; if (!exists('unit')) { unit = '' }; ".\
	"if (!exists('lost_own')) { lost_own = 0 }; ".\
	"has_sampling = exists('sampling_low') || exists('sampling_high'); ".\
	"has_model = exists('model_low') || exists('model_high'); ".\
	"if (!exists('chosen')) { chosen = ''; ".\
	"stats table using (chosen = chosen eq '' ? stringcolumn('configuration') : chosen, 0) ".\
	"nooutput }; knob_title = knob . (unit eq '' ? '' : ', ' . unit); ".\
	"x_end = 0.0; x_points = 0; ".\
	"stats table using (is_own(0) ? column('load') : NaN) nooutput; ".\
	"if (exists('STATS_max')) { x_points = STATS_records; x_end = STATS_max; ".\
	"most = exists('pass') ? 1.5 * pass : x_end; ".\
	"most = exists('model_high') && model_high * 1.1 > most ? model_high * 1.1 : most; ".\
	"undefine STATS_max; stats table using (is_own(0) && column('load') <= most ? ".\
	"column('load') : NaN) nooutput; ".\
	"x_end = exists('STATS_max') ? STATS_max : most; ".\
	"x_end = exists('model_high') && model_high > x_end ? model_high : x_end; ".\
	"x_end = exists('sampling_high') && sampling_high > x_end ? sampling_high : x_end; ".\
	"x_end = exists('pass') && x_end > 3 * pass ? 3 * pass : x_end }"
is_own(unused) = stringcolumn("configuration") eq chosen && column("replicate") == 0 && \
	column("lost") == lost_own && abs(column("step_time_scale") - 1) < 1e-9 && \
	stringcolumn("purpose") ne "alone"
x_of(unused) = is_own(0) && column("load") <= x_end * 1.0001 ? column("load") : NaN

# The axis of the load from 0: `eval load_axis`.
# An end that is set by quire may be an integer, and a sixth of that would be one too.
load_axis = "x_end = x_end > 0 ? 1.0 * x_end : 1.0; x_tic = tic_of(x_end / 6); ".\
	"x_tic = knob eq 'Replicas' && x_tic < 1 ? 1 : x_tic; ".\
	"set xrange [0:x_end * 1.04]; set xtics (); do for [k = 0:int(x_end * 1.04 / x_tic)] ".\
	"{ set xtics add (count_text(k * x_tic) k * x_tic) }"

# The knee and the intervals: a line at the value that passes, and for each interval a shade and
# a bar above it, which has no stop at an open end: `eval load_bands`, once a panel.
band(n, low, high, rgb, at, ends) = sprintf("set object %d rectangle from %.9g, graph 0 to ".\
	"%.9g, graph 1 behind fillcolor rgb %d fillstyle transparent solid 0.16 noborder; ".\
	"set arrow %d from %.9g, graph %g to %.9g, graph %g %s size screen 0.006, 90 ".\
	"front linewidth 2.5 linecolor rgb %d", n, low, high, rgb, n, low, at, high, at, ends, \
	rgb + 0x10000000)
band_lift = 1.0 # less in a tall panel
clip(x) = x > x_end * 1.04 ? x_end * 1.04 : x
low_end(name) = exists(name."_low") ? clip(value(name."_low")) : 0
high_end(name) = exists(name."_high") ? clip(value(name."_high")) : x_end * 1.04
stops(name) = !exists(name."_low") ? "head" : !exists(name."_high") ? "backhead" : "heads"
load_bands = "if (has_model || has_sampling) { y_title_lift = 1.25 }; ".\
	"if (has_model) { eval band(201, low_end('model'), high_end('model'), model_color, ".\
	"1 + 0.02 * band_lift, stops('model')) }; ".\
	"if (has_sampling) { eval band(202, low_end('sampling'), high_end('sampling'), ".\
	"sampling_color, 1 + 0.055 * band_lift, stops('sampling')) }; ".\
	"if (exists('pass') && pass <= x_end * 1.04) { set arrow 203 from pass, graph 0 to ".\
	"pass, graph 1 nohead front linewidth 1.6 dashtype 13 linecolor rgb text_color }"
