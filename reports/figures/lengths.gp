# How long prompts and outputs are: the share of requests in each quarter of an octave, from
# requests.tsv. Outputs are those of requests that finished.
if (ARGC < 2) { print "usage: gnuplot -c lengths.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("lengths.gp")]."style.gp" }

set datafile columnheaders
set datafile missing "-"
bins_max = 160
array bin_count[bins_max]
bin_of(tokens) = tokens < 1 ? 1 : int(floor(4 * log(tokens) / log(2) + 1e-9)) + 2
count_bin(tokens) = (bin_count[bin_of(tokens)] = bin_count[bin_of(tokens)] + 1, seen = seen + 1, \
	shortest = tokens < shortest ? tokens : shortest, \
	longest = tokens > longest ? tokens : longest, total = total + tokens, 1)
is_finished(unused) = stringcolumn("status") eq "finished"
length_of(what) = what eq "input" ? column("prompt_tokens") : column("output_tokens")
is_counted(what) = what eq "input" || is_finished(0)
block(what, i) = sprintf("$%s_%d", what, i)
requests = 0
array most[2]
array least_bin[2]
array last_bin[2]
do for [w = 1:2] {
	what = word("input output", w)
	most[w] = 0.0
	least_bin[w] = bins_max
	last_bin[w] = 1
	do for [i = 1:ARGC - 1] {
		do for [k = 1:bins_max] { bin_count[k] = 0 }
		seen = 0; shortest = 1e18; longest = 0.0; total = 0.0
		stats folder(i)."requests.tsv" \
			using (is_counted(what) ? count_bin(length_of(what)) : 1) nooutput
		requests = requests + seen
		if (seen > 0) {
			eval note("describe", of_run(i).sprintf("%s: %d to %d tokens, ".\
				"%.0f on average.", what, shortest, longest, total / seen))
		}
		eval sprintf("set print %s", block(what, i))
		print "NaN\tNaN"
		do for [k = 1:bins_max] {
			percent = seen > 0 ? 100.0 * bin_count[k] / seen : 0
			if (percent > 0) {
				most[w] = percent > most[w] ? percent : most[w]
				least_bin[w] = k < least_bin[w] ? k : least_bin[w]
				last_bin[w] = k > last_bin[w] ? k : last_bin[w]
			}
			print sprintf("%.9g\t%.9g", 2 ** ((k - 2) / 4.0), percent)
		}
		unset print
	}
}
if (requests == 0) {
	eval figure_empty("no request")
	exit
}
set datafile nocolumnheaders
eval figure_open(440, 2)
y_unit = " %%"
set logscale x 2
x_scale = "log"
set xtics autofreq
set format x "%.0f"
do for [w = 1:2] {
	what = word("input output", w)
	eval y_axis(most[w])
	eval y_title(w == 1 ? "Share of requests" : "Share of finished requests")
	set xlabel (w == 1 ? "Prompt tokens" : "Output tokens")
	left = 2 ** ((least_bin[w] - 3) / 4.0)
	right = 2 ** (last_bin[w] / 4.0)
	set xrange [left:right]
	set xtics ()
	octaves = log(right / left) / log(2)
	do for [k = 0:40] {
		if (2.0 ** k >= left && 2.0 ** k <= right && (octaves < 8 || k % 2 == 0)) {
			set xtics add (power_text(k) 2 ** k)
		}
	}
	plot for [i = 1:ARGC - 1] block(what, i) using 1:2 with steps linewidth pen(i) \
		dashtype dash(i) linecolor rgb color(i) title label(i)
	eval panel("Share", "%%", w == 1 ? "Prompt tokens" : "Output tokens", "")
	unset key
}
