# Reads `ctest --verbose`, prints a line a test and the whole output of the ones that failed, and at
# last the number of test cases: those of Criterion by its closing line, those of scripts by theirs
# ("N passed, N failed, N skipped"), and 1 for a test that gives no count. Reasons for skipping are
# shown. A test that ctest calls
# failed counts as a failure even if its cases all passed: it may have crashed, leaked or hung.

# "12: text" is what test 12 wrote.
/^[0-9]+: / {
	test = $1 + 0
	text = substr($0, index($0, ": ") + 2)
	gsub(/\033\[[0-9;]*m/, "", text)
	output[test] = output[test] text "\n"
	if (text ~ /Synthesis: Tested:/) {
		passed[test] += field(text, "Passing: ")
		failed[test] += field(text, "Failing: ") # crashes are among them
		is_counted[test] = 1
	} else if (text ~ /^\[SKIP\]/) {
		skipped[test]++
		is_counted[test] = 1
		reasons[test] = reasons[test] "    skipped " substr(text, 8) "\n"
	} else if (text ~ /^skipped: /) {
		reasons[test] = reasons[test] "    " text "\n"
	} else if (text ~ /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/) {
		split(text, word, " ")
		passed[test] += word[1]
		failed[test] += word[3]
		skipped[test] += word[5]
		is_counted[test] = 1
	}
	next
}

# " 3/20 Test #12: block_manager ....   Passed    0.05 sec"
/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
	match($0, /#[0-9]+/)
	test = substr($0, RSTART + 1, RLENGTH - 1) + 0
	has_passed = $0 ~ /  Passed  /
	has_skipped = $0 ~ /\*\*\*Skipped/
	if (has_skipped && !is_counted[test]) {
		skipped[test] = 1
	} else if (has_passed && !is_counted[test]) {
		passed[test] = 1
	} else if (!has_passed && !has_skipped && failed[test] == 0) {
		failed[test] = 1
	}
	if (!has_passed && !has_skipped) {
		printf "%s", output[test]
	}
	print
	printf "%s", reasons[test]
	tests++
	sum_passed += passed[test]
	sum_failed += failed[test]
	sum_skipped += skipped[test]
	next
}

# What is left names why ctest itself could not go on.
/^(CMake|CTest) (Error|Warning)|^No tests were found|^Unable to find|^Could not find/ {
	print
}

function field(text, name)
{
	return substr(text, index(text, name) + length(name)) + 0
}

END {
	if (tests == 0) {
		print "no test ran"
		sum_failed = 1
	}
	printf "%d passed, %d failed, %d skipped\n", sum_passed, sum_failed, sum_skipped
	exit sum_failed > 0
}
