// SPDX-License-Identifier: Apache-2.0
#include "cutrace/run_command.hpp"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <cutrace/output/output_file.hpp>
#include <cutrace/run/settings.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cutrace/arguments.hpp"
#include "cutrace/cutrace_libraries.hpp"
#include "cutrace/ebpf_run.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/gpu_core_dump.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/invoking_user.hpp"
#include "cutrace/ioctl_run.hpp"
#include "cutrace/joined_traces.hpp"
#include "cutrace/probe_choice.hpp"
#include "cutrace/program_file.hpp"
#include "cutrace/program_process.hpp"
#include "cutrace/requested_probes.hpp"
#include "cutrace/run_environment.hpp"
#include "cutrace/run_folder.hpp"
#include "cutrace/run_options.hpp"
#include "cutrace/run_report.hpp"
#include "cutrace/run_status.hpp"
#include "cutrace/say.hpp"

namespace cutrace_tool {

namespace {

constexpr unsigned progress_ms = 500, relay_ms = 20;

/// Nothing is put into the program: it is watched from outside.
bool is_outside(const std::string& method) { return method == "ioctl" || method == "ebpf"; }
/// The program is traced from inside and watched from outside.
bool is_joined(const std::string& method) { return method == "all"; }

void check(const run_options& o) {
  if (o.program.empty())
    throw usage_error(arguments::divided() ? "no program stands behind --"
                                           : "no program: cutrace run [options] PROGRAM ARGUMENTS");
  if (o.name.find('/') != std::string::npos || o.name.find_first_of(",?") != std::string::npos)
    throw usage_error("--name=\"" + o.name + "\" cannot be used: no / , or ? in it; --out names the folder");
  if (o.method == "preload" && !(o.kinds.empty() && o.graphs.empty()))
    throw usage_error("--kinds and --graphs are about records of the GPU, which --method preload does not have");
  if (is_outside(o.method) &&
      !(o.kinds.empty() && o.graphs.empty() && o.nvtx.empty() && o.start_after.empty() && o.duration.empty()))
    throw usage_error(
        "--kinds, --graphs, --nvtx, --start-after and --duration are about what happens inside of the program, which "
        "--method " +
        o.method + " sees from outside");
  if (is_joined(o.method) && !(o.start_after.empty() && o.duration.empty()))
    throw usage_error(
        "--start-after and --duration are about what happens inside of the program, and the probes of --method all see "
        "it from its beginning to its end; cutrace cut takes a part of the trace");
  if (o.method != "ebpf" && !is_joined(o.method) && o.kernel)
    throw usage_error(
        "--kernel is about what the kernel does, which its probes see: give --method ebpf (or all), too; ioctls alone, "
        "without root, are recorded by --method ioctl");
  if (o.method != "ebpf" && !is_joined(o.method) && !o.probes.empty())
    throw usage_error("--probe is a probe of the kernel: give --method ebpf (or all), too");
  if (o.method != "preload" && o.gpu_events)
    throw usage_error(
        "--gpu-events measures calls that --method preload records; --method cupti has the GPU's own times");
}

/// What a switch says in the program's environment.
bool says(const run_environment& environment, const char* name, bool usual) {
  const auto found = environment.variables.find(name);
  if (found == environment.variables.end()) return usual;
  return cutrace::detail::switch_value(found->second.c_str()).value_or(usual);
}

bool says_something(const run_environment& environment, const char* name) {
  const auto found = environment.variables.find(name);
  return found != environment.variables.end() && !found->second.empty();
}

/// Processes that go on after --duration has ended their traces. Each is reported once, when it is seen so for the
/// second time: at the first, it may be about to exit.
struct ended_traces {
  bool trusted = true;

  std::vector<process_report> take(const std::vector<process_report>& now) {
    std::vector<process_report> over;
    for (const process_report& p : now) {
      if (p.state != cutrace::detail::run_state::ended || reported_.count({p.id, p.image}) != 0) continue;
      if (seen_.insert({p.id, p.image}).second || !is_running(p.id)) continue;
      reported_.insert({p.id, p.image});
      over.push_back(p);
    }
    return over;
  }
  bool any() const { return !reported_.empty(); }
  void leave_rest(std::vector<process_report>& all) const {
    const auto is_reported = [&](const process_report& p) { return reported_.count({p.id, p.image}) != 0; };
    all.erase(std::remove_if(all.begin(), all.end(), is_reported), all.end());
  }

 private:
  std::set<std::pair<std::uint32_t, unsigned>> seen_, reported_;
};

bool any_runs(const std::vector<process_report>& processes) {
  return std::any_of(processes.begin(), processes.end(), [](const process_report& p) { return p.runs(); });
}

/// Whether its trace ended before it did.
bool outlives_trace(const process_report& p) {
  return p.state == cutrace::detail::run_state::ended && is_running(p.id);
}

/// For who has asked the program to end and waits. `off`: the program is not traced at all.
std::string about_running(const std::string& program, int signal, bool off,
                          const std::vector<process_report>& processes) {
  const std::string text = program + " still runs, " + std::to_string(patience_after_signal_s) + " s after " +
                           (signal == SIGINT ? "SIGINT" : "SIGTERM");
  if (off) return text;
  if (processes.empty()) return text + "; nothing of it has been traced so far";
  if (!any_runs(processes)) return text + "; its trace has ended";
  std::string files, first;
  for (const process_report& p : processes) {
    for (const sink_report& s : p.sinks) {
      if (s.path.empty() || s.path[0] != '/' || cutrace::detail::output_file::names_descriptor(s.path)) continue;
      files += (files.empty() ? "" : ", ") + s.path;
      if (first.empty() && s.name == "jsonl") first = s.path;
    }
  }
  return text + ", and is traced on" + (files.empty() ? "" : ": " + files) +
         (first.empty() ? std::string() : "; what there is so far: cutrace report '" + first + "'");
}

void warn(const std::string& text) { say("cutrace: " + text); }

/// Probes of the kernel, else the ioctls by ptrace, else nothing. A warning says what is used instead.
std::unique_ptr<outside_run> watch_joined(const run_options& options, run_environment& environment,
                                          const std::string& file, const std::string& library, requested_probes* own) {
  const bool children = options.children == "on";
  std::string why;
  try {
    return make_ebpf_run({environment.writers, environment.variables, file, options.method, library, options.program,
                          children, true, own});
  } catch (const no_probes& e) {
    why = e.what();
  }
  environment.variables.erase("CUTRACE_CALL_JOINS");
  environment.writers["CUTRACE_BACKEND"] = "ioctl";
  environment.ptraced = true;
  try {
    if (::geteuid() != 0 && other_rights(file) != nullptr)
      throw usage_error(file + " would lose its rights (" + other_rights(file) + ") by ptrace");
    auto made = std::make_unique<ioctl_run>(environment.writers, children);
    warn(why + "; instead, ioctls are traced by ptrace, which does not see the calls that made them");
    return made;
  } catch (const usage_error& e) {
    warn(why + "; there is CUPTI alone, since " + e.what());
  }
  return nullptr;
}

int run(const run_options& options) {
  check(options);
  const std::string unknown = cutrace::detail::about_unknown_variables();
  if (!unknown.empty()) warn(unknown);
  program_process program;
  const bool preload = options.method == "preload";
  const bool by_tracer = is_outside(options.method), joined = is_joined(options.method);
  if (options.method == "ebpf") require_ebpf();
  const bool ebpf = options.method == "ebpf" || joined;
  const std::string library = by_tracer ? std::string() : preload ? find_preload_library() : find_inject_library();
  const std::string file = find_program(options.program[0]);
  if (by_tracer && !ebpf && ::geteuid() != 0 && other_rights(file) != nullptr)
    throw usage_error(file + " runs with other rights than yours (" + other_rights(file) +
                      "), and a traced program gets none: --method ioctl would change what it does. Run a copy without "
                      "them, as the user whose rights it has.");
  // Root's rights are for the probes: files and program belong to the invoking user.
  const invoking_user user = ebpf ? find_invoking_user() : invoking_user();
  requested_probes own(options.probes);
  if (ebpf)
    become(user);
  else
    drop_capabilities();
  output_folder folder(options.out);
  const std::string& out = folder.path();
  auto status = std::make_unique<run_status>(out);
  const auto probes_status = joined ? std::make_unique<run_status>(*status, "probes") : nullptr;
  const std::string watch = by_tracer ? std::string() : find_watch_library();
  run_environment environment = compose_environment(options, library, watch, out, status->folder(), terminal_columns());
  const std::string sinks = by_tracer ? environment.writers["CUTRACE_SINKS"] : environment.variables["CUTRACE_SINKS"];
  const bool off = !says(environment, "CUTRACE", true);
  if (ebpf) set_variables(user, environment.variables);
  std::unique_ptr<outside_run> tracer;
  if (ebpf) own.find_libraries(file, environment.variables);
  requested_probes* const wanted = options.probes.empty() ? nullptr : &own;
  if (joined && !off)
    tracer = watch_joined(options, environment, file, library, wanted);
  else if (ebpf && !off)
    tracer = make_ebpf_run({environment.writers,
                            environment.variables,
                            file,
                            options.method,
                            {},
                            options.program,
                            options.children == "on",
                            options.kernel,
                            wanted});
  else if (by_tracer && !off)
    tracer = std::make_unique<ioctl_run>(environment.writers, options.children == "on");
  const auto start = [&] {
    const start_gate gate = tracer ? tracer->gate() : start_gate();
    return program.start(options.program, environment.variables, options.children == "off", tracer ? &gate : nullptr);
  };
  const std::time_t started = std::time(nullptr);
  int why = start();
  if (why != 0 && environment.ptraced && tracer && !tracer->refusal().empty()) {
    warn(tracer->refusal() + "; there is CUPTI alone");
    tracer.reset();
    why = start();
  }
  if (why != 0) {
    if (tracer && !tracer->refusal().empty()) throw usage_error(tracer->refusal());
    warn(why_not_started(options.program[0], why));
    return why == ENOENT ? exit_not_found : exit_not_executable;
  }
  ::signal(SIGPIPE, SIG_IGN);  // who reads our stderr may be gone
  if (!options.quiet)
    for (const std::string& note : environment.notes) say("cutrace: " + note);

  progress_line progress(!options.quiet);
  const bool limited = !by_tracer && says_something(environment, "CUTRACE_DURATION");
  run_summary summary;
  summary.out = out;
  summary.program = options.program[0];
  if (!by_tracer)
    summary.out_of_reach = why_out_of_reach(file);
  else if (ebpf)
    summary.out_of_reach = "no process of " + summary.program +
                           " was seen to call CUDA's driver; one in a folder that the loader does not search "
                           "(LD_LIBRARY_PATH adds to these) gets its probes only some time after it was loaded";
  summary.nvtx = options.nvtx != "off" && !by_tracer;
  const bool measured = preload && says(environment, "CUTRACE_GPU_EVENTS", false);
  if ((preload && !measured) || by_tracer) summary.host_method = options.method;
  summary.turned_off = off;
  summary.quiet = options.quiet;
  ended_traces early;
  unsigned ticks = 0;
  const auto tick = [&] {
    if (tracer) tracer->relay();
    if (tracer && ++ticks % (progress_ms / relay_ms) != 0) return;
    if (!limited && !progress.wanted()) return;
    const std::vector<process_report> now = status->read();
    const std::vector<process_report> over = limited ? early.take(now) : std::vector<process_report>();
    if (!over.empty()) {
      progress.erase();
      if (!options.quiet)
        say("cutrace: the time of --duration is over; " + options.program[0] + " goes on, and is not traced any more");
      early.trusted = print_end(summary, over) && early.trusted;
    }
    progress.show(now);
  };
  const auto outlives = [&](int signal) {
    progress.erase();
    if (!options.quiet) say("cutrace: " + about_running(options.program[0], signal, off, status->read()));
  };
  const program_process::ending ending = program.wait(
      tracer                         ? relay_ms
      : progress.wanted() || limited ? progress_ms
                                     : 0,
      tick, [&] { progress.erase(); }, tracer ? tracer->wake_fd() : -1, outlives);
  bool all_written = !tracer || tracer->finish();
  progress.erase();
  if (tracer)
    for (const std::string& note : tracer->notes()) say("cutrace: " + note);
  for (const std::string& dump : gpu_core_dumps(environment.variables, started))
    say("cutrace: the GPU faulted, its core dump is " + dump + ": cuda-gdb -ex 'target cudacore " + dump + "'");

  // A tracer knows its processes itself.
  const bool any_others = !by_tracer && !off && options.children != "off";
  std::vector<process_report> processes = read_at_end(*status, any_others ? &summary.others : nullptr);
  if (by_tracer)
    for (process_report& p : processes) p.cut_off = outlives_trace(p);
  const bool some_run = !summary.others.empty() || any_runs(processes);
  if (some_run) folder.keep();
  if (some_run && joined) status->keep();  // what they write is in it
  summary.late_files = joined ? status->folder() : out;
  if (!joined)
    for (const std::string& line : finish_files(sinks, processes)) warn(line);
  remove_empty_files(processes);
  if (joined && !off) {
    joined_traces both = join_traces(environment.joined_sinks, out, processes, read_at_end(*probes_status));
    processes = std::move(both.processes);
    if (!options.quiet)
      for (const std::string& line : both.lines) say("cutrace: " + line);
    for (const std::string& line : both.warnings) warn(line);
    all_written = all_written && both.warnings.empty();
  }
  early.leave_rest(processes);
  const bool all_said = early.any() && processes.empty() && summary.others.empty();
  const bool trusted = (all_said || print_end(summary, processes)) && early.trusted && all_written;
  status.reset();
  folder.remove_if_empty();  // end_like does not return
  if (options.strict && !trusted && ending.signal == 0 && ending.status == 0) return exit_not_trusted;
  end_like(ending);
}

}  // namespace

void add_run(CLI::App& app, int& exit_status) {
  CLI::App* run_app = app.add_subcommand("run", "Trace a program that knows nothing of cutrace");
  auto o = std::make_shared<run_options>();
  run_app->formatter(std::make_shared<help_format>("cutrace run [options] [--] PROGRAM ARGUMENTS..."));
  run_app
      ->add_option("--sink", o->sinks,
                   "What is written: ascii (a report), jsonl, chrome, perfetto, html, prometheus, calls, null. Each "
                   "gets a file in "
                   "the output folder, unless it names one: jsonl:t-%p.jsonl. May be given several times. Default: "
                   "ascii,jsonl")
      ->type_name("LIST")
      ->allow_extra_args(false);
  run_app->add_option("--out", o->out, "Folder of the files. Default: cutrace-out")->type_name("DIR");
  run_app->add_option("--name", o->name, "What the names of files begin with. Default: the program's or script's name")
      ->type_name("NAME");
  run_app
      ->add_option(
          "--method", o->method,
          "How calls and GPU work are recorded: by CUPTI, or calls alone by a preloaded library, which needs no "
          "CUPTI, or calls alone by probes of the kernel, which put nothing into the program, or the driver's ioctls "
          "alone by ptrace, or all: by CUPTI, by probes and in the kernel, joined into one trace. Default: cupti")
      ->check(one_of({"cupti", "preload", "ebpf", "ioctl", "all"}))
      ->type_name("cupti|preload|ebpf|ioctl|all");
  run_app->add_flag(
      "--gpu-events", o->gpu_events,
      "With --method preload: measure the GPU time of launches, copies and sets by CUDA events around each, "
      "which costs the program time at each of them");
  run_app->add_flag(
      "--kernel", o->kernel,
      "With --method ebpf: what the kernel does for the program, too: ioctls on devices of NVIDIA, waiting, "
      "interrupts, errors of the GPU, faults on managed memory, each in the call that it is done for. --method all "
      "has it anyway");
  add_probe_option(*run_app, o->probes);
  run_app
      ->add_option("--kinds", o->kinds,
                   "Kinds of GPU records: kernel,memcpy,memset,overhead, or changes to them as in "
                   "--kinds=+memory,-overhead")
      ->type_name("LIST");
  run_app->add_option("--graphs", o->graphs, "A CUDA graph's replay as its nodes, or as one event. Default: node")
      ->check(one_of({"node", "graph"}))
      ->type_name("node|graph");
  run_app->add_option("--nvtx", o->nvtx, "Ranges of NVTX become stages. Default: on")
      ->check(one_of({"on", "off"}))
      ->type_name("on|off");
  run_app
      ->add_option("--start-after", o->start_after,
                   "Record from this time on, as in 500ms, 10s, 2m; counted from the first use of CUDA")
      ->check(not_empty())
      ->type_name("TIME");
  run_app->add_option("--duration", o->duration, "Record for this long, then no more; the program goes on")
      ->check(not_empty())
      ->type_name("TIME");
  run_app->add_option("--children", o->children, "Trace the processes that the program starts, too. Default: on")
      ->check(one_of({"on", "off"}))
      ->type_name("on|off");
  run_app->add_flag("--quiet", o->quiet, "No progress, no report, no list of files; warnings remain");
  run_app->add_flag("--strict", o->strict,
                    "Exit with 3 where the program succeeds but its trace is not whole: GPU work without records, lost "
                    "events, a sink that failed, a process that did not end its trace, nothing traced");
  run_app->footer(
      "Files are called NAME.HOST.RANK.PID.EXTENSION, without RANK where no launcher gave one; none is overwritten.\n"
      "The exit status is the program's; 128 + N when signal N ended it, 127 when it is not found, 126 when it cannot "
      "be\n"
      "executed, 125 when the command itself fails.\n"
      "\n"
      "Examples:\n"
      "  cutrace run -- python3 inference.py\n"
      "  cutrace run --sink ascii,chrome --out traces -- ./server --port 8080\n"
      "  cutrace run --start-after 30s --duration 5s --graphs graph -- python3 serve.py\n"
      "  cutrace run --method preload --gpu-events -- ./program\n"
      "  cutrace run --method ioctl --sink calls -- ./program\n"
      "  sudo cutrace run --method ebpf --kernel -- ./program\n"
      "  sudo cutrace run --method all -- python3 inference.py\n"
      "  cutrace run -- torchrun --nproc-per-node 8 train.py\n"
      "  srun cutrace run --quiet --out traces -- ./simulation\n");
  run_app->prefix_command();  // from the program's name on, all words are the program's
  run_app->callback([o, run_app, &exit_status] {
    o->program = run_app->remaining();
    if (!o->program.empty() && o->program[0][0] == '-' && o->program[0].size() > 1)
      throw usage_error(about_unknown_word(*run_app, o->program[0]));
    if (!o->program.empty() && arguments::divided()) o->program.emplace_back("--");
    o->program.insert(o->program.end(), arguments::program().begin(), arguments::program().end());
    exit_status = run(*o);
  });
}

}  // namespace cutrace_tool
