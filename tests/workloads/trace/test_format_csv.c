#include "workloads/trace/format.h"
#include "workloads/trace/trace.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/require.h"
#include "tests/harness/temporary.h"

static char folder[TEMPORARY_PATH_BYTES];

static void set_up(void)
{
	temporary_folder(folder);
}

static void tear_down(void)
{
	temporary_remove(folder);
}

TestSuite(format_csv, .init = set_up, .fini = tear_down);

/* Reads a log, with --columns unless NULL, as "arrival_ns input output" rows with its error at the
   end; the name of its format comes first. */
static void expect(const char *columns, const char *text, const char *expected)
{
	const struct trace_options options = {
		.format = columns == NULL ? NULL : trace_format_find("csv"), .columns = columns};
	char path[TEMPORARY_PATH_BYTES], found[1024] = "";
	struct trace *trace = NULL;
	struct trace_row row;
	struct error error = {0};
	bool has_row = true;
	size_t used = 0;

	temporary_write(folder, "t", text, path);
	enum status status = trace_open(&trace, path, &options, &error);
	if (status == STATUS_OK) {
		used = (size_t)sprintf(found, "%s\n", trace_format_name(trace));
	}
	while (status == STATUS_OK && has_row) {
		status = trace_next(trace, &row, &has_row, &error);
		if (status == STATUS_OK && has_row) {
			used += (size_t)snprintf(found + used, sizeof(found) - used,
				"%" PRIu64 " %" PRIu32 " %" PRIu32 "\n", row.arrival_ns,
				row.input_length, row.output_length);
		}
	}
	if (status != STATUS_OK) {
		const char *place = strstr(error.text, "/t:");
		snprintf(found + used, sizeof(found) - used, "%s",
			place == NULL ? error.text : place + 1);
	}
	trace_close(trace);
	require(strncmp(found, expected, strlen(expected)) == 0, "of '%s' found %s, expected %s",
		text, found, expected);
}

Test(format_csv, common_names_are_recognised)
{
	expect(NULL, "id,Arrival Time,Prompt-Tokens,completion_tokens\na,1.5,2,3\nb,2,4,5\n",
		"csv\n0 2 3\n500000000 4 5\n");
	expect(NULL, "ts,input,output\n7,2,3\n", "csv\n0 2 3\n");
	expect(NULL, "\"created_at\",NumPromptTokens,num_generation_tokens\n\"7\",2,3\n",
		"csv\n0 2 3\n");
	expect(NULL, "Timestamp,input,output\n7,2,3\n", "csv\n0 2 3\n");
	/* No JSON, though it has quotes. */
	expect(NULL, "\"ts\",\"input_length\",\"output_length\"\n7,2,3\n", "csv\n0 2 3\n");
	expect(NULL, "id,ts,input,output\n\"a\"\"\",7,2,3\n\"\"\"\"\"b\",8,4,5\n",
		"csv\n0 2 3\n1000000000 4 5\n");
	for (char digit = '0'; digit <= '9'; digit++) { /* another name */
		char text[64];
		snprintf(text, sizeof(text), "ts,input%c,output\n7,2,3\n", digit);
		expect(NULL, text, "t:1: ");
	}
}

Test(format_csv, formats_with_names_of_their_own_go_first)
{
	expect(NULL, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,2\n",
		"azure\n0 1 2\n");
	expect(NULL, "Timestamp,Model,Request tokens,Response tokens\n5,m,1,2\n",
		"burstgpt\n0 1 2\n");
}

Test(format_csv, units_are_of_the_name_or_of_the_option)
{
	expect(NULL, "arrival_ms,input,output\n1,2,3\n2.5,2,3\n", "csv\n0 2 3\n1500000 2 3\n");
	expect(NULL, "start_time_us,input,output\n1,2,3\n3,2,3\n", "csv\n0 2 3\n2000 2 3\n");
	expect(NULL, "Arrival ms,input,output\n1,2,3\n2.5,2,3\n", "csv\n0 2 3\n1500000 2 3\n");
	expect(NULL, "ts-ns,input,output\n1,2,3\n3,2,3\n", "csv\n0 2 3\n2 2 3\n");
	expect("unit=us", "ts,input,output\n1,2,3\n3,2,3\n", "csv\n0 2 3\n2000 2 3\n");
	expect("unit=s", "ts_ms,input,output\n1,2,3\n3,2,3\n", "csv\n0 2 3\n2000000000 2 3\n");
	/* No unit without something between it and the name. */
	expect("arrival=atoms", "atoms,input,output\n1,2,3\n3,2,3\n",
		"csv\n0 2 3\n2000000000 2 3\n");
	expect(NULL, "time,input,output\n2024-02-29T00:00:00Z,2,3\n2024-03-01 01:00:00+01:00,2,3\n",
		"csv\n0 2 3\n86400000000000 2 3\n");
}

Test(format_csv, columns_of_any_name_can_be_named)
{
	expect("output=c,arrival=a,input=b", "c,b,a\n1,2,3\n4,5,6.25\n",
		"csv\n0 2 1\n3250000000 5 4\n");
	/* Those that are not named have common names. */
	expect("input=x", "ts,x,output,input\n1,2,3,9\n", "csv\n0 2 3\n");
	expect("arrival=time", "ts,time,input,output\n1,2,3,4\n", "csv\n0 3 4\n");
}

/* A log has 0, NULL or nothing for what a request that failed lacks. */
Test(format_csv, rows_without_an_answer_are_passed_over)
{
	static const char *const lacking[] = {"", "0", "0.0", "NULL", "null", "None", "NaN"};

	for (uint32_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
		char text[96];
		snprintf(text, sizeof(text), "ts,input,output\n1,5,%s\n1,%s,5\n2,2,3\n", lacking[i],
			lacking[i]);
		expect(NULL, text, "csv\n0 2 3\n");
	}
	expect(NULL, "ts,input,output\n1,5,-1\n",
		"csv\nt:2: output: found -1, expected an integer");
	expect(NULL, "ts,input,output\n1,-5,1\n", "csv\nt:2: input: found -5, expected an integer");
	expect(NULL, "ts,input,output\n1,5,nul\n",
		"csv\nt:2: output: found nul, expected an integer");
	expect(NULL, "ts,input,output\n1,0,0\n2,2,3\n", "csv\n0 2 3\n");
	expect(NULL, "ts,input,output\n1,5,0\n2,6,0\n",
		"csv\nt: found no row, expected at least one beside the 2 rows without input "
		"or output tokens: failures at the source that are passed over");
	expect(NULL, "ts,input,output\n", "csv\nt: found no row, expected a trace with at least");
}

/* As a table is written whose column has gaps. */
Test(format_csv, integers_may_have_zeros_behind_a_point)
{
	expect(NULL, "ts,input,output\n1,20.0,100.00\n2,30.,0.0\n3,40,5\n",
		"csv\n0 20 100\n2000000000 40 5\n");
	static const char *const others[] = {"20.5", "20.05", ".0", ".", "2e1", "-0.0", "1.0.0"};
	for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char text[64], expected[64];
		snprintf(text, sizeof(text), "ts,input,output\n1,5,%s\n", others[i]);
		snprintf(expected, sizeof(expected), "csv\nt:2: output: found %s, expected an",
			others[i]);
		expect(NULL, text, expected);
	}
}

Test(format_csv, bad_logs_get_one_clear_line)
{
	expect(NULL, "ts,n,input,output\n1,\"a\nb\",2,3\n",
		"csv\nt:2: found 1,\"a, expected 4 values between commas, as in the header; a "
		"field "
		"in quotes does not end on its line");
	expect(NULL, "ts,input,output\n1,\"2\"\"\",3,4\n",
		"csv\nt:2: found 1,\"2\"\"\",3,4, expected 3 values between commas, as in the "
		"header");
	expect(NULL, "when,in,out\n1,2,3\n",
		"t:1: found when,in,out, expected the first line of a trace");
	expect("arrival=when", "when,in,out\n1,2,3\n",
		"t:1: input: found when,in,out, expected a header line with a common name of it; "
		"--columns input=NAME");
	expect("arrival=x", "ts,input,output\n1,2,3\n",
		"t:1: arrival: found ts,input,output, expected a header line with x;");
	expect("unit=ms", "ts,time,input,output\n1,2,3,4\n",
		"t:1: arrival: found ts,time,input,output, expected one column of it; --columns "
		"arrival=NAME chooses");
	expect(NULL, "ts,input,output\nsoon,2,3\n",
		"csv\nt:2: ts: found soon, expected s in [0, 2^63 ns) (quire trace convert "
		"--columns unit=ms");
	expect(NULL, "ts,input,output\n2024-13-01 00:00:00,2,3\n",
		"csv\nt:2: ts: found 2024-13-01 00:00:00, expected a calendar time that there is, "
		"of "
		"the years 1971 to 2200: YYYY-MM-DD HH:MM:SS.fraction");
	expect(NULL, "ts,input,output\n1700000000000,2,3\n", "csv\nt:2: ts: found 1700000000000,");
	expect(NULL, "ts,input,output\n1,2.5,3\n",
		"csv\nt:2: input: found 2.5, expected an integer");
	expect(NULL, "ts,input,output\n1,2,-3\n",
		"csv\nt:2: output: found -3, expected an integer");
	expect(NULL, "ts,input,output\n1,2\n", "csv\nt:2: found 1,2, expected 3 values");
	expect(NULL, "ts,input,output\n2,2,3\n1,2,3\n", "csv\n0 2 3\nt:3: found a time");
	expect("arrival=ts", "ts\tin\tout\n1\t2\t3\n",
		"t:1: found ts?in?out, expected a header line of names between commas; columns are "
		"separated by commas, here by tabs: tr '\\t' , makes them commas");
	expect("arrival=ts", "ts;in;out\n1;2;3\n",
		"t:1: found ts;in;out, expected a header line of names between commas; columns are "
		"separated by commas, here by semicolons: tr ';' , ");
	expect("arrival=ts", "{\"ts\":1,\"in\":2,\"out\":3}\n",
		"t:1: found {\"ts\":1,\"in\":2,\"out\":3}, expected a header line of names between "
		"commas, for --columns is of CSV; a row of JSON has timestamp, input_length and "
		"output_length");
	expect("arrival=ts", "[{\"ts\":1,\"in\":2,\"out\":3},\n",
		"t:1: found [{\"ts\":1,\"in\":2,\"out\":3},, expected a header line of names "
		"between "
		"commas; of JSON a line has one object: jq -c '.[]' writes those of an array so");
	static const char *const wrong[] = {"x=ts", "arrival", "arrival=", "unit=min", "",
		"arrival=a,arrival=b", "unit=s,unit=s", "arrival=ts,"};
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		expect(wrong[i], "ts,input,output\n1,2,3\n", "--columns: found '");
	}
}
