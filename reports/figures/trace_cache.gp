# Share of prompt tokens that a prefix cache finds, against its size, from the table of
# `quire trace cache --out`. quire puts the table in front of the script instead, and may also have
# set subject, the trace's name; model, whose GiB the sizes are shown in; gpu and gpu_gib, what a
# GPU holds of them beside the model's weights.
if (!exists("quire_style")) {
	if (ARGC < 2) { print "usage: gnuplot -c trace_cache.gp OUT.svg TABLE.tsv"; exit status 2 }
	load ARG0[1:strlen(ARG0) - strlen("trace_cache.gp")]."style.gp"
	table = ARGV[2]
}
if (!exists("subject")) { subject = "" }
name = subject
subject = "Prefix-cache hits by cache size".(name eq "" ? "" : ": ".name)

set datafile columnheaders
set datafile missing "-"
eval standalone_open(490, 100, 1)
stats table using "capacity_gib" nooutput
has_gib = exists("STATS_records") && STATS_records > 0
size = has_gib ? "capacity_gib" : "capacity_tokens"
set xlabel has_gib ? (exists("model") ? "KV cache of ".model.", GiB" : "KV cache, GiB") : \
	"Cache size, tokens"
set logscale x
set format x has_gib ? "%g" : "%.0s%c"
set xrange [*:*] noextend
percent(hits, total) = total > 0 ? 100.0 * hits / total : NaN
stats table using (percent(column("infinite_hit_tokens"), column("total_tokens"))) nooutput
eval y_axis(STATS_max)
eval y_title("Prompt tokens found, %")

array policy[5]
policy[1] = "infinite"
policy[2] = "belady"
policy[3] = "lru_tail"
policy[4] = "lru_stream"
policy[5] = "fifo"
array policy_name[5]
policy_name[1] = "infinite"
policy_name[2] = "optimum (Belady)"
policy_name[3] = "LRU, as engines do"
policy_name[4] = "LRU, block by block"
policy_name[5] = "FIFO"
shade(k) = k == 1 ? 0x1f2933 : color(word("1 3 1 5 2", k) + 0)
line(k) = word("2 1 1 3 4", k) + 0
width(k) = word("1.4 1.8 2.6 1.4 1.8", k) + 0.0
set dashtype 3 (6, 2.5)
set dashtype 4 (8, 2, 1.5, 2)
found(k) = percent(column(policy[k]."_hit_tokens"), column("total_tokens"))

# What the GPU holds, and what LRU finds with it.
has_gpu = exists("gpu_gib") && has_gib
if (has_gpu) {
	best = 0.0
	stats table using (column("capacity_gib") <= gpu_gib && found(3) > best ? \
		(best = found(3), best) : NaN) nooutput
	set arrow 1 from gpu_gib, graph 0 to gpu_gib, graph 1 nohead back linewidth 1.4 \
		linecolor rgb slo_color
	set label 1 sprintf("%s: %.3g GiB", gpu, gpu_gib) at gpu_gib, graph 1 right \
		offset 0, 0.7 textcolor rgb slo_color noenhanced
}
plot for [k = 1:5] table using size:(found(k)) with lines dashtype line(k) \
	linewidth width(k) linecolor rgb shade(k) title policy_name[k]
eval note("title", subject)
do for [k = 1:5] {
	stats table using (found(k)) nooutput
	eval note("describe", sprintf("%s: from %.1f to %.1f %% of the prompt tokens.", \
		policy_name[k], STATS_min, STATS_max))
}
if (has_gpu) {
	eval note("describe", sprintf("%s holds %.3g GiB, where LRU finds %.1f %%.", gpu, gpu_gib, \
		best))
}
