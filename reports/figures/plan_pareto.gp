# Throughput of a GPU against the speed of a user, one point a run: faint points are other loads of
# the same configuration, full ones its answer, the line the Pareto front: no configuration is
# better at both. The table has the columns configuration (its rank), speed_per_user,
# throughput_per_gpu (output tokens/s), is_answer, is_front and label, the ranks that are written
# beside an answer or `-`; quire puts it in front of the script instead.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c plan_pareto.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("plan_pareto.gp")]."style.gp"
	table = ARGV[2]
}
set datafile columnheaders
answers = 0
stats table using (column("is_answer") == 1 ? column("speed_per_user") : NaN): \
	(column("throughput_per_gpu")) nooutput
if (exists("STATS_records")) { answers = STATS_records }
if (answers == 0) {
	eval figure_empty("no configuration meets the SLO")
	exit
}
stats table using "speed_per_user":"throughput_per_gpu" nooutput
x_top = STATS_max_x
y_top = STATS_max_y
eval note("describe", sprintf("%d configurations; at most %s output tokens/s of a GPU, at most ".\
	"%.3g of a user.", answers, short_text(STATS_max_y), STATS_max_x))
# before any range is set, since stats looks only at what is within them
stats table using "configuration" nooutput
most = int(STATS_max)
eval table_open(510, 2, 1)
set xrange [0:x_top * 1.08]
x_tic = tic_of(x_top / 6)
set xtics x_tic
eval y_axis(y_top * 1.04)
set xlabel "Speed of a user, output tokens/s (1000 / median TPOT)"
eval y_title("Output tokens/s of a GPU")
is_one(k) = column("configuration") == k
is_answer(unused) = column("is_answer") == 1
has_label(unused) = is_answer(0) && stringcolumn("label") ne "-"
is_front(unused) = is_answer(0) && column("is_front") == 1
shade(k) = color((k - 1) % 8 + 1)
plot table using (is_answer(0) ? NaN : column("speed_per_user")):"throughput_per_gpu": \
	(shade(int(column("configuration"))) + 0x50000000) with points pointtype 7 pointsize 0.5 \
	linecolor rgb variable title "other loads", \
	table using (is_front(0) ? column("speed_per_user") : NaN):"throughput_per_gpu" \
	smooth unique with fsteps linewidth 1.4 dashtype 13 linecolor rgb text_color \
	title "Pareto front", \
	table using (is_answer(0) ? column("speed_per_user") : NaN):"throughput_per_gpu": \
	(shade(int(column("configuration"))) + 0x10000000) with points pointtype 7 pointsize 1 \
	linecolor rgb variable title "answer, by rank", \
	table using (has_label(0) ? column("speed_per_user") : NaN):"throughput_per_gpu": \
	(stringcolumn("label")) with labels left offset 0.7, 0.5 \
	textcolor rgb text_color notitle
