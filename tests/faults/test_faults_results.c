#include <criterion/criterion.h>

#include "tests/faults/fault_sweep.h"

#define MAKE_RESULTS                                                                               \
	"$quire trace make --requests 5 --input 20:60 --output 2:6 --rate 50 --seed 3"             \
	" --out t.jsonl; for seed in 1 2; do $quire replay t.jsonl --out $seed --steps"            \
	" --block-size 16 --kv-blocks 12 --max-num-seqs $seed --max-num-batched-tokens 64"         \
	" --max-model-len 96 --gpu h200-datasheet; done"

Test(faults_results, a_report)
{
	fault_sweep_require(&(struct fault_command){
		.name = "report",
		.prepare = MAKE_RESULTS "; echo '<p class=\"kind\">quire older' >page.html",
		.arguments = "report 1 --out page.html",
	});
}

Test(faults_results, a_report_of_two)
{
	fault_sweep_require(&(struct fault_command){
		.name = "report of two",
		.prepare = MAKE_RESULTS,
		.arguments = "report 1 2 --out page.html",
	});
}

Test(faults_results, a_comparison)
{
	fault_sweep_require(&(struct fault_command){
		.name = "compare",
		.prepare = MAKE_RESULTS,
		.arguments = "compare 1 2 --same-decisions",
		.code = 1,
	});
}

Test(faults_results, a_comparison_in_json)
{
	fault_sweep_require(&(struct fault_command){
		.name = "compare --json",
		.prepare = MAKE_RESULTS,
		.arguments = "compare 1 2 --json --same-decisions",
		.code = 1,
	});
}

Test(faults_results, errors_of_a_simulation)
{
	fault_sweep_require(&(struct fault_command){
		.name = "compare --errors",
		.prepare = MAKE_RESULTS,
		.arguments = "compare 1 2 --errors",
	});
}

Test(faults_results, a_comparison_with_limits)
{
	fault_sweep_require(&(struct fault_command){
		.name = "compare --gate",
		.prepare = MAKE_RESULTS "; echo 'ttft.p99<=-99%' >limits.txt",
		.arguments = "compare 1 2 --gate tpot.p99<=+5% --limits limits.txt",
		.code = 1,
	});
}

#define MAKE_SWEEP                                                                                 \
	"$quire trace make --requests 5 --input 20:60 --output 2:6 --rate 50 --seed 3"             \
	" --out t.jsonl; $quire sweep t.jsonl --grid 'seed=1,2;kv-blocks=12,20' --out s --jobs 1"  \
	" --gpu h200-datasheet --block-size 16 --max-num-seqs 4 --max-num-batched-tokens 64"       \
	" --max-model-len 96"

Test(faults_results, a_report_of_a_sweep)
{
	fault_sweep_require(&(struct fault_command){
		.name = "report of a sweep",
		.prepare = MAKE_SWEEP,
		.arguments = "report s --out page.html",
		.points_max = 12,
	});
}

Test(faults_results, a_report_of_a_plan)
{
	fault_sweep_require(&(struct fault_command){
		.name = "report of a plan",
		.prepare = "$quire trace make --requests 5 --input 20:60 --output 2:6 --rate 50"
			   " --seed 3 --out t.jsonl; $quire plan t.jsonl --slo-ttft-ms 20 --vary"
			   " kv-blocks --replicates 0 --precision 0.5 --out p --jobs 1 --gpu"
			   " h200-datasheet --block-size 16 --max-num-seqs 4"
			   " --max-num-batched-tokens 64 --max-model-len 96",
		.arguments = "report p --out page.html",
		.points_max = 12,
	});
}
