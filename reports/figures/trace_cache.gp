# Share of prompt tokens that a prefix cache finds, against its size, from the table of
# `quire trace cache --out`. quire puts the table in front of the script instead, and may also have
# set subject = "qwen3-0.6b", the model whose GiB the sizes are shown in.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c trace_cache.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("trace_cache.gp")]."style.gp"
	table = ARGV[2]
}

set datafile columnheaders
set datafile missing "-"
has_legend = 0
eval figure_open(420, 1)
set key at graph 0.02, 0.9 left top vertical Left reverse noenhanced samplen 2 \
	textcolor rgb text_color

stats table using "capacity_gib" nooutput
has_gib = exists("STATS_records") && STATS_records > 0
size = has_gib ? "capacity_gib" : "capacity_tokens"
set xlabel has_gib ? (exists("subject") ? "KV cache of ".subject.", GiB" : "KV cache, GiB") : \
	"Cache size, tokens"
set ylabel "Prompt tokens found, %"
set logscale x
set format x has_gib ? "%g" : "%.0s%c"
set xrange [*:*] noextend
percent(hits, total) = total > 0 ? 100.0 * hits / total : NaN
stats table using (percent(column("infinite_hit_tokens"), column("total_tokens"))) nooutput
eval y_axis(STATS_max)

plot table using size:(percent(column("infinite_hit_tokens"), column("total_tokens"))) \
		with lines dashtype 2 linewidth 1.4 linecolor rgb text_color title "infinite", \
	"" using size:(percent(column("belady_hit_tokens"), column("total_tokens"))) with lines \
		linewidth 1.8 linecolor rgb color(3) title "the optimum (Belady)", \
	"" using size:(percent(column("lru_tail_hit_tokens"), column("total_tokens"))) with lines \
		linewidth 2.4 linecolor rgb color(1) title "LRU, as an engine frees blocks", \
	"" using size:(percent(column("lru_stream_hit_tokens"), column("total_tokens"))) \
		with lines linewidth 1.2 linecolor rgb color(5) title "LRU by single blocks", \
	"" using size:(percent(column("fifo_hit_tokens"), column("total_tokens"))) with lines \
		linewidth 1.8 linecolor rgb color(2) title "FIFO"
