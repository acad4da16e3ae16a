// SPDX-License-Identifier: Apache-2.0
// The command `cutrace`: names its commands and lets them work.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cutrace/version.hpp>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "cutrace/arguments.hpp"
#include "cutrace/attach_command.hpp"
#include "cutrace/bpf_command.hpp"
#include "cutrace/build_parts.hpp"
#include "cutrace/completion_command.hpp"
#include "cutrace/convert_command.hpp"
#include "cutrace/cut_command.hpp"
#include "cutrace/diff_command.hpp"
#include "cutrace/doctor_command.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/explain_command.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/invoking_user.hpp"
#include "cutrace/man_command.hpp"
#include "cutrace/memory_limit.hpp"
#include "cutrace/merge_command.hpp"
#include "cutrace/report_command.hpp"
#include "cutrace/run_command.hpp"
#include "cutrace/say.hpp"
#include "cutrace/why_command.hpp"

namespace {

/// The one place where the command line is parsed and errors become a line.
int parse_and_run(CLI::App& app, int argc, char** argv, int& exit_status) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      const int status = app.exit(e, text, std::cerr);
      std::fputs(text.str().c_str(), stdout);
      return status;
    }
    const CLI::App* at = &app;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    const std::vector<std::string> unknown = at->remaining();
    if (!unknown.empty() && !unknown[0].empty() && !at->get_prefix_command())
      cutrace_tool::say("cutrace: " + cutrace_tool::about_unknown_word(*at, unknown[0]));
    else if (at == &app)
      cutrace_tool::say("cutrace: no command is given\n(cutrace --help says which there are)");
    else
      cutrace_tool::say("cutrace: " + cutrace_tool::about_words(*at, e));
    return cutrace_tool::exit_command_failure;
  } catch (const std::bad_alloc&) {
    cutrace_tool::say("cutrace: " + cutrace_tool::words_of_no_memory());
    return cutrace_tool::exit_command_failure;
  } catch (const std::exception& e) {
    cutrace_tool::say(std::string("cutrace: ") + e.what());
    return cutrace_tool::exit_command_failure;
  }
  return exit_status;
}

/// Writes buffered output. @returns `status`, or exit_command_failure where standard output could not be written
int flush_output(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return status;
  cutrace_tool::say(std::string("cutrace: cannot write standard output") +
                    (errno != 0 ? std::string(": ") + std::strerror(errno) : std::string()));
  return cutrace_tool::exit_command_failure;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    cutrace_tool::check_own_rights(argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    cutrace_tool::say(std::string("cutrace: ") + e.what());
    return cutrace_tool::exit_command_failure;
  }
  cutrace_tool::end_in_words_without_memory();
  static char output_buffer[1 << 20];  // most output is first written by flush_output, which then finds errno set
  if (::isatty(STDOUT_FILENO) == 0) std::setvbuf(stdout, output_buffer, _IOFBF, sizeof(output_buffer));
  cutrace_tool::arguments::split(argc, argv);
  CLI::App app{
      "Shows what a CUDA program does: its stages, its driver calls and the GPU's work, on one timeline.\n"
      "\n"
      "Examples:\n"
      "  cutrace run -- python3 inference.py             trace a program; a report at the end, files in ./cutrace-out\n"
      "  cutrace run --sink chrome -- ./server --port 80 a trace for ui.perfetto.dev\n"
      "  cutrace report t.jsonl                          where the time of a trace went, and what to fix first\n"
      "  cutrace why t.jsonl --slowest 3                 why those requests took so long\n"
      "  cutrace diff before.jsonl after.jsonl           what became slower or faster\n"
      "  cutrace convert t.jsonl -o t.pftrace            a trace file in another format\n"
      "  cutrace explain 4711                            what a traced process that seems to hang waits for\n"
      "  cutrace doctor                                  what will work on this machine, and what helps where it will "
      "not\n"
      "  cutrace run --help                              all that can be chosen\n"
      "\n"
      "What is written (--sink, -o, CUTRACE_SINKS): ascii (a report), calls, chrome, html, jsonl, null, perfetto,\n"
      "prometheus.\n",
      "cutrace"};
  app.formatter(std::make_shared<cutrace_tool::help_format>());
  const CLI::Option* const verbose =
      app.add_flag("--verbose", "With --version: what this build has, and what it lacks");
  app.set_version_flag(
      "--version",
      [verbose] {
        std::string text = "cutrace " CUTRACE_VERSION_STRING;
        if (verbose->count() == 0) return text;
        for (const cutrace_tool::build_part& p : cutrace_tool::build_parts)
          text += std::string(p.there ? "\n  with     " : "\n  without  ") + p.what +
                  (p.there ? std::string() : std::string(", which needs ") + p.needs);
        return text;
      },
      "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  int exit_status = 0;
  cutrace_tool::add_run(app, exit_status);
  cutrace_tool::add_attach(app, exit_status);
  cutrace_tool::add_bpf(app, exit_status);
  cutrace_tool::add_report(app, exit_status);
  cutrace_tool::add_convert(app, exit_status);
  cutrace_tool::add_cut(app, exit_status);
  cutrace_tool::add_merge(app, exit_status);
  cutrace_tool::add_why(app, exit_status);
  cutrace_tool::add_diff(app, exit_status);
  cutrace_tool::add_explain(app, exit_status);
  cutrace_tool::add_doctor(app, exit_status);
  cutrace_tool::add_completion(app, exit_status);
  cutrace_tool::add_man(app, exit_status);
  return flush_output(parse_and_run(app, argc, argv, exit_status));
}
