# Time to first token by the length of the prompt: median and 99th percentile of each octave, from
# requests.tsv. Octaves with few requests are left out: their p99 would be one request. Times are
# counted in 32 buckets an octave, and drawn at the middle of theirs.
if (ARGC < 2) { print "usage: gnuplot -c ttft_length.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("ttft_length.gp")]."style.gp" }

set datafile columnheaders
set datafile missing "-"
least = 20
octaves = 30
buckets = 1600
array counts[octaves * buckets]
array seen[octaves]
log2(x) = log(x) / log(2)
octave(tokens) = tokens < 1 ? 1 : int(floor(log2(tokens) + 1e-9)) + 1
bucket(ns) = ns < 1 ? 1 : int(floor(32 * log2(ns))) + 2
count_at(place) = (counts[place] = counts[place] + 1, 1)
count_request(tokens, ns) = (seen[octave(tokens)] = seen[octave(tokens)] + 1, \
	first = octave(tokens) < first ? octave(tokens) : first, \
	last = octave(tokens) > last ? octave(tokens) : last, \
	bottom = bucket(ns) < bottom ? bucket(ns) : bottom, \
	top = bucket(ns) > top ? bucket(ns) : top, \
	count_at((octave(tokens) - 1) * buckets + bucket(ns)))
is_finished(unused) = stringcolumn("status") eq "finished"
seconds(k) = 2 ** ((k - 1.5) / 32.0) / 1e9
points = 0
low = 1e18
high = 0.0
left = 1e18
right = 0.0
do for [i = 1:ARGC - 1] {
	do for [k = 1:octaves * buckets] { counts[k] = 0 }
	do for [k = 1:octaves] { seen[k] = 0 }
	first = octaves; last = 1; bottom = buckets; top = 1
	stats folder(i)."requests.tsv" using (is_finished(0) ? \
		count_request(column("prompt_tokens"), column("ttft_ns")) : 1) nooutput
	eval sprintf("set print $of_%d", i)
	print "NaN\tNaN\tNaN"
	do for [k = first:last] {
		if (seen[k] >= least) {
			passed = 0; p50 = 0; p99 = 0
			do for [b = bottom:top] {
				passed = passed + counts[(k - 1) * buckets + b]
				p50 = p50 == 0 && passed >= 0.5 * seen[k] ? b : p50
				p99 = p99 == 0 && passed >= 0.99 * seen[k] ? b : p99
			}
			center = 2 ** (k - 0.5)
			print sprintf("%.9g\t%.9g\t%.9g", center, seconds(p50), seconds(p99))
			points = points + 1
			low = seconds(p50) < low ? seconds(p50) : low
			high = seconds(p99) > high ? seconds(p99) : high
			left = center < left ? center : left
			right = center > right ? center : right
		}
	}
	unset print
}
if (points < 2) {
	eval figure_empty("too few requests finished, or all are about as long")
	exit
}
set datafile nocolumnheaders
eval figure_open(340, 1)
limit = exists("slo_1") ? slo_1 : 0
do for [i = 2:ARGC - 1] {
	limit = exists(sprintf("slo_%d", i)) && value(sprintf("slo_%d", i)) == limit ? limit : 0
}
low = 0.8 * (limit > 0 && limit < low ? limit : low)
high = limit * 1.8 > high * 1.25 ? limit * 1.8 : high * 1.25
set logscale xy
set xrange [left / 1.5:right * 1.5]
set yrange [low:high]
set ytics ()
decades = log10(high / low)
do for [e = floor(log10(low)):ceil(log10(high))] {
	do for [m in decades > 3.2 ? "1" : decades > 1.8 ? "1 3" : "1 2 5"] {
		y = m * 10.0 ** e
		if (y >= low && y <= high) { set ytics add (text_of(y) y) }
	}
}
set xtics ()
do for [k = 0:30] {
	if (2.0 ** k >= left / 1.5 && 2.0 ** k <= right * 1.5) {
		set xtics add (power_text(k) 2 ** k)
	}
}
if (limit > 0) {
	set arrow 1 from graph 0, first limit to graph 1, first limit nohead back linewidth 1.4 \
		linecolor rgb slo_color
	set label 1 "SLO ".text_of(limit) at graph 0.01, first limit left offset 0, 0.6 \
		textcolor rgb slo_color front
}
set xlabel "Prompt tokens"
eval y_title(ARGC == 2 ? "Time to first token: p99 above, median below" : \
	"p99 of the time to first token; faint: median")
do for [i = 1:ARGC - 1] {
	stats sprintf("$of_%d", i) using 1:3 nooutput
	if (exists("STATS_max_y")) {
		eval note("describe", of_run(i).sprintf("p99 from %s to %s, the highest for ".\
			"prompts of about %.0f tokens.", text_of(STATS_min_y), \
			text_of(STATS_max_y), STATS_pos_max_y))
	}
}
plot for [i = 1:ARGC - 1] sprintf("$of_%d", i) using 1:2 with linespoints pointtype marker(i) \
	pointsize 0.4 linewidth 1.2 dashtype dash(i) linecolor rgb light(i) notitle, \
	for [i = 1:ARGC - 1] sprintf("$of_%d", i) using 1:3 with linespoints pointtype marker(i) \
	pointsize 0.6 linewidth pen(i) dashtype dash(i) linecolor rgb color(i) title label(i)
x_scale = "log"
y_scale = "log"
eval panel("p99", "s", "Prompt tokens", "")
