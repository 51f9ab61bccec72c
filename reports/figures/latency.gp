# The share of requests (of gaps between tokens, for itl) that were at most so slow, from
# latency.tsv, with p50, p90 and p99 marked. Time to first token, or another metric of queue, ttft,
# tpot, itl and e2e: gnuplot -e "metric = 'e2e'" -c latency.gp OUT.svg DIR [DIR...]
if (ARGC < 2) { print "usage: gnuplot -c latency.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("latency.gp")]."style.gp" }
if (!exists("metric")) { metric = "ttft" }

# What there is: values of each result, and the range of all that are not 0 (in s).
set datafile columnheaders
array total[8]
low = 0.0
high = 0.0
is_metric(row) = stringcolumn("metric") eq metric
values = 0
do for [i = 1:ARGC - 1] {
	file = folder(i)."latency.tsv"
	stats file using (is_metric(0) ? column("count") : NaN) nooutput
	total[i] = exists("STATS_sum") ? int(STATS_sum) : 0
	values = values + total[i]
	stats file using (is_metric(0) && column("upper_ns") > 0 ? column("upper_ns") / 1e9 : NaN) \
		nooutput
	if (exists("STATS_min")) {
		low = low == 0 || STATS_min < low ? STATS_min : low
		high = STATS_max > high ? STATS_max : high
	}
}

if (values == 0) {
	eval figure_empty("no request gave a value")
	exit
}
if (high == 0) {
	eval figure_empty("every value is 0")
	exit
}
eval figure_open(320, 1)

# A wide range gets a logarithmic axis; 0 has no place there and is drawn at its left end.
is_wide = high / low >= 4
left = is_wide ? low / 1.1 : 0
right = 1.1 * high
place(x) = is_wide ? (x > left ? log10(x / left) / log10(right / left) : 0) : x / right

# The cumulative curve, without the points that would not be seen beside the last one kept.
step(upper) = (seen = seen + column("count"), share = 100.0 * seen / total[i], \
	p50 = seen >= rank_50 && p50 < 0 ? upper : p50, \
	p90 = seen >= rank_90 && p90 < 0 ? upper : p90, \
	p99 = seen >= rank_99 && p99 < 0 ? upper : p99, upper)
is_seen(x) = abs(place(x) - kept_place) * 540 + abs(share - kept_share) * 2.2 >= 1.5 || \
	seen == total[i]
keep(x) = (kept_place = place(x), kept_share = share, 1)
array marks_50[8]
array marks_90[8]
array marks_99[8]
do for [i = 1:ARGC - 1] {
	eval sprintf("set print $cdf_%d", i)
	print sprintf("%.12g\t0", left)
	unset print
	seen = 0; share = 0.0; kept_share = 0.0; kept_place = 0.0; p50 = -1; p90 = -1; p99 = -1
	rank_50 = (50 * total[i] + 99) / 100
	rank_90 = (90 * total[i] + 99) / 100
	rank_99 = (99 * total[i] + 99) / 100
	if (total[i] > 0) {
		eval sprintf("set table $cdf_%d append", i)
		plot folder(i)."latency.tsv" \
			using (is_metric(0) ? step(column("upper_ns") / 1e9) : NaN):(share) \
			with table if (is_metric(0) && is_seen(column("upper_ns") / 1e9) && \
			keep(column("upper_ns") / 1e9))
		unset table
	}
	marks_50[i] = p50
	marks_90[i] = p90
	marks_99[i] = p99
}
set datafile nocolumnheaders

# Times with their unit: 250 µs, 40 ms, 2 s.
text_of(x) = x < 0.9995e-6 ? sprintf("%.3g ns", x * 1e9) : \
	x < 0.9995e-3 ? sprintf("%.3g µs", x * 1e6) : x < 0.9995 ? sprintf("%.3g ms", x * 1e3) : \
	x < 999.5 ? sprintf("%.3g s", x) : sprintf("%.0f s", x)
decades = is_wide ? log10(right / left) : 1
every_decade = decades > 8 ? 2 : 1
set xrange [left:right]
if (is_wide) {
	set logscale x
	set xtics ()
	do for [e = floor(log10(left)):ceil(log10(right))] {
		do for [m in decades > 3.2 ? "1" : decades > 2.2 ? "1 3" : "1 2 5"] {
			x = m * 10.0 ** e
			if (x >= left && x <= right && e % every_decade == 0) {
				set xtics add (text_of(x) x)
			}
		}
	}
} else {
	set xtics ()
	do for [k = 0:6] {
		x = k * tic_of(right / 5)
		if (x <= right) { set xtics add ((k == 0 ? "0" : text_of(x)) x) }
	}
}

set xlabel (metric eq "queue" ? "Time in the queue" : \
	metric eq "ttft" ? "Time to first token" : \
	metric eq "tpot" ? "Time per output token" : \
	metric eq "itl" ? "Gap between two tokens" : "End-to-end latency")
set ylabel (metric eq "itl" ? "Gaps" : "Requests")
set yrange [0:112]
set ytics ("0" 0, "25 %%" 25, "50 %%" 50, "75 %%" 75, "90 %%" 90, "99 %%" 99)

# Where a percentile's text leaves the curve free: right below it, or above its end.
is_right(x) = place(x) > 0.72
if (ARGC == 2) {
	do for [k = 1:3] {
		x = k == 1 ? marks_50[1] : k == 2 ? marks_90[1] : marks_99[1]
		y = k == 1 ? 50 : k == 2 ? 90 : 99
		mark = sprintf("p%d  %s", y, text_of(x))
		set label k mark at x, y front textcolor rgb text_color
		if (is_right(x)) {
			set label k right offset -0.4, 0.7
		} else {
			set label k left offset (k == 3 ? -0.4 : 0.9), (k == 3 ? 0.7 : -0.7)
		}
	}
}
do for [i = 1:ARGC - 1] {
	eval sprintf("set print $marks_%d", i)
	if (total[i] > 0) {
		print sprintf("%.12g\t50", marks_50[i] > left ? marks_50[i] : left)
		print sprintf("%.12g\t90", marks_90[i] > left ? marks_90[i] : left)
		print sprintf("%.12g\t99", marks_99[i] > left ? marks_99[i] : left)
	} else {
		print "NaN\tNaN"
	}
	unset print
}
plot for [i = 1:ARGC - 1] sprintf("$cdf_%d", i) using ($1 > left ? $1 : left):2 with steps \
	linewidth pen(i) linecolor rgb color(i) title label(i), \
	for [i = 1:ARGC - 1] sprintf("$marks_%d", i) using 1:2 with points pointtype 7 \
	pointsize 0.7 linecolor rgb color(i) notitle
