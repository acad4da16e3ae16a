// SPDX-License-Identifier: Apache-2.0
#include "cutrace/bpf_command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/bpf_list.hpp"
#include "cutrace/bpf_script.hpp"
#include "cutrace/ebpf_run.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/probe_choice.hpp"
#include "cutrace/say.hpp"

namespace cutrace_tool {

namespace {

struct bpf_arguments {
  list_options list;
  bool script = false;
  std::vector<std::string> probes;
};

int run_bpf(const bpf_arguments& w) {
#if defined(CUTRACE_WITH_EBPF)
  if (w.list.pattern.empty() == !w.script)
    throw usage_error(
        "cutrace bpf --list 'PATTERN' says what can be probed, cutrace bpf --print-bpftrace prints a script");
  if (!w.script && !w.probes.empty()) throw usage_error("--probe is for --print-bpftrace; --list takes a pattern");
  const std::string text = harmless(w.script ? print_bpftrace(w.list.library, w.probes) : list_probes(w.list));
  std::fputs(text.c_str(), stdout);
  return 0;
#else
  static_cast<void>(w);
  require_ebpf();
  return exit_command_failure;
#endif
}

}  // namespace

void add_bpf(CLI::App& app, int& exit_status) {
  CLI::App* bpf =
      app.add_subcommand("bpf", "Say which functions and tracepoints can be probed here; print a script for bpftrace");
  bpf->formatter(std::make_shared<help_format>("cutrace bpf [options]"));
  auto w = std::make_shared<bpf_arguments>();
  bpf->add_option(
         "--list", w->list.pattern,
         "What can be probed and has such a name: nv*, or [KIND:][LIBRARY or MODULE:]PATTERN; kinds are uprobe, "
         "tracepoint, fentry, kprobe")
      ->type_name("PATTERN");
  bpf->add_option("--library", w->list.library,
                  "Whose functions the uprobes are about: a path, or a name that the loader finds. Default: libcuda")
      ->type_name("PATH");
  bpf->add_flag("--print-bpftrace", w->script,
                "Print a script for bpftrace 0.20 or newer that traces the driver's calls and the probes");
  add_probe_option(*bpf, w->probes);
  bpf->add_flag("--json", w->list.json, "Print one JSON object, see docs/kernel-hooks.md");
  bpf->add_flag("--verbose", w->list.verbose, "Show arguments and results, too");
  bpf->footer(
      "Whether a kind is permitted is tried: a program that does nothing is loaded and attached for a moment.\n"
      "\n"
      "Examples:\n"
      "  sudo cutrace bpf --list 'nv*'\n"
      "  sudo cutrace bpf --list 'tracepoint:sched_process_*' --verbose\n"
      "  cutrace bpf --list 'uprobe:*' --library ./libmine.so\n"
      "  cutrace bpf --list 'fentry:nvidia:*' --json\n"
      "  cutrace bpf --print-bpftrace --probe tracepoint:sched_process_exit > calls.bt\n");
  bpf->callback([w, &exit_status] { exit_status = run_bpf(*w); });
}

}  // namespace cutrace_tool
