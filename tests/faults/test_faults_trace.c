#include <criterion/criterion.h>

#include "tests/faults/fault_sweep.h"

#define MAKE_TRACE                                                                                 \
	"$quire trace make --requests 6 --input 100:900 --output 2:9 --prefix 512:2 "              \
	"--session-rate 5 --turns 2 --think 1 --seed 3 --out t.jsonl"

Test(faults_trace, making_one)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace make",
		.prepare = "echo older >t.jsonl",
		.arguments = "trace make --preset chat --requests 9 --session-rate 5 --force --out "
			     "t.jsonl",
	});
}

Test(faults_trace, making_one_with_the_lengths_of_another)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace make --lengths-from",
		.prepare = MAKE_TRACE,
		.arguments = "trace make --requests 5 --lengths-from t.jsonl --rate 5 --out -",
	});
}

Test(faults_trace, converting_token_ids)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace convert",
		.prepare = "row() { echo \"{\\\"arrival_time_ns\\\":$1,\\\"input_tok_ids\\\":$2,"
			   "\\\"output_toks\\\":3}\"; };"
			   " { row 0 [1,2,3]; row 9 [1,2,3,4]; } >t.jsonl",
		.arguments = "trace convert t.jsonl --trace-block-size 2 --out new.jsonl",
	});
}

Test(faults_trace, converting_a_gzip_file)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace convert of gzip",
		.prepare = "{ echo TIMESTAMP,ContextTokens,GeneratedTokens;"
			   " echo 2023-11-16 18:15:46.6805900,374,44;"
			   " echo 2023-11-16 18:15:50.9951690,396,109; } | gzip >t.csv.gz",
		.arguments = "trace convert t.csv.gz --sort --out new.jsonl",
	});
}

Test(faults_trace, converting_a_zstd_file)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace convert of zstd",
		.prepare = MAKE_TRACE "; zstd -q t.jsonl",
		.arguments = "trace convert t.jsonl.zst --out -",
	});
}

Test(faults_trace, statistics)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace stat",
		.prepare = MAKE_TRACE,
		.arguments = "trace stat t.jsonl --json --plot stat.svg",
	});
}

Test(faults_trace, a_cache_curve)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace cache",
		.prepare = MAKE_TRACE,
		.arguments = "trace cache t.jsonl --model qwen3-0.6b --out cache.tsv"
			     " --plot cache.svg",
		.beside = "cache.svg",
	});
}

Test(faults_trace, a_cache_policy)
{
	fault_sweep_require(&(struct fault_command){
		.name = "trace cache --policy",
		.prepare = MAKE_TRACE,
		.arguments = "trace cache t.jsonl --policy belady --capacity 2,5 --json",
	});
}
