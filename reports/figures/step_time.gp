# Mean step time by what a step computed, decode rows against prefill tokens, from step_grid.tsv; a
# panel for each result, all on the same scales.
if (ARGC < 2) { print "usage: gnuplot -c step_time.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("step_time.gp")]."style.gp" }

# Axes count octaves from the smallest that occurs on, and 0 has a band of its own below.
octave(count) = count < 1 ? 0 : int(floor(log(count) / log(2) + 1e-9))
start_of(low, base) = low < 1 ? base - 1 : log(low) / log(2)
end_of(high, base) = high < 1 ? base : log(high + 1) / log(2)

set datafile columnheaders
cells = 0
rows_high = 0.0
tokens_high = 0.0
rows_base = 64
tokens_base = 64
has_zero_rows = 0
has_zero_tokens = 0
array cells_of[8]
do for [i = 1:ARGC - 1] {
	file = folder(i)."step_grid.tsv"
	stats file using (column("decode_rows_high")) nooutput
	cells_of[i] = exists("STATS_max") ? int(STATS_records) : 0
	cells = cells + cells_of[i]
	if (cells_of[i] > 0) {
		rows_high = STATS_max > rows_high ? STATS_max : rows_high
		stats file using (column("prefill_tokens_high")) nooutput
		tokens_high = STATS_max > tokens_high ? STATS_max : tokens_high
		stats file using (column("decode_rows_low")) nooutput
		has_zero_rows = has_zero_rows || STATS_min == 0
		stats file using (column("prefill_tokens_low")) nooutput
		has_zero_tokens = has_zero_tokens || STATS_min == 0
		stats file using (column("decode_rows_low") > 0 ? \
			octave(column("decode_rows_low")) : 64) nooutput
		rows_base = STATS_min < rows_base ? int(STATS_min) : rows_base
		stats file using (column("prefill_tokens_low") > 0 ? \
			octave(column("prefill_tokens_low")) : 64) nooutput
		tokens_base = STATS_min < tokens_base ? int(STATS_min) : tokens_base
	}
}

rows_base = rows_base == 64 ? 0 : rows_base
tokens_base = tokens_base == 64 ? 0 : tokens_base
rows_octaves = octave(rows_high) - rows_base + 1
tokens_octaves = octave(tokens_high) - tokens_base + 1

# Too many cells for a small file are joined, by octaves or by several of them.
is_joined = cells > 1000
octaves = 1
do for [k = 1:4] {
	if ((rows_octaves / octaves + 1) * (tokens_octaves / octaves + 1) * (ARGC - 1) > 1400) {
		octaves = 2 * octaves
	}
}
index_of(low, base) = low < 1 ? 0 : (octave(low) - base) / octaves + 1
array joined_steps[4096]
array joined_ms[4096]
join(cell, steps, ms) = (joined_steps[cell] = joined_steps[cell] + steps, \
	joined_ms[cell] = joined_ms[cell] + steps * ms)
left_of(k, base) = k == 0 ? base - 1 : base + (k - 1) * octaves
right_of(k, base) = k == 0 ? base : base + k * octaves
do for [i = 1:ARGC - 1] {
	file = folder(i)."step_grid.tsv"
	if (cells_of[i] == 0) {
		eval sprintf("set print $cells_%d", i)
		print "NaN\tNaN\tNaN\tNaN\tNaN"
		unset print
		continue
	}
	if (is_joined) {
		do for [k = 1:4096] { joined_steps[k] = 0.0; joined_ms[k] = 0.0 }
		stats file using (join(index_of(column("decode_rows_low"), rows_base) * 64 + \
			index_of(column("prefill_tokens_low"), tokens_base) + 1, column("steps"), \
			column("mean_ns") / 1e6)) nooutput
		eval sprintf("set print $cells_%d", i)
		do for [k = 0:4095] {
			if (joined_steps[k + 1] > 0) {
				print sprintf("%d\t%d\t%d\t%d\t%.9g", left_of(k / 64, rows_base), \
					right_of(k / 64, rows_base), left_of(k % 64, tokens_base), \
					right_of(k % 64, tokens_base), \
					joined_ms[k + 1] / joined_steps[k + 1])
			}
		}
		unset print
	} else {
		eval sprintf("set table $cells_%d", i)
		plot file using (start_of(column("decode_rows_low"), rows_base)): \
			(end_of(column("decode_rows_high"), rows_base)): \
			(start_of(column("prefill_tokens_low"), tokens_base)): \
			(end_of(column("prefill_tokens_high"), tokens_base)): \
			(column("mean_ns") / 1e6) with table
		unset table
	}
}
set datafile nocolumnheaders

if (cells == 0) {
	eval figure_empty("no step was run")
	exit
}
has_legend = 0
eval panels_open(54, 270, 4)
unset key

# The scale ends at Tukey's fences in logarithms, so that one odd cell does not stretch it.
set table $all
plot for [i = 1:ARGC - 1] sprintf("$cells_%d", i) using 5 with table
unset table
set xrange [*:*]
set yrange [*:*]
do for [i = 1:ARGC - 1] {
	values = ""
	if (cells_of[i] > 0) {
		stats sprintf("$cells_%d", i) \
			using (values = values.sprintf(",%.3g", $5), $5) nooutput
		eval note("cells", "[".values[2:*]."]")
		eval note("describe", of_run(i).sprintf("%d kinds of steps, mean times ".\
			"from %.3g to %.3g ms.", STATS_records, STATS_min, STATS_max))
	}
}
stats $all using (log10($1)) nooutput
fence = 1.5 * (STATS_up_quartile - STATS_lo_quartile)
fastest = STATS_min
slowest = STATS_max
low = 10 ** (STATS_lo_quartile - fence > fastest ? STATS_lo_quartile - fence : fastest)
high = 10 ** (STATS_up_quartile + fence < slowest ? STATS_up_quartile + fence : slowest)

set palette defined (0 "#fde725", 1 "#7ad151", 2 "#22a884", 3 "#2a788e", 4 "#414487", 5 "#440154") \
	maxcolors 32
set logscale cb
high = high > low * 1.01 ? high : low * 1.1
set cbrange [low:high]
set cbtics () scale 0.4 offset 0, 0.4 textcolor rgb text_color
decades = log10(high / low)
do for [e = floor(log10(low)):ceil(log10(high))] {
	do for [m in decades > 3.2 ? "1" : decades > 1.8 ? "1 3" : "1 2 5"] {
		x = m * 10.0 ** e
		if (x > low * 1.01 && x < high / 1.01) { set cbtics add (sprintf("%g ms", x) x) }
	}
}
# Beyond the ends of the scale there are faster and slower cells.
more(is_more, text) = is_more ? text : ""
set label 2 more(fastest < log10(low) - 1e-9, "≤ ").sprintf("%.3g ms", low) \
	at screen 222.0 / width, screen 1 - 17.0 / height right textcolor rgb text_color front
set label 3 more(slowest > log10(high) + 1e-9, "≥ ").sprintf("%.3g ms", high) \
	at screen 540.0 / width, screen 1 - 17.0 / height left textcolor rgb text_color front
set colorbox horizontal user origin screen 228.0 / width, screen 1 - 22.0 / height \
	size screen 306.0 / width, screen 10.0 / height noborder
set label 1 "Mean step time" at screen 8.0 / width, screen 1 - 17.0 / height left \
	textcolor rgb text_color front

rows_end = end_of(rows_high, rows_base)
tokens_end = end_of(tokens_high, tokens_base)
rows_start = rows_base - has_zero_rows
tokens_start = tokens_base - has_zero_tokens
set xrange [rows_start:rows_end]
set yrange [tokens_start:tokens_end]
set xtics ()
set ytics ()
if (has_zero_rows) { set xtics add ("0" rows_base - 0.5) }
if (has_zero_tokens) { set ytics add ("0" tokens_base - 0.5) }
rows_every = rows_end - rows_start <= (columns == 1 ? 11 : columns < 4 ? 7 : 4) ? 1 : 2
tokens_every = tokens_end - tokens_start <= 8 ? 1 : 2
do for [k = rows_base + (rows_end - rows_start > 4):ceil(rows_end)] {
	if (k % rows_every == 0) { set xtics add (power_text(k) k) }
}
do for [k = tokens_base + (tokens_end - tokens_start > 4):ceil(tokens_end)] {
	if (k % tokens_every == 0) { set ytics add (power_text(k) k) }
}
unset grid

# What never occurred is grey: neither fast nor slow.
set object 1 rectangle from graph 0, graph 0 to graph 1, graph 1 behind fillstyle solid 1 noborder \
	fillcolor rgb grid_color
set multiplot
do for [i = 1:ARGC - 1] {
	eval panel_place(i, 24)
	set xlabel (is_lowest(i) ? "Decode rows in the step" : "")
	eval y_title("Prefill tokens")
	plot sprintf("$cells_%d", i) using (($1 + $2) / 2):(($3 + $4) / 2):1:2:3:4: \
		($5 < low ? low : $5 > high ? high : $5) \
		with boxxyerror fillstyle solid 1 noborder linecolor palette notitle
	eval panel("Mean step time", "ms", "", "")
	unset colorbox
	unset label 1
	unset label 2
	unset label 3
}
