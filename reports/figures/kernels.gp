# The operations of the GPU engine against what the GPU can do, from the table of `quire kernels`: a
# bar for each case, as long as its share of the limit that bounds it, the best first. quire puts
# the table in front of the script and sets subject to the GPU and the date of the measurement.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c kernels.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("kernels.gp")]."style.gp"
	table = ARGV[2]
}
if (!exists("subject")) { subject = "GPU and date are not known" }

set datafile columnheaders
set datafile missing "-"
set datafile commentschars "#"
limit(name, of) = sprintf("stats table using (stringcolumn('kernel') eq '%s' ? ".\
	"column('%s') : NaN) nooutput; found = STATS_max", name, of)
eval limit("limit_read", "gb_per_s"); read_rate = found
eval limit("limit_product", "tflop_per_s"); product_rate = found
eval limit("limit_launch", "us"); launch_us = found

# The cases, and their order by falling share.
cases_max = 2000
array name[cases_max]
array share[cases_max]
array kind[cases_max]
bounds = "memory arithmetic launch"
kind_of(text) = text eq "memory" ? 1 : text eq "arithmetic" ? 2 : 3
cases = 0
stats table using (column("share") > 0 && cases < cases_max ? (cases = cases + 1, \
	name[cases] = stringcolumn("kernel")."  ".stringcolumn("case"), \
	share[cases] = column("share"), kind[cases] = kind_of(stringcolumn("bound")), 1) : 1) \
	nooutput
if (cases == 0) {
	eval figure_empty("the table has no operation")
	exit
}
array place[cases]
do for [i = 1:cases] { place[i] = i }
do for [i = 2:cases] {
	j = i
	while (j > 1 && share[place[j - 1]] < share[place[j]]) {
		moved = place[j]; place[j] = place[j - 1]; place[j - 1] = moved
		j = j - 1
	}
}

# The margin of the names fits the longest of them: a character takes 7 pixels at most.
longest = 0
do for [i = 1:cases] { longest = strlen(name[i]) > longest ? strlen(name[i]) : longest }
names_width = 7 * longest + 20 > 272 ? 7 * longest + 20 : 272

columns = cases > 40 ? 2 : 1
rows = (cases + columns - 1) / columns
column_width = names_width + 368.0
width = int(column_width) * columns
height = 118 + 16 * rows
set terminal svg size width, height dynamic font 'sans-serif,12' background background_color
set output ARG1
unset key
set border 0
set style fill solid 1 noborder
heading = "Share of the limit: ".subject
set label 1 heading at screen 12.0 / width, screen 1 - 20.0 / height left font ",17" \
	textcolor rgb text_color noenhanced
set label 2 sprintf("Limits of the same run: reading %.2f TB/s, multiplying %.0f TFLOP/s, ".\
	"a launch %.2f µs", read_rate / 1000, product_rate, launch_us) \
	at screen 12.0 / width, screen 1 - 42.0 / height left textcolor rgb text_color
do for [k = 1:3] {
	set object k rectangle from screen (12.0 + 130 * (k - 1)) / width, \
		screen 1 - 70.0 / height to screen (26.0 + 130 * (k - 1)) / width, \
		screen 1 - 58.0 / height fillcolor rgb color(k) \
		fillstyle solid 1 noborder
	set label 2 + k word(bounds, k) at screen (32.0 + 130 * (k - 1)) / width, \
		screen 1 - 64.0 / height left textcolor rgb text_color
}
set xrange [0:108]
set xtics 25 format "%g %%"
set ytics scale 0 noenhanced
set grid noytics
set multiplot
do for [column_index = 0:columns - 1] {
	first = column_index * rows + 1
	last = first + rows - 1 < cases ? first + rows - 1 : cases
	set print $bars
	do for [i = first:last] {
		print sprintf("%d\t%.9g\t%d", i, share[place[i]], kind[place[i]])
	}
	unset print
	set yrange [first + rows - 0.5:first - 0.5]
	set ytics ()
	do for [i = first:last] { set ytics add (name[place[i]] i) }
	set lmargin at screen (column_index * column_width + names_width) / width
	set rmargin at screen ((column_index + 1) * column_width - 20) / width
	set tmargin at screen 1 - 82.0 / height
	set bmargin at screen 36.0 / height
	set datafile nocolumnheaders
	plot for [k = 1:3] $bars using ($3 == k ? $2 / 2 : NaN):1:(0):2:($1 - 0.38):($1 + 0.38) \
		with boxxyerror linecolor rgb color(k) notitle, \
		$bars using 2:1:(sprintf("%.0f", $2)) with labels left offset 0.4, 0 \
		textcolor rgb text_color notitle
	do for [k = 1:5] { unset label k }
	do for [k = 1:3] { unset object k }
}
eval note("title", "Operations against the limits of the GPU: ".subject)
do for [i = 1:cases] {
	eval note("describe", sprintf("%s: %.0f %% of the %s limit.", name[place[i]], \
		share[place[i]], word(bounds, kind[place[i]])))
}
