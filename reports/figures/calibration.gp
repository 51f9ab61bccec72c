# How far predicted step times are from measured ones, over the measured time, from a table that
# `quire calibrate --plot` puts in front of this script: kind, held_out, measured_ns, predicted_ns.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c calibration.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("calibration.gp")]."style.gp"
	table = ARGV[2]
}
if (!exists("subject")) { subject = "" }

set datafile columnheaders
has_legend = 0
eval figure_open(560, 2)
kinds = "decode mixed prefill"
measured = "measured_ns"
is_kind(kind, held_out) = strcol("kind") eq kind && column("held_out") == held_out
ms(name) = column(name) / 1e6
of(kind, held_out, value) = is_kind(kind, held_out) ? value : NaN
off(unused) = 100 * (column("predicted_ns") / column(measured) - 1)

set logscale xy
set format xy "%g"
set ylabel "Predicted (ms), held out"
set key at graph 0.03, 0.98 left top vertical Left reverse noenhanced samplen 1 \
	title subject textcolor rgb text_color
stats table using (ms(measured)) nooutput
low = STATS_min * 0.8
high = STATS_max * 1.25
set xrange [low:high]
set yrange [low:high]
plot x with lines linewidth 1 linecolor rgb "#9aa5b1" notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 1, ms(measured))):(ms("predicted_ns")) \
	with points pointtype 7 pointsize 0.4 linecolor rgb color(i) title word(kinds, i)

unset logscale y
set key off
set yrange [-10:10]
set ytics 5
set format y "%+g %%"
set ylabel "Error"
set xlabel "Measured step (ms); faint: fitted to"
clamped(value) = value > 9.8 ? 9.8 : value < -9.8 ? -9.8 : value
plot 0 with lines linewidth 1 linecolor rgb "#9aa5b1" notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 0, ms(measured))):(clamped(off(0))) \
	with points pointtype 7 pointsize 0.25 linecolor rgb faint(i) notitle, \
	for [i = 1:3] table using (of(word(kinds, i), 1, ms(measured))):(clamped(off(0))) \
	with points pointtype 7 pointsize 0.4 linecolor rgb color(i) notitle
