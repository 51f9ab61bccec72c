# How far predicted step times are from measured ones, over the measured time, from a table that
# `quire calibrate --plot` puts in front of this script: kind, held_out, measured_ns, predicted_ns.
# It sets subject, what was fitted. Errors beyond the frame are marked at its edge.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c calibration.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("calibration.gp")]."style.gp"
	table = ARGV[2]
}
if (!exists("subject")) { subject = "" }

set datafile columnheaders
eval standalone_open(620, 76, 2)
kinds = "decode mixed prefill"
measured = "measured_ns"
is_kind(kind, held_out) = strcol("kind") eq kind && column("held_out") == held_out
ms(name) = column(name) / 1e6
of(kind, held_out, value) = is_kind(kind, held_out) ? value : NaN
error(unused) = 100 * (column("predicted_ns") / column(measured) - 1)

set logscale xy
set format xy "%g"
eval y_title("Predicted (ms), of steps that were held out of the fit")
set xlabel ""
stats table using (ms(measured)) nooutput
low = STATS_min * 0.8
high = STATS_max * 1.25
set xrange [low:high]
set yrange [low:high]
# Key entries of points large enough to be seen.
plot x with lines linewidth 1 linecolor rgb "#9aa5b1" notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 1, ms(measured))):(ms("predicted_ns")) \
	with points pointtype marker(i) pointsize 0.4 linecolor rgb color(i) notitle, \
	for [i = 1:3] NaN with points pointtype marker(i) pointsize 0.8 linecolor rgb color(i) \
	title word(kinds, i)

unset logscale y
set key off
unset label 91
limit = 10
set yrange [-limit:limit]
set ytics 5
set format y "%+g %%"
eval y_title("Error; faint: steps that were fitted; large, at the edge: beyond 10 %")
set xlabel "Measured step (ms)"
within(value) = abs(value) <= limit ? value : NaN
edge(value) = value > limit ? limit - 0.4 : value < -limit ? -limit + 0.4 : NaN
beyond = 0
plot 0 with lines linewidth 1 linecolor rgb "#9aa5b1" notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 0, ms(measured))):(within(error(0))) \
	with points pointtype marker(i) pointsize 0.25 linecolor rgb faint(i) notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 1, ms(measured))):(within(error(0))) \
	with points pointtype marker(i) pointsize 0.4 linecolor rgb color(i) notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 1, ms(measured))): \
	(error(0) > 0 ? edge(error(0)) : NaN) \
	with points pointtype 9 pointsize 0.7 linecolor rgb color(i) notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 1, ms(measured))): \
	(error(0) < 0 ? edge(error(0)) : NaN) \
	with points pointtype 11 pointsize 0.7 linecolor rgb color(i) notitle
eval note("title", "Predicted and measured step times of ".subject)
set xrange [*:*]
set yrange [*:*]
do for [i = 1:3] {
	stats table using (of(word(kinds, i), 1, error(0))) nooutput
	if (exists("STATS_records") && STATS_records > 0) {
		eval note("describe", sprintf("%s: %d held-out steps, errors from %+.1f to ".\
			"%+.1f %%, median %+.1f %%.", word(kinds, i), STATS_records, STATS_min, \
			STATS_max, STATS_median))
	}
}
