# The prefix-cache hit rate of the runs of `quire sweep` against the tokens that their KV blocks
# hold, beside what caches of each size find of the trace without an engine (`quire trace cache`).
# The table has the columns series (1 LRU as engines do it, 2 LRU block by block, 3 FIFO, 4 Belady,
# 5 infinite, 6 runs, 7 runs that rejected requests), tokens, percent and group, from 1 for a run.
# Runs of a group differ in their size alone. quire sets group_total and group_name_1, ...
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c sweep_cache.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("sweep_cache.gp")]."style.gp"
	table = ARGV[2]
}
set datafile columnheaders
runs = 0
stats table using (column("series") >= 6 && column("tokens") > 0 ? column("tokens") : NaN): \
	(column("percent")) nooutput
if (exists("STATS_records")) { runs = STATS_records }
if (runs == 0) {
	eval figure_empty("no run knows its hit rate")
	exit
}
is_one_size = STATS_min_x == STATS_max_x
y_low = STATS_min_y
y_high = STATS_max_y
x_low = STATS_min_x / 4
x_high = STATS_max_x * 4
undefine STATS_records
stats table using (column("series") < 6 ? 1 : NaN) nooutput
has_curves = exists("STATS_records") && STATS_records > 0
if (!has_curves && is_one_size) {
	eval figure_empty("all runs have a cache of the same size")
	exit
}
eval note("describe", sprintf("%d runs of %s to %s tokens of KV cache hit %.1f to %.1f %%.", runs, \
	short_text(x_low * 4), short_text(x_high / 4), y_low, y_high))
undefine STATS_records
stats table using (column("series") == 7 ? 1 : NaN) nooutput
rejecting = exists("STATS_records") ? STATS_records : 0
stats table using (column("percent")) nooutput
# Names beside curves stand in two columns, in which a place is kept for the last one.
if (!exists("group_total")) { group_total = 1 }
array series_name[5] = ["LRU, as engines do", "LRU, block by block", "FIFO", "optimum (Belady)", \
	"infinite"]
group_name(g) = exists(sprintf("group_name_%d", g)) ? \
	fit(value(sprintf("group_name_%d", g)), 40) : "runs"
# Two columns of names have room for 20 characters each.
is_wide(g) = strlen(group_name(g)) > 20
name_total = (has_curves ? 5 : 0) + group_total + 1
name_columns = (sum [g = 1:group_total] is_wide(g)) > 0 ? 1 : 2
eval table_open(380, (name_total + name_columns - 1) / name_columns, 1)
# Colours that the curves do not have come first, and each group has a marker of its own. Later ones
# are smaller, so that runs with the same hit rate are seen.
group_color(g) = color((g + 3) % 8 + 1)
group_size(g) = 0.7 + 0.08 * (group_total - g)
set logscale x
set xrange [x_low:x_high]
set xtics autofreq
set format x "%.0s%c"
y_unit = " %%"
eval y_axis(STATS_max)
eval y_title("Prompt tokens found")
set xlabel "Tokens that the KV blocks hold"
is_in(unused) = column("tokens") >= x_low / 3 && column("tokens") <= x_high * 3
plot for [k = 1:has_curves ? 5 : 0] table using \
	(column("series") == k && is_in(0) ? column("tokens") : NaN):"percent" smooth unique \
	with lines linewidth 1.8 dashtype dash(k) linecolor rgb color(k) title series_name[k], \
	table using (column("group") == 1 ? column("tokens") : NaN):"percent" with points \
	pointtype marker(1) pointsize group_size(1) linecolor rgb text_color title group_name(1), \
	for [g = 2:group_total] table using \
	(column("group") == g ? column("tokens") : NaN):"percent" with points \
	pointtype marker(g) pointsize group_size(g) linecolor rgb group_color(g) \
	title group_name(g), \
	for [k = 1:rejecting > 0 ? 1 : 0] table using \
	(column("series") == 7 ? column("tokens") : NaN):"percent" with points \
	pointtype 6 pointsize group_size(1) + 0.5 linewidth 1.4 linecolor rgb slo_color \
	title "rejecting runs"
x_scale = "log"
layers = '"layers":["LRU, as engines do","LRU, block by block","FIFO","Belady","infinite"],'
eval panel("Found", "%%", "Tokens", "")
