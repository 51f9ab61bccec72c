#include <criterion/criterion.h>

#include "tests/faults/fault_sweep.h"

/* An engine so small that it preempts, on a trace of few requests. */
#define MAKE_TRACE                                                                                 \
	"$quire trace make --requests 7 --input 20:60 --output 2:6 --rate 50 --prefix 32:2 "       \
	"--trace-block-size 16 --seed 3 --out t.jsonl"
#define SMALL                                                                                      \
	" --trace-block-size 16 --block-size 16 --kv-blocks 12 --max-num-seqs 4"                   \
	" --max-num-batched-tokens 64 --max-model-len 96"
#define KEEP " mkdir other; echo mine >other/notes.txt"

Test(faults_replay, a_simulation)
{
	fault_sweep_require(&(struct fault_command){
		.name = "replay",
		.prepare = MAKE_TRACE ";" KEEP,
		.arguments = "replay t.jsonl --out out --steps --timeline line.json" SMALL,
		.beside = "line.json",
	});
}

Test(faults_replay, a_simulation_that_replaces)
{
	fault_sweep_require(&(struct fault_command){
		.name = "replay --force",
		.prepare =
			MAKE_TRACE "; head -n 5 t.jsonl >older.jsonl; $quire replay older.jsonl"
				   " --out out --steps --seed 9" SMALL "; echo mine >out/notes.txt",
		.arguments = "replay t.jsonl --out out --force" SMALL,
	});
}

Test(faults_replay, a_tape)
{
	fault_sweep_require(&(struct fault_command){
		.name = "replay of a tape",
		.prepare = MAKE_TRACE "; $quire replay t.jsonl --out tape --steps" SMALL,
		.arguments = "replay t.jsonl --runner tape --tape tape --out out",
	});
}

Test(faults_replay, a_model_on_the_cpu)
{
	fault_sweep_require(&(struct fault_command){
		.name = "replay of a model",
		.prepare = "$quire trace make --requests 2 --input 4:8 --output 2:3 --seed 3"
			   " --out t.jsonl; cp -r $source/tests/fixtures/models/group2 model",
		.arguments = "replay t.jsonl --runner reference --model model --out out"
			     " --block-size 16 --kv-blocks 8 --max-num-seqs 2"
			     " --max-num-batched-tokens 16 --max-model-len 16",
	});
}

Test(faults_replay, a_run_at_the_speed_of_a_clock)
{
	fault_sweep_require(&(struct fault_command){
		.name = "replay with a clock",
		.prepare =
			"$quire trace make --requests 3 --input 4:8 --output 2:3 --rate 50 --seed 3"
			" --out t.jsonl; gzip t.jsonl;"
			" cp -r $source/tests/fixtures/models/group2 model",
		.arguments = "replay t.jsonl.gz --runner reference --model model --out out"
			     " --clock wall --speedup 2 --block-size 16 --kv-blocks 8"
			     " --max-num-seqs 2 --max-num-batched-tokens 16 --max-model-len 16",
	});
}

Test(faults_replay, a_fleet)
{
	fault_sweep_require(&(struct fault_command){
		.name = "replay of a fleet",
		.prepare = MAKE_TRACE
		"; printf 'group\\treplicas\\tkv_blocks\\none\\t1\\t12\\ntwo\\t1\\t20\\n'"
		" >fleet.tsv",
		.arguments = "replay t.jsonl --out out --fleet fleet.tsv --router prefix --outages"
			     " fail:0@0.05,join:0@0.1 --trace-block-size 16 --block-size 16"
			     " --max-num-seqs 4 --max-num-batched-tokens 64 --max-model-len 96",
		.points_max = 12,
	});
}
