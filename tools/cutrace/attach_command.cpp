// SPDX-License-Identifier: Apache-2.0
#include "cutrace/attach_command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/ebpf_run.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/probe_choice.hpp"
#include "cutrace/run_options.hpp"

#if defined(CUTRACE_WITH_EBPF)
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cutrace/clock.hpp>
#include <cutrace/run/sampling.hpp>
#include <fstream>

#include "cutrace/call_relay.hpp"
#include "cutrace/ebpf_settings.hpp"
#include "cutrace/invoking_user.hpp"
#include "cutrace/requested_probes.hpp"
#include "cutrace/run_environment.hpp"
#include "cutrace/run_folder.hpp"
#include "cutrace/run_report.hpp"
#include "cutrace/say.hpp"
#endif

namespace cutrace_tool {

namespace {

struct attach_options {
  int process = 0;
  std::string method = "ebpf";
  std::string duration;
  run_options outputs;
};

#if defined(CUTRACE_WITH_EBPF)

std::string name_of(int process) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(process) + "/comm"), name);
  return name;
}

/// Why no process can be held by this number.
std::string about_missing(int process) {
  const std::string number = std::to_string(process);
  std::ifstream in("/proc/" + number + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.compare(0, 6, "Tgid:\t") == 0 && line.substr(6) != number)
      return number + " is a thread of process " + line.substr(6) + ": cutrace attach " + line.substr(6);
  return "there is no process " + number;
}

/// A process, held so that another one that gets its number is not taken for it.
class held_process {
 public:
  explicit held_process(int process)
      : process_(process), fd_(process > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, process, 0)) : -1) {
    if (fd_ < 0) throw usage_error(about_missing(process));
  }
  held_process(const held_process&) = delete;
  held_process& operator=(const held_process&) = delete;
  ~held_process() { ::close(fd_); }

  /// A pidfd, readable once the process has ended, even before its parent has waited for it.
  int fd() const noexcept { return fd_; }
  /// Where it returns, all that was read by the process's number so far was about this process, not about a later one
  /// with the same number. @throws usage_error where the process has ended
  void check_alive() const {
    pollfd end{fd_, POLLIN, 0};
    if (::poll(&end, 1, 0) != 0) throw usage_error("process " + std::to_string(process_) + " has ended");
  }
  /// Root may look into any process; everybody else into those that a debugger of theirs could.
  void check_rights() const {
    if (process_ == ::getpid()) throw usage_error("cutrace does not trace itself");
    const int why = ::getuid() == 0 ? 0 : trace_permission_error(process_);
    check_alive();
    if (why != 0)
      throw usage_error("process " + std::to_string(process_) + " is not yours to trace: " + std::strerror(why) +
                        "; it is another user's, hides itself (PR_SET_DUMPABLE), or kernel.yama.ptrace_scope forbids "
                        "it. Root may.");
  }

 private:
  int process_, fd_;
};

/// Until the time is over, the process ends, or a signal comes that asks for the end.
void relay_until(call_relay& relay, int wake_fd, const held_process& process, std::uint64_t end_ns) {
  sigset_t asked;
  ::sigemptyset(&asked);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&asked, s);
  ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);
  const int arrivals = ::signalfd(-1, &asked, SFD_CLOEXEC);
  for (;;) {
    const std::uint64_t now = cutrace::clock::monotonic_ns();
    if (now >= end_ns) break;
    pollfd all[3] = {{arrivals, POLLIN, 0}, {wake_fd, POLLIN, 0}, {process.fd(), POLLIN, 0}};
    const std::uint64_t left_ms = (end_ns - now) / 1000000 + 1;
    static_cast<void>(::poll(all, 3, static_cast<int>(std::min<std::uint64_t>(left_ms, 20))));
    if (((all[0].revents | all[2].revents) & POLLIN) != 0) break;
    relay.relay();
  }
  if (arrivals >= 0) ::close(arrivals);
}

int attach(attach_options& o) {
  std::uint32_t duration_ms = 0;
  if (!o.duration.empty() && (!cutrace::detail::sampling::parse_time(o.duration, duration_ms) || duration_ms == 0))
    throw usage_error("--duration=\"" + o.duration +
                      "\" cannot be used; accepted: " + cutrace::detail::sampling::accepted_time);
  const held_process held(o.process);
  held.check_rights();
  requested_probes wanted(o.outputs.probes);
  become(find_invoking_user());
  const auto process = static_cast<std::uint32_t>(o.process);
  const std::string name = name_of(o.process);
  o.outputs.method = o.method;
  o.outputs.program = {name.empty() ? std::to_string(o.process) : name};
  const output_folder folder(o.outputs.out);
  auto status = std::make_unique<run_status>(folder.path());
  const run_environment environment =
      compose_environment(o.outputs, {}, {}, folder.path(), status->folder(), terminal_columns());
  ::signal(SIGPIPE, SIG_IGN);
  const std::unique_ptr<cutrace_ebpf::call_probes> probes = load_probes(false);
  loaded_kernel_probes kernel;
  if (o.outputs.kernel) kernel = load_kernel_probes(*probes);
  wanted.find_libraries(process);
  const std::unique_ptr<cutrace_ebpf::user_probes> own = wanted.load(*probes);
  std::vector<std::string> notes;
  bool all_written = true;
  {
    call_relay relay(*probes, environment.writers, probes_keep_to_a_process() ? process : 0);
    if (kernel.probes) relay.set_kernel(*kernel.probes, kernel.view);
    if (own) relay.set_probes(*own);
    try {
      if (own) own->attach_libraries(probes_keep_to_a_process() ? process : 0);
      const std::size_t functions = relay.attach_mapped(process);
      if (!o.outputs.quiet)
        say("cutrace: " + o.outputs.program[0] + " (pid " + std::to_string(o.process) +
            (functions != 0 ? "): probes on " + std::to_string(functions) + " functions"
                            : ") has no libcuda yet; waiting for it"));
    } catch (const cutrace_ebpf::refused& e) {
      throw usage_error(e.what());
    }
    if (!probes->trace(process)) throw usage_error("the kernel takes no further process");
    held.check_alive();  // else its number may be another process's, whose rights were not checked
    const std::uint64_t end_ns =
        duration_ms != 0 ? cutrace::clock::monotonic_ns() + std::uint64_t{duration_ms} * 1000000 : ~std::uint64_t{0};
    relay_until(relay, probes->wake_fd(), held, end_ns);
    all_written = relay.finish();
    notes = relay.notes();
    if (own)
      for (const std::string& note : own->new_notes()) notes.push_back(note);
  }
  for (const std::string& note : notes) say("cutrace: " + note);
  const std::vector<process_report> processes = read_at_end(*status);
  remove_empty_files(processes);
  run_summary summary;
  summary.out = folder.path();
  summary.program = o.outputs.program[0];
  summary.nvtx = false;
  summary.host_method = o.method;
  summary.quiet = o.outputs.quiet;
  const bool trusted = print_end(summary, processes) && all_written;
  status.reset();
  return o.outputs.strict && !trusted ? exit_not_trusted : 0;
}

#else

int attach(attach_options&) {
  require_ebpf();
  return exit_command_failure;
}

#endif

}  // namespace

void add_attach(CLI::App& app, int& exit_status) {
  CLI::App* attach_app = app.add_subcommand("attach", "Trace the calls of a process that runs already, for a while");
  auto o = std::make_shared<attach_options>();
  attach_app->formatter(std::make_shared<help_format>("cutrace attach [options] PID"));
  attach_app->add_option("PID", o->process, "The process")->required()->check(process_number())->type_name("PID");
  attach_app
      ->add_option("--duration", o->duration,
                   "For this long, as in 500ms, 10s, 2m. Default: until Ctrl-C, or the end of the process")
      ->check(not_empty())
      ->type_name("TIME");
  attach_app->add_option("--method", o->method, "How: by probes of the kernel. Default: ebpf")
      ->check(one_of({"ebpf"}))
      ->type_name("ebpf");
  attach_app->add_flag("--kernel", o->outputs.kernel,
                       "What the kernel does for it, too: ioctls on devices of NVIDIA, waiting, interrupts, errors of "
                       "the GPU, faults on managed memory, each in the call that it is done for");
  add_probe_option(*attach_app, o->outputs.probes);
  attach_app
      ->add_option("--sink", o->outputs.sinks,
                   "What is written: ascii (a report), jsonl, chrome, perfetto, html, prometheus, calls, null. May be "
                   "given several "
                   "times. Default: ascii,jsonl")
      ->type_name("LIST")
      ->allow_extra_args(false);
  attach_app->add_option("--out", o->outputs.out, "Folder of the files. Default: cutrace-out")->type_name("DIR");
  attach_app->add_option("--name", o->outputs.name, "What the names of files begin with. Default: the process's name")
      ->type_name("NAME");
  attach_app->add_flag("--quiet", o->outputs.quiet, "No report, no list of files; warnings remain");
  attach_app->add_flag("--strict", o->outputs.strict,
                       "Exit with 3 where the trace is not whole: lost events, nothing traced");
  attach_app->footer(
      "The process goes on as if nothing had been; calls that are open at the begin or at the end are not recorded.\n"
      "It needs root, or CAP_BPF and CAP_PERFMON; files belong to the user who called it.\n"
      "\n"
      "Examples:\n"
      "  sudo cutrace attach 4711 --duration 10s\n"
      "  sudo cutrace attach 4711 --kernel --sink chrome --out traces\n");
  attach_app->callback([o, &exit_status] { exit_status = attach(*o); });
}

}  // namespace cutrace_tool
