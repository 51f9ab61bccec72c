# Requests that wait for their first admission by cause, over time, from timeline.tsv: stacked, a
# panel for each result.
if (ARGC < 2) { print "usage: gnuplot -c waits.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("waits.gp")]."style.gp" }

eval timeline_load
if (records_most == 0) {
	eval figure_empty("no step was run")
	exit
}
# $waits_N: time in s, and the sums of the first 0, 1, ... 7 causes, each point the average of `per`
# bins as in $timeline_N.
array cause[7]
cause[1] = "step in flight"
cause[2] = "seats"
cause[3] = "KV blocks"
cause[4] = "token budget"
cause[5] = "order"
cause[6] = "router"
cause[7] = "lost attempts"
zero(row) = (w1 = 0, w2 = 0, w3 = 0, w4 = 0, w5 = 0, w6 = 0, w7 = 0, bins = 0, \
	from = column("time_s"))
fold_waits(row) = (row % per == 0 ? zero(row) : 0, w1 = w1 + column("wait_step"), \
	w2 = w2 + column("wait_seats"), w3 = w3 + column("wait_blocks"), \
	w4 = w4 + column("wait_budget"), w5 = w5 + column("wait_order"), \
	w6 = w6 + column("wait_router"), w7 = w7 + column("wait_lost"), bins = bins + 1, \
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
		((w1 + w2 + w3 + w4 + w5) / bins):((w1 + w2 + w3 + w4 + w5 + w6) / bins): \
		((w1 + w2 + w3 + w4 + w5 + w6 + w7) / bins) \
		with table if (bins == per || row_count == records)
	unset table
}
set datafile nocolumnheaders
largest = 0.0
array present[7]
do for [k = 1:7] { present[k] = 0 }
do for [i = 1:ARGC - 1] {
	stats waits_of(i) using 9 nooutput
	if (exists("STATS_max") && STATS_max > largest) { largest = STATS_max }
	do for [k = 1:7] {
		stats waits_of(i) using (column(k + 2) - column(k + 1)) nooutput
		if (exists("STATS_max") && STATS_max > 0) { present[k] = 1 }
	}
}
if (largest == 0) {
	eval figure_empty("no request waited")
	exit
}
layers = '"layers":['.layer(cause[1])
do for [k = 2:7] { layers = layers.",".layer(cause[k]) }
layers = layers."],"
eval panels_open(30, 270, 3)
eval time_axis
eval y_axis(largest)
set style fill solid 1 noborder
unset key
at = 80.0
do for [k = 1:7] {
	if (present[k]) {
		set object 10 + k rectangle from screen at / width, screen 1 - 22.0 / height to \
			screen (at + 14) / width, screen 1 - 8.0 / height fillcolor rgb color(k) \
			fillstyle solid 1 noborder
		set label 10 + k cause[k] at screen (at + 20) / width, screen 1 - 15.0 / height \
			left textcolor rgb text_color
		at = at + 44 + 7.6 * strlen(cause[k])
	}
}
set multiplot
do for [i = 1:ARGC - 1] {
	eval panel_place(i, 24)
	eval y_title("Waiting")
	set xlabel (is_lowest(i) ? time_label : "")
	plot for [k = 1:7] waits_of(i) using ($1 / time_unit):(column(k + 1)):(column(k + 2)) \
		with filledcurves linecolor rgb color(k) notitle
	do for [k = 1:7] { unset object 10 + k; unset label 10 + k }
	eval panel_in_time("Waiting", "")
	said = of_run(i)
	do for [k = 1:7] {
		stats waits_of(i) using (column(k + 2) - column(k + 1)) nooutput
		mean = exists("STATS_mean") ? STATS_mean : 0
		said = said.(present[k] ? sprintf("%s %s; ", cause[k], short_text(mean)) : "")
	}
	eval note("describe", said."in requests, on average.")
}
