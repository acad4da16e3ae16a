// SPDX-License-Identifier: Apache-2.0
#include "cutrace/convert_command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/help_format.hpp"
#include "cutrace/memory_limit.hpp"
#include "cutrace/output_sink.hpp"
#include "cutrace/redact.hpp"
#include "cutrace/trace_input.hpp"
#include "cutrace/unfinished_files.hpp"
#include "cutrace/view_options.hpp"

namespace cutrace_tool {

namespace {

struct convert_arguments {
  std::vector<std::string> files;
  std::string output;
  bool quiet = false, redact = false;
};

int run_convert(const convert_arguments& w) {
  prepare_to_read(w.files);
  const std::unique_ptr<cutrace::sink> to = make_output_sink(w.output, w.files);
  const remove_unfinished_files_on_failure on_failure;
  redact_sink redacted(*to, w.files);
  const int status = status_of(read_trace(w.files, w.redact ? redacted : *to, w.quiet));
  print_left_out(*to);
  return status;
}

}  // namespace

void add_convert(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("convert", "Write a trace file in another format");
  const auto w = std::make_shared<convert_arguments>();
  command->formatter(std::make_shared<help_format>("cutrace convert [options] FILE... -o OUTPUT"));
  command
      ->add_option("files", w->files,
                   "JSONL, Chrome JSON (of PyTorch, too) or Perfetto file, plain or .gz, or the parts of one trace in "
                   "their order; - is standard input")
      ->required()
      ->type_name("FILE...");
  command->add_option("-o,--output", w->output, output_words)->required()->type_name("OUTPUT");
  command->add_flag("--redact", w->redact, "Leave out or replace what can identify somebody; docs/privacy.md lists it");
  add_quiet_option(*command, w->quiet);
  add_memory_option(*command);
  command->footer(
      "Exit code: 0 all was read; 4 it was read, but not all of it could be, and complaints say what and where;\n"
      "125 nothing could be read or written.\n"
      "Examples:\n"
      "  cutrace convert t.jsonl -o t.pftrace                for ui.perfetto.dev\n"
      "  cutrace convert kineto.json.gz -o jsonl:- | jq ...   what PyTorch's profiler wrote, a line for each event\n"
      "  cutrace convert t.0001.jsonl t.0002.jsonl -o t.html  the parts of one trace\n"
      "  cutrace convert t.jsonl --redact -o shared.jsonl    to give away");
  command->callback([w, &exit_status] {
    remove_unfinished_files_when_interrupted();
    exit_status = run_convert(*w);
  });
}

}  // namespace cutrace_tool
