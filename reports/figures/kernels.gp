# The operations of the GPU engine against what the GPU can do, from the table of `quire kernels`.
# Above, operations that multiply: their rate against their intensity, under the roof of reading and
# of arithmetic. Below, all of them: the rate at which they move what they must, against how much
# that is, under what reading and a launch allow. quire puts the table in front of the script.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c kernels.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("kernels.gp")]."style.gp"
	table = ARGV[2]
}

set datafile columnheaders
set datafile missing "-"
has_legend = 0
height = 880
eval sprintf("set terminal svg size 640, height dynamic font 'sans-serif,15' background '%s'", \
	background_color)
set output ARG1
set multiplot layout 2, 1 margins screen 0.125, 0.965, 60.0 / height, 1 - 132.0 / height \
	spacing screen 0, 60.0 / height
set key at screen 0.02, 0.99 left top horizontal Left reverse noenhanced samplen 1.5 maxcols 3 \
	width 2 textcolor rgb text_color

names = "decode_attention prefill_attention matmul decode_matmul decode_matmul_silu ".\
	"qk_norm_rope_store add_rms_norm silu_mul sampler"
shade(i) = color((i - 1) % 8 + 1)
mark(i) = word("7 5 9 13 11 6 4 8 3", i) + 0

limit(name, of) = sprintf("stats table using (stringcolumn('kernel') eq '%s' ? ".\
	"column('%s') : NaN) nooutput; found = STATS_max", name, of)
eval limit("limit_read", "gb_per_s"); read_rate = found
eval limit("limit_product", "tflop_per_s"); product_rate = found
eval limit("limit_launch", "us"); launch_us = found

is_of(i) = stringcolumn("kernel") eq word(names, i)
set logscale xy
set xlabel "Intensity, FLOP a byte"
set ylabel "TFLOP/s"
set format x "%g"
set format y "%g"
set xrange [0.5:20000]
set yrange [0.5:product_rate * 2]
roof(x) = x * read_rate / 1000 < product_rate ? x * read_rate / 1000 : product_rate
plot roof(x) with lines linewidth 1.8 linecolor rgb text_color title \
		sprintf("limits, %.2f TB/s", read_rate / 1000), \
	for [i = 1:words(names)] table using \
		(is_of(i) && column("flops") > 0 ? column("flops") / column("bytes") : NaN): \
		(column("tflop_per_s")) with points pointtype mark(i) pointsize 0.7 \
		linecolor rgb shade(i) title word(names, i)

unset key
set xlabel "Bytes that a launch has to move"
set ylabel "GB/s"
set format x "%.0s%cB"
set xrange [1000:1e10]
set yrange [1:read_rate * 2]
allowed(x) = x / (launch_us > x / read_rate / 1000 ? launch_us : x / read_rate / 1000) / 1000
plot allowed(x) with lines linewidth 1.8 linecolor rgb text_color notitle, \
	for [i = 1:words(names)] table using (is_of(i) ? column("bytes") : NaN): \
		(column("gb_per_s")) with points pointtype mark(i) pointsize 0.7 \
		linecolor rgb shade(i) notitle
