// SPDX-License-Identifier: Apache-2.0
#include "cutrace/cut_command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/memory_limit.hpp"
#include "cutrace/output_sink.hpp"
#include "cutrace/trace_filter.hpp"
#include "cutrace/trace_input.hpp"
#include "cutrace/unfinished_files.hpp"
#include "cutrace/view_options.hpp"

namespace cutrace_tool {

namespace {

struct cut_arguments {
  std::vector<std::string> files;
  std::string output;
  choice_words choice;
  bool quiet = false;
};

int run_cut(cut_arguments& w) {
  w.choice.parsed();  // refuses a wrong choice before a file is made
  if (w.choice.empty())
    throw usage_error(
        "nothing says what to cut out: give --from, --to, --stage, --request or --device (cutrace convert writes all)");
  prepare_to_read(w.files);
  const std::unique_ptr<cutrace::sink> to = make_output_sink(w.output, w.files);
  const remove_unfinished_files_on_failure on_failure;
  const chosen_outcome o = read_chosen(w.files, *to, w.choice, w.quiet, chosen_for::file);
  print_left_out(*to);
  return o.status_or_nothing(status_of(o));
}

}  // namespace

void add_cut(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("cut", "Write a part of a trace file: a time, a stage, a request, a device");
  const auto w = std::make_shared<cut_arguments>();
  command->formatter(std::make_shared<help_format>("cutrace cut [options] FILE... -o OUTPUT"));
  command->add_option("files", w->files, "Traces, as for cutrace convert")->required()->type_name("FILE...");
  command->add_option("-o,--output", w->output, "As for cutrace convert")->required()->type_name("OUTPUT");
  w->choice.add_options(*command);
  add_quiet_option(*command, w->quiet);
  add_memory_option(*command);
  command->footer(
      "An event must match each option that is given, of one given several times one value.\n"
      "What describes processes, threads and devices is always kept.\n"
      "Exit code: that of cutrace convert.\n"
      "Examples:\n"
      "  cutrace cut t.pftrace -o part.pftrace --from 2s --to 2.5s\n"
      "  cutrace cut t.jsonl -o slow.html --request chat-0007\n"
      "  cutrace cut t.jsonl -o ascii:- --stage decode");
  command->callback([w, &exit_status] {
    remove_unfinished_files_when_interrupted();
    exit_status = run_cut(*w);
  });
}

}  // namespace cutrace_tool
