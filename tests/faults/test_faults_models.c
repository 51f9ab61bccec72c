#include <criterion/criterion.h>

#include "tests/faults/fault_sweep.h"

#define COPY_MODEL                                                                                 \
	"mkdir model; sed 's/\"vocab_size\": 96/\"vocab_size\": 640/'"                             \
	" $source/tests/fixtures/models/group2/config.json >model/config.json;"                    \
	" cp $source/tests/fixtures/tokenizer/small.json model/tokenizer.json"

Test(faults_models, a_text)
{
	fault_sweep_require(&(struct fault_command){
		.name = "generate",
		.prepare = COPY_MODEL,
		.arguments = "generate --model model --weights dummy:1 --prompt h\xc3\xa9llo "
			     "--max-tokens 2"
			     " --max-model-len 32 --block-size 16 --kv-blocks 4",
	});
}

Test(faults_models, texts_of_a_file)
{
	fault_sweep_require(&(struct fault_command){
		.name = "generate --json",
		.prepare = COPY_MODEL "; { echo '{\"prompt\":\"a b\"}';"
				      " echo '{\"prompt\":\"c\",\"max_tokens\":1}'; } >p.jsonl",
		.arguments = "generate --model model --weights dummy:1 --prompts p.jsonl "
			     "--max-tokens 2 --json"
			     " --max-model-len 32 --block-size 16 --kv-blocks 4",
	});
}

Test(faults_models, exported_weights)
{
	fault_sweep_require(&(struct fault_command){
		.name = "export",
		.prepare = COPY_MODEL,
		.arguments = "export --model model --weights dummy:7 --out new",
	});
}

Test(faults_models, memory_of_a_gpu)
{
	fault_sweep_require(&(struct fault_command){
		.name = "info",
		.arguments = "info --model qwen3-8b --gpu h200",
	});
}

Test(faults_models, memory_of_a_folder_and_a_file)
{
	fault_sweep_require(&(struct fault_command){
		.name = "info of a folder",
		.prepare = COPY_MODEL "; cp $source/sim/profiles/h200-datasheet.json mine.json",
		.arguments = "info --model model --gpu mine.json --max-model-len 64",
	});
}
