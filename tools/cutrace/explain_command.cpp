// SPDX-License-Identifier: Apache-2.0
#include "cutrace/explain_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cutrace/output/utf8.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/process_socket.hpp"

namespace cutrace_tool {

namespace {

struct explain_options {
  int process = 0;
  bool force = false;
  double timeout_s = 5;
};

/// Text of another process, safe for a terminal: of its control characters only the line ends stay.
std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    cutrace::detail::append_printable(out, text.substr(0, end), text.size());
    out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

int explain(const explain_options& o) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(o.timeout_s * 1000));
  for (const process_socket& socket : find_process_sockets(o.process)) {
    const process_answer answer = ask_process(o.process, socket, o.force ? "explain 1 force" : "explain 1", end);
    if (answer.line.rfind("cutrace 1 error: ", 0) == 0)
      throw usage_error("process " + std::to_string(o.process) + " answers: " + answer.line.substr(17, 500));
    if (answer.line != "cutrace 1 ok")
      throw usage_error("process " + std::to_string(o.process) + " answers \"" + answer.line.substr(0, 100) +
                        "\", which this version of cutrace does not know; ask with the version that is in it");
    std::fputs(printable_lines(answer.text).c_str(), stdout);
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("explain", "What a process that is traced now waits for");
  const auto o = std::make_shared<explain_options>();
  command->formatter(std::make_shared<help_format>("cutrace explain [options] PID"));
  command->add_option("process", o->process, "The process")->required()->check(process_number())->type_name("PID");
  command->add_flag("--force", o->force,
                    "Have CUPTI name the work that is unfinished, by a forced flush. It costs the times of that work: "
                    "the trace will not have them, even where it finishes");
  command->add_option("--timeout", o->timeout_s, "For how long an answer is waited for, in seconds (5)")
      ->check(number_within(0.1, 3600))
      ->type_name("S");
  command->footer(
      "For each busy stream what is unfinished at its head, since when, of which stage and requests, what is queued\n"
      "behind it, and which call each thread is in. Nothing is changed in the process, and no CUDA function is "
      "called.\n"
      "Without --force the answer knows what the GPU's records have said so far, and says what it cannot know.\n"
      "The process must have been started with CUTRACE_CONTROL=1 or with CUTRACE_WATCHDOG, and be of this user; root\n"
      "may ask each.\n"
      "Exit code: 0; 125 where the process cannot be asked or does not answer, with the reason.\n"
      "Examples:\n"
      "  cutrace explain 4711\n"
      "  cutrace explain 4711 --force                       it hangs, so that there are no times to lose\n"
      "  sudo cutrace explain 4711 --timeout 30             of another user, on a busy machine");
  command->callback([o, &exit_status] { exit_status = explain(*o); });
}

}  // namespace cutrace_tool
