#!/usr/bin/env bash
# Lets libFuzzer look for trace files that break the readers. Needs clang.
#
#     bash tests/fuzz/run.sh [SECONDS]     default 60
#
# New inputs that reach new code are kept in build/fuzz/corpus; one that breaks something is left
# behind as build/fuzz/crash-*. Put it into tests/fuzz/corpus/trace once it is mended: the ordinary
# tests replay that folder.
set -euo pipefail

seconds=${1:-60}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p build/fuzz/corpus

clang -std=c17 -O1 -g -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -DQUIRE_LIBFUZZER -I. \
	-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	tests/fuzz/fuzz_trace.c workloads/*.c \
	engine/base/check.c engine/base/memory.c engine/base/status.c \
	-o build/fuzz/fuzz_trace -lyajl -lz -lzstd -lxxhash
cd build/fuzz
./fuzz_trace -max_total_time="$seconds" -max_len=4096 -timeout=10 \
	corpus ../../tests/fuzz/corpus/trace
