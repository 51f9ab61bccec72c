# What a step's time goes to, by kind of step, from kernel_phases.tsv: a bar for each kind, as long
# as the sum of its kernels in shares of the steps' own time.
if (ARGC < 2) { print "usage: gnuplot -c step_operations.gp OUT.svg DIR [DIR...]"; exit status 2 }
if (!exists("quire_style")) { load ARG0[1:strlen(ARG0) - strlen("step_operations.gp")]."style.gp" }

set datafile columnheaders
file(i) = folder(i)."kernel_phases.tsv"
colors_max = 7
name_of(text) = strlen(text) > 17 ? text[1:16]."…" : text
bars = 0
most = 0.0
do for [i = 1:ARGC - 1] {
	stats file(i) using ((column("below_ns") + column("sum_ns")) / column("step_ns") * 100) \
		nooutput
	bars = exists("STATS_records") ? bars + STATS_records : bars
	most = exists("STATS_records") && STATS_records > 0 && STATS_max > most ? STATS_max : most
}
if (bars == 0) {
	eval figure_empty("no kernel was measured")
	exit
}
eval panels_open(8, 275, 2)
set xrange [0:most > 100 ? most : 100]
set xtics 25 format "%g %%"
set xlabel "Share of the steps' time"
set samples 2
set style fill solid 1 noborder
count_steps(n) = n < 10000 ? sprintf("%d", n) : n < 1e7 ? sprintf("%dk", n / 1000) : \
	sprintf("%dM", n / 1000000)
mean_text(ms) = ms < 10 ? sprintf("%.2f ms", ms) : sprintf("%.1f ms", ms)
phase_of(name) = name eq "prefill" ? 3 : name eq "mixed" ? 2 : 1
set multiplot
do for [i = 1:ARGC - 1] {
	eval panel_place(i, 192)
	set lmargin at screen (panel_left(i) + 138.0) / width
	set key at screen (panel_left(i) + panel_width - 182.0) / width, \
		screen 1 - (panel_top(i) + 24.0) / height left top vertical Left reverse \
		noenhanced samplen 0.6 invert
	array shown[colors_max]
	array steps[3]
	array step_ms[3]
	do for [k = 1:3] { steps[k] = 0; step_ms[k] = 0.0 }
	ranks = 0
	do for [k = 1:colors_max] { shown[k] = "" }
	stats file(i) using (p = phase_of(stringcolumn("phase")), steps[p] = column("steps"), \
		step_ms[p] = column("step_ns") / column("steps") / 1e6, k = int(column("rank")), \
		ranks = k > ranks ? k : ranks, k <= colors_max ? (shown[k] = \
		name_of(stringcolumn("operation")), 1) : 1) nooutput
	colors = ranks < colors_max ? ranks : colors_max
	if (ranks == 0) {
		set ytics ()
		set yrange [0:1]
		plot NaN notitle
		continue
	}
	# Kinds of steps that did not occur leave no gap.
	rows = 0
	array row[3]
	set ytics ()
	do for [p = 1:3] {
		if (steps[p] > 0) {
			rows = rows + 1
			row[p] = rows
			set ytics add ((p == 3 ? "prefill" : p == 2 ? "mixed" : "decode"). \
				"\n".count_steps(steps[p])." × ".mean_text(step_ms[p]) rows)
		}
	}
	set yrange [0.45:rows + 0.55]
	part(ns) = ns / column("step_ns") * 100
	plot for [k = 1:colors] file(i) using (column("rank") == k ? \
		part(column("below_ns") + column("sum_ns") / 2) : NaN): \
		(row[phase_of(stringcolumn("phase"))]):(part(column("below_ns"))): \
		(part(column("below_ns") + column("sum_ns"))): \
		(row[phase_of(stringcolumn("phase"))] - 0.33): \
		(row[phase_of(stringcolumn("phase"))] + 0.33) with boxxyerror \
		linecolor rgb color(k) title shown[k], \
		for [k = colors + 1:ranks] file(i) using (column("rank") == k ? \
		part(column("below_ns") + column("sum_ns") / 2) : NaN): \
		(row[phase_of(stringcolumn("phase"))]):(part(column("below_ns"))): \
		(part(column("below_ns") + column("sum_ns"))): \
		(row[phase_of(stringcolumn("phase"))] - 0.33): \
		(row[phase_of(stringcolumn("phase"))] + 0.33) with boxxyerror \
		linecolor rgb grid_color title k == colors + 1 ? "the others" : ""
	eval note("describe", of_run(i)."most of it went to ".shown[1]. \
		(colors > 1 ? ", then ".shown[2] : "").(colors > 2 ? ", then ".shown[3] : "").".")
	do for [p = 1:3] {
		if (steps[p] > 0) {
			eval note("describe", sprintf("%d %s steps take %.3g ms each.", steps[p], \
				p == 3 ? "prefill" : p == 2 ? "mixed" : "decode", step_ms[p]))
		}
	}
}
