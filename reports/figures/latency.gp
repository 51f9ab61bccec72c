# The share of requests (of gaps between tokens, for itl) that were at most so slow, from
# latency.tsv, with p50, p90, p99 and p99.9 marked, and the limit of the SLO. From 90 to 99 % is as
# long as from 99 to 99.9 %, unless is_linear is set. Time to first token, or another metric of
# queue, ttft, tpot, itl and e2e: gnuplot -e "metric = 'e2e'" -c latency.gp OUT.svg DIR [DIR...]
if (ARGC < 2) { print "usage: gnuplot -c latency.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("latency.gp")]."style.gp" }
if (!exists("metric")) { metric = "ttft" }
if (!exists("is_linear")) { is_linear = 0 }

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
eval figure_open(340, 1)
limit(i) = exists(sprintf("slo_%d", i)) ? value(sprintf("slo_%d", i)) : 0
is_one_limit = 1
do for [i = 1:ARGC - 1] {
	is_one_limit = is_one_limit && limit(i) == limit(1)
	high = limit(i) > high ? limit(i) : high
	low = limit(i) > 0 && limit(i) < low ? limit(i) : low
}

# A wide range gets a logarithmic axis; 0 has no place there and is drawn at its left end.
is_wide = !is_linear && high / low >= 4
left = is_wide ? low / 1.1 : 0
right = 1.1 * high
place(x) = is_wide ? (x > left ? log10(x / left) / log10(right / left) : 0) : x / right

# Where a share in % is drawn. The largest value has no place on an axis of the tail; it is drawn as
# if half a value were above it.
most = 0
do for [i = 1:ARGC - 1] { most = total[i] > most ? total[i] : most }
top = is_linear ? 100.0 : log10(2 * most) > 3.5 ? 3.5 : log10(2 * most) < 1.2 ? 1.2 : \
	log10(2 * most)
height_of(share) = is_linear ? share : share >= 100 ? end : -log10(1 - share / 100.0)

# The cumulative curve, without the points that would not be seen beside the last one kept.
step(upper) = (seen = seen + column("count"), share = 100.0 * seen / total[i], \
	p50 = seen >= rank_50 && p50 < 0 ? upper : p50, \
	p90 = seen >= rank_90 && p90 < 0 ? upper : p90, \
	p99 = seen >= rank_99 && p99 < 0 ? upper : p99, \
	p99_9 = seen >= rank_99_9 && p99_9 < 0 ? upper : p99_9, \
	within = upper <= limit(i) ? share : within, \
	at = height_of(share) > end ? end : height_of(share), upper)
is_seen(x) = abs(place(x) - kept_place) * 540 + abs(at - kept_at) * 240 / top >= 1.5 || \
	seen == total[i]
keep(x) = (kept_place = place(x), kept_at = at, 1)
array marks_50[8]
array marks_90[8]
array marks_99[8]
array marks_99_9[8]
array within_of[8]
do for [i = 1:ARGC - 1] {
	eval sprintf("set print $cdf_%d", i)
	print sprintf("%.12g\t0", left)
	unset print
	seen = 0; share = 0.0; at = 0.0; kept_at = 0.0; kept_place = 0.0; within = 0.0
	p50 = -1; p90 = -1; p99 = -1; p99_9 = -1
	end = is_linear ? 100.0 : total[i] > 0 && log10(2 * total[i]) < top ? \
		log10(2 * total[i]) : top
	rank_50 = (50 * total[i] + 99) / 100
	rank_90 = (90 * total[i] + 99) / 100
	rank_99 = (99 * total[i] + 99) / 100
	rank_99_9 = (999 * total[i] + 999) / 1000
	if (total[i] > 0) {
		eval sprintf("set table $cdf_%d append", i)
		plot folder(i)."latency.tsv" \
			using (is_metric(0) ? step(column("upper_ns") / 1e9) : NaN):(at) \
			with table if (is_metric(0) && is_seen(column("upper_ns") / 1e9) && \
			keep(column("upper_ns") / 1e9))
		unset table
	}
	marks_50[i] = p50
	marks_90[i] = p90
	marks_99[i] = p99
	marks_99_9[i] = p99_9
	within_of[i] = within
}
set datafile nocolumnheaders

# A long text at the right end would be cut off; its line stays.
tic_text(x) = place(x) > 0.985 && strlen(text_of(x)) > 5 ? "" : text_of(x)
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
				set xtics add (tic_text(x) x)
			}
		}
	}
} else {
	set xtics ()
	do for [k = 0:6] {
		x = k * tic_of(right / 5)
		if (x <= right) { set xtics add ((k == 0 ? "0" : tic_text(x)) x) }
	}
}

name = metric eq "queue" ? "Time in the queue" : metric eq "ttft" ? "Time to first token" : \
	metric eq "tpot" ? "Time per output token" : metric eq "itl" ? "Gap between two tokens" : \
	"End-to-end latency"
set xlabel name
eval y_title(metric eq "itl" ? "Share of gaps" : "Share of requests")
set yrange [0:top * (is_linear ? 1.06 : 1.03)]
if (is_linear) {
	set ytics ("0" 0, "25 %%" 25, "50 %%" 50, "75 %%" 75, "90 %%" 90, "100 %%" 100)
} else {
	set ytics ("0" 0, "50 %%" 0.30103, "90 %%" 1, "99 %%" 2, "99.9 %%" 3)
}

# The limit of the SLO, and what lies beyond it.
do for [i = 1:(is_one_limit ? 1 : ARGC - 1)] {
	if (limit(i) > 0) {
		set arrow i from limit(i), graph 0 to limit(i), graph 1 nohead back linewidth 1.4 \
			dashtype dash(is_one_limit ? 1 : i) linecolor rgb slo_color
	}
}
if (is_one_limit && limit(1) > 0) {
	set object 1 rectangle from limit(1), graph 0 to graph 1, graph 1 behind \
		fillcolor rgb slo_color fillstyle transparent solid 0.07 noborder
	mark = "SLO ".text_of(limit(1)).(ARGC == 2 ? sprintf(": %.1f %% within", within_of[1]) : "")
	set label 80 mark at limit(1), graph 1 front textcolor rgb slo_color
	if (place(limit(1)) > 0.5) {
		set label 80 right offset 0, 0.7
	} else {
		set label 80 left offset 0, 0.7
	}
}

# Where a percentile's text leaves the curve free: right below it, or above its end.
# Right below the median there is no room above the axis of a tail.
is_right(x, k) = place(x) > 0.7 || (k == 1 && !is_linear && place(x) > 0.25)
lift(k) = k == 1 && !is_linear ? 0.1 : -0.6
marks(i, k) = k == 1 ? marks_50[i] : k == 2 ? marks_90[i] : k == 3 ? marks_99[i] : marks_99_9[i]
percent_of(k) = word("50 90 99 99.9", k) + 0
# 99.9 % of fewer than 1,000 values are all of them.
marks_of(i) = total[i] < 1000 || is_linear ? 3 : 4
do for [i = 1:ARGC - 1] {
	said = of_run(i)
	do for [k = 1:(total[i] > 0 ? marks_of(i) : 0)] {
		x = marks(i, k)
		mark = sprintf("p%g  %s", percent_of(k), text_of(x))
		said = said.(k > 1 ? ", " : "").sprintf("p%g %s", percent_of(k), text_of(x))
		if (ARGC == 2) {
			y = height_of(percent_of(k))
			set label k mark at x, y front textcolor rgb text_color
			if (is_right(x, k)) {
				set label k right offset -0.8, 0.3
			} else {
				set label k left offset 0.9, lift(k)
			}
		}
	}
	said = said.(limit(i) > 0 ? sprintf("; %.1f %% within the SLO of %s", within_of[i], \
		text_of(limit(i))) : "").(total[i] > 0 ? "." : "no value.")
	eval note("describe", said)
}
do for [i = 1:ARGC - 1] {
	eval sprintf("set print $marks_%d", i)
	if (total[i] > 0) {
		do for [k = 1:marks_of(i)] {
			print sprintf("%.12g\t%.12g", marks(i, k) > left ? marks(i, k) : left, \
				height_of(percent_of(k)))
		}
	} else {
		print "NaN\tNaN"
	}
	unset print
}
plot for [i = 1:ARGC - 1] sprintf("$cdf_%d", i) using ($1 > left ? $1 : left):2 with steps \
	linewidth pen(i) dashtype dash(i) linecolor rgb color(i) title label(i), \
	for [i = 1:ARGC - 1] sprintf("$marks_%d", i) using 1:2 with points pointtype marker(i) \
	pointsize 0.7 linecolor rgb color(i) notitle
x_scale = is_wide ? "log" : "linear"
y_scale = is_linear ? "linear" : "tail"
eval panel("Share", "%%", name, "s")
