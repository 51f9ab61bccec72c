#include <criterion/criterion.h>

#include "tests/faults/fault_sweep.h"

/* Commands that do many runs. Workers are processes of their own (bench/jobs), so here the command
   does its runs itself. */
#define MAKE_TRACE                                                                                 \
	"$quire trace make --requests 6 --input 20:60 --output 2:6 --rate 50 --seed 3 --out "      \
	"t.jsonl"
#define SMALL                                                                                      \
	" --gpu h200-datasheet --block-size 16 --max-num-seqs 4"                                   \
	" --max-num-batched-tokens 64 --max-model-len 96"

Test(faults_searches, a_plan)
{
	fault_sweep_require(&(struct fault_command){
		.name = "plan",
		.prepare = MAKE_TRACE,
		.arguments = "plan t.jsonl --slo-ttft-ms 20 --vary kv-blocks --replicates 0 "
			     "--precision 0.5"
			     " --out out --jobs 1" SMALL,
		.points_max = 3,
	});
}

Test(faults_searches, a_sweep)
{
	fault_sweep_require(&(struct fault_command){
		.name = "sweep",
		.prepare = MAKE_TRACE,
		.arguments =
			"sweep t.jsonl --grid seed=1,2 --kv-blocks 12 --out out --jobs 1" SMALL,
		.is_resumed = true,
		.points_max = 6,
	});
}

/* In the folder of a sweep of another trace, whose cache curve is not that of this one. */
Test(faults_searches, a_sweep_in_place_of_another)
{
	fault_sweep_require(&(struct fault_command){
		.name = "sweep --force",
		.prepare = MAKE_TRACE " --prefix 16:2; sed 's/, .hash_ids.*/, \"hash_ids\": [7]}/' "
				      "t.jsonl >u.jsonl; "
				      "$quire sweep u.jsonl --grid kv-blocks=12,14 --out out "
				      "--jobs 1" SMALL " >/dev/null",
		.arguments =
			"sweep t.jsonl --grid kv-blocks=12,14 --out out --jobs 1 --force" SMALL,
		.is_resumed = true,
		.points_max = 6,
	});
}

/* Of few runs: three requests are all that can be in the system. */
Test(faults_searches, a_plan_of_few_runs)
{
	fault_sweep_require(&(struct fault_command){
		.name = "plan of few runs",
		.prepare = MAKE_TRACE,
		.arguments = "plan t.jsonl --max-requests 3 --slo-ttft-ms 99 --vary concurrency"
			     " --replicates 0 --kv-blocks 12 --out out --jobs 1" SMALL,
	});
}

/* ---- the gate ---- */

/* A case is a process of its own (bench/gate/child.h), so here its parent's operations fail. */
#define MAKE_SUITE                                                                                 \
	"$quire trace make --requests 5 --input 20:60 --output 2:6 --rate 50 --seed 3"             \
	" --out t.jsonl; echo '{\"cases\": [{\"name\": \"a\", \"trace\": \"t.jsonl\", "            \
	"\"options\": \"--gpu h200-datasheet --block-size 16 --kv-blocks 12 --max-num-seqs 4 "     \
	"--max-num-batched-tokens 64 --max-model-len 96\"}]}' >s.json"
#define MAKE_BASELINE MAKE_SUITE "; $quire gate s.json --update --out first >/dev/null"

Test(faults_searches, a_gate)
{
	fault_sweep_require(&(struct fault_command){
		.name = "gate",
		.prepare = MAKE_BASELINE,
		.arguments = "gate s.json --jobs 1 --out out",
		.is_resumed = true,
		.points_max = 6,
	});
}

Test(faults_searches, a_gate_that_writes_for_others)
{
	fault_sweep_require(&(struct fault_command){
		.name = "gate --json",
		.prepare = MAKE_BASELINE,
		.arguments = "gate s.json --jobs 1 --out out --json g.json --junit g.xml "
			     "--markdown g.md",
		.is_resumed = true,
		.points_max = 6,
	});
}

Test(faults_searches, a_baseline)
{
	fault_sweep_require(&(struct fault_command){
		.name = "gate --update",
		.prepare = MAKE_BASELINE "; sed -i 's/kv-blocks 12/kv-blocks 13/' s.json",
		.arguments = "gate s.json --update --jobs 1 --out out",
		.is_resumed = true,
		.points_max = 6,
	});
}
