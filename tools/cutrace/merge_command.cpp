// SPDX-License-Identifier: Apache-2.0
#include "cutrace/merge_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/memory_limit.hpp"
#include "cutrace/output_sink.hpp"
#include "cutrace/trace_input.hpp"
#include "cutrace/unfinished_files.hpp"
#include "trace/merge.hpp"

namespace cutrace_tool {

namespace {

struct merge_arguments {
  std::vector<std::string> files;
  std::string output;
};

int run_merge(const merge_arguments& w) {
  if (w.files.size() < 2) throw usage_error("cutrace merge takes two traces or more, each of a process");
  if (std::count(w.files.begin(), w.files.end(), "-") != 0)
    throw usage_error("cutrace merge cannot read standard input; give files");
  prepare_to_read(w.files);
  const std::unique_ptr<cutrace::sink> to = make_output_sink(w.output, w.files);
  const remove_unfinished_files_on_failure on_failure;
  const std::string form = to->name();
  if (form == "calls" || form == "prometheus")
    throw usage_error("-o " + w.output + ": the form \"" + form +
                      "\" has no place for the process that a call belongs to; write jsonl, chrome, perfetto, html or "
                      "ascii");
  std::vector<cutrace_reading::outcome> all;
  try {
    all = cutrace_reading::merge(w.files, *to);
  } catch (const cutrace_reading::reading_error& e) {
    throw usage_error(e.what());
  }
  print_left_out(*to);
  int status = 0;
  for (const cutrace_reading::outcome& o : all) {
    print_complaints(o);
    status = std::max(status, status_of(o));
  }
  return status;
}

}  // namespace

void add_merge(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("merge", "Put traces of ranks and processes on one clock, into one file");
  const auto w = std::make_shared<merge_arguments>();
  command->formatter(std::make_shared<help_format>("cutrace merge FILE... -o OUTPUT"));
  command->add_option("files", w->files, "Traces, a file for each process, as for cutrace convert")
      ->required()
      ->type_name("FILE...");
  command->add_option("-o,--output", w->output, "As for cutrace convert, but calls and prometheus")
      ->required()
      ->type_name("OUTPUT");
  add_memory_option(*command);
  command->footer(
      "Processes of one boot are placed by CLOCK_MONOTONIC, exactly; other hosts by CLOCK_REALTIME. Notes in the "
      "output\n"
      "say how each was placed and within what bound. Exit code: that of cutrace convert.\n"
      "Examples:\n"
      "  cutrace merge cutrace-out/train.*.jsonl -o all.pftrace     the ranks of a run, for ui.perfetto.dev\n"
      "  cutrace merge server.jsonl client.jsonl -o both.html\n"
      "  cutrace merge rank0.jsonl rank1.jsonl -o all.jsonl && cutrace report all.jsonl");
  command->callback([w, &exit_status] {
    remove_unfinished_files_when_interrupted();
    exit_status = run_merge(*w);
  });
}

}  // namespace cutrace_tool
