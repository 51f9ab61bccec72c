#include <criterion/criterion.h>

#include "tests/faults/fault_sweep.h"

Test(faults_program, help)
{
	fault_sweep_require(&(struct fault_command){.name = "help", .arguments = "help replay"});
}

Test(faults_program, versions)
{
	fault_sweep_require(&(struct fault_command){.name = "--version", .arguments = "--version"});
}

Test(faults_program, a_manual_page)
{
	fault_sweep_require(
		&(struct fault_command){.name = "help --man", .arguments = "help --man"});
}

Test(faults_program, completions)
{
	fault_sweep_require(&(struct fault_command){
		.name = "help --completion", .arguments = "help --completion bash"});
}

Test(faults_program, wrong_options)
{
	fault_sweep_require(&(struct fault_command){
		.name = "a wrong option",
		.arguments = "replay t.jsonl --no-such-option",
		.code = 2,
	});
}

Test(faults_program, a_fit)
{
	fault_sweep_require(&(struct fault_command){
		.name = "calibrate --points",
		.prepare = "head -n 90 $source/sim/profiles/points/h200-qwen3-8b.tsv >p.tsv",
		.arguments = "calibrate --points p.tsv --name mine --out new --plot fit.svg",
		.beside = "new/mine.json",
	});
}

Test(faults_program, a_fit_to_a_log)
{
	fault_sweep_require(&(struct fault_command){
		.name = "calibrate --from-steps",
		.prepare = "sed 1d $source/tests/fuzz/corpus/points/log >log.tsv",
		.arguments = "calibrate --from-steps log.tsv --model qwen3-0.6b --gpu"
			     " h200-datasheet --name mine --out new",
		.beside = "new/points.tsv",
		.points_max = 12,
	});
}

Test(faults_program, a_table_of_kernels)
{
	fault_sweep_require(&(struct fault_command){
		.name = "kernels --from",
		.prepare = "printf "
			   "'kernel\\tcase\\trows\\tbytes\\tflops\\tlaunches\\tus\\tus_min\\tus_"
			   "max\\t'"
			   "'gb_per_s\\ttflop_per_s\\tfloor_us\\tbound\\tshare\\n'"
			   "'sampler\\t256x151936\\t256\\t155583488\\t0\\t100\\t50\\t49\\t51\\t3111"
			   "\\t0\\t'"
			   "'34.4\\tmemory\\t69\\n' >k.tsv",
		.arguments = "kernels --from k.tsv --plot k.svg",
	});
}

Test(faults_program, kernels_without_a_gpu)
{
	fault_sweep_require(&(struct fault_command){
		.name = "kernels", .arguments = "kernels --out k.tsv", .code = 2});
}
