# Requests that wait for their first admission by cause, over time, from timeline.tsv: stacked, a
# panel for each result.
if (ARGC < 2) { print "usage: gnuplot -c waits.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("waits.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
# $waits_N: time in s, and the sums of the first 0, 1, ... 5 causes, each point the average of `per`
# bins as in $timeline_N.
array cause[5]
cause[1] = "step in flight"
cause[2] = "seats"
cause[3] = "KV blocks"
cause[4] = "token budget"
cause[5] = "order"
zero(row) = (w1 = 0, w2 = 0, w3 = 0, w4 = 0, w5 = 0, bins = 0, from = column("time_s"))
fold_waits(row) = (row % per == 0 ? zero(row) : 0, w1 = w1 + column("wait_step"), \
	w2 = w2 + column("wait_seats"), w3 = w3 + column("wait_blocks"), \
	w4 = w4 + column("wait_budget"), w5 = w5 + column("wait_order"), bins = bins + 1, \
	row_count = row + 1, (from + column("time_s") + column("width_s")) / 2)
waits_of(i) = sprintf("$waits_%d", i)
set datafile columnheaders
do for [i = 1:ARGC - 1] {
	stats folder(i)."timeline.tsv" using (column("steps")) nooutput
	records = exists("STATS_records") ? int(STATS_records) : 0
	if (records == 0) {
		eval sprintf("set print $waits_%d", i)
		print nothing
		unset print
		continue
	}
	per = (records + points_max - 1) / points_max
	row_count = 0
	eval sprintf("set table $waits_%d", i)
	plot folder(i)."timeline.tsv" using (fold_waits(row_count)):(0):(w1 / bins): \
		((w1 + w2) / bins):((w1 + w2 + w3) / bins):((w1 + w2 + w3 + w4) / bins): \
		((w1 + w2 + w3 + w4 + w5) / bins) \
		with table if (bins == per || row_count == records)
	unset table
}
set datafile nocolumnheaders
largest = 0.0
array present[5]
do for [k = 1:5] { present[k] = 0 }
do for [i = 1:ARGC - 1] {
	stats waits_of(i) using 7 nooutput
	if (exists("STATS_max") && STATS_max > largest) { largest = STATS_max }
	do for [k = 1:5] {
		stats waits_of(i) using (column(k + 2) - column(k + 1)) nooutput
		if (exists("STATS_max") && STATS_max > 0) { present[k] = 1 }
	}
}
if (largest == 0) {
	eval figure_empty("no request waited")
	exit
}
panel = ARGC > 2 ? 240 : 250
height = 76 + panel * (ARGC - 1)
eval time_axis
eval sprintf("set terminal svg size 640, %d dynamic font 'sans-serif,15' background '%s'", \
	height, background_color)
set output ARG1
eval y_axis(largest)
set ylabel "Waiting"
set style fill solid 1 noborder
set key at screen 0.125, screen 1 - 6.0 / height left top horizontal Left reverse noenhanced \
	samplen 0.6
set multiplot
do for [i = 1:ARGC - 1] {
	set tmargin at screen 1 - (58.0 + (ARGC > 2 ? 24 : 0) + panel * (i - 1)) / height
	set bmargin at screen 1 - (16.0 + panel * i) / height
	set lmargin at screen 0.125
	set rmargin at screen 0.965
	if (ARGC > 2) { set title label(i) noenhanced offset 0, -0.6 }
	if (i > 1) { unset key }
	set xlabel (i == ARGC - 1 ? time_label : "")
	plot for [k = 1:5] waits_of(i) using ($1 / time_unit):(column(k + 1)):(column(k + 2)) \
		with filledcurves linecolor rgb color(k) title (present[k] ? cause[k] : "")
}
