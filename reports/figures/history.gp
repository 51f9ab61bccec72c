# A figure over the runs of a gate's history, as small multiples: a panel for each case. The table
# has the columns panel, run (both from 1), value, level (the mean of the stretch between two change
# points), mark (of the first run of a level: 1 better, -1 worse, 2 neither; else 0), and commit. A
# row with a level has no value, and the other way round. quire puts it in front of the script and
# sets
#
#   panel_total, panel_name_1, ...   the cases
#   panel_text_1, ...                a sentence on each
#   run_total                        runs of the history
#   tic_total, tic_text_1, tic_at_1, ...  runs whose commits stand at the axis
#   kind                             time (in s), share (in %) or plain
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c history.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("history.gp")]."style.gp"
	table = ARGV[2]
}
set datafile columnheaders
if (!exists("kind")) { kind = "plain" }
if (!exists("tic_total")) { tic_total = 0 }
stats table using (column("panel")):(column("run")) nooutput
if (!exists("panel_total")) { panel_total = int(STATS_max_x) }
if (!exists("run_total")) { run_total = int(STATS_max_y) }
text_at(name, k, otherwise) = exists(sprintf("%s_%d", name, k)) ? \
	value(sprintf("%s_%d", name, k)) : otherwise
panel_title(k) = text_at("panel_name", k, sprintf("%d", k))
# stats looks only at what is within the ranges, so before any is set. A panel shows 4 % of its
# level at least, or the last digits of a level would look like changes of it.
array low[panel_total]
array high[panel_total]
do for [k = 1:panel_total] {
	stats table using (column("panel") == k ? column("value") : NaN) nooutput
	middle = (STATS_min + STATS_max) / 2
	half = (STATS_max - STATS_min) / 2
	least = 0.02 * abs(middle)
	half = half > least ? half : least > 0 ? least : 1.0
	high[k] = middle + 1.15 * half
	low[k] = middle - 1.15 * half
	low[k] = STATS_min >= 0 && low[k] < 0 ? -0.03 * high[k] : low[k]
	eval note("describe", text_at("panel_text", k, ""))
}
sign_text(x, text) = (x < 0 ? "-" : "").text
number_text(x) = kind eq "time" ? (x == 0 ? "0" : sign_text(x, text_of(abs(x)))) : \
	sign_text(x, count_text(abs(x))).(kind eq "share" ? " %%" : "")
# About four tics; the k-th counts from zero, so that a panel need not begin there.
value_axis(bottom, top) = sprintf("set yrange [%.9g:%.9g]; ".\
	"y_tic = tic_of((%.9g - %.9g) / 4.2); set ytics (); ".\
	"do for [t = int(ceil(%.9g / y_tic)):int(floor(%.9g / y_tic))] ".\
	"{ set ytics add (number_text(t * y_tic) t * y_tic) }", \
	bottom, top, top, bottom, bottom, top)
mark_color(unused) = column("mark") < 0 ? 0xa62c00 : column("mark") == 1 ? palette_run[3] : \
	palette_run[8]
x_of(k) = column("panel") == k ? column("run") : NaN
mark_of(k) = column("panel") == k && column("mark") != 0 ? column("run") - 0.5 : NaN
eval grid_open(8, 250, 3)
set multiplot
unset key
set xrange [0.5:run_total + 0.5]
set xtics ()
do for [t = 1:tic_total] {
	set xtics add (text_at("tic_text", t, "") text_at("tic_at", t, 0))
}
do for [k = 1:panel_total] {
	eval panel_place(k, 36) # half the text of the last commit
	eval value_axis(low[k], high[k])
	set xlabel (is_lowest(k) ? "Commit" : "") noenhanced
	plot table using (x_of(k)):"value" with linespoints pointtype 7 \
		pointsize (run_total > 200 ? 0 : 0.35) linewidth 1 linecolor rgb color(1), \
		table using (x_of(k)):"level" with lines linewidth 5 linecolor rgb faint(1), \
		table using (mark_of(k)):(low[k]):(0):(high[k] - low[k]):(mark_color(0)) \
		with vectors nohead linewidth 1.6 dashtype 13 linecolor rgb variable, \
		table using (mark_of(k)):(high[k] - 0.03 * (high[k] - low[k])):\
		(stringcolumn("commit")):(mark_color(0)) with labels right rotate by 90 \
		offset -0.7, 0 noenhanced font ",12" textcolor rgb variable
	eval kind eq "time" ? panel("Value", "s", "Run", "") : \
		kind eq "share" ? panel("Value", "%%", "Run", "") : panel("Value", "", "Run", "")
}
