// SPDX-License-Identifier: Apache-2.0
#include "cutrace/run_report.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cutrace/names.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sinks/ascii/page.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "cutrace/say.hpp"

namespace cutrace_tool {

namespace {

using cutrace::detail::run_state;

constexpr std::size_t whole_reports = 3;  ///< processes whose reports are printed as they are
constexpr std::size_t listed_files = 12;

std::string who(const process_report& p) {
  std::string text = fmt::format("{} (pid {}", p.program.empty() ? "process" : p.program, p.id);
  if (p.image > 1) text += fmt::format(", program {} of it", p.image);
  if (p.rank >= 0) text += fmt::format(", rank {}", p.rank);
  return text + ")";
}

std::string numbers(const process_report& p) {
  return fmt::format("{} events, {} GPU operations, {} stages, {} lost", with_commas(p.delivered),
                     with_commas(p.gpu_records), with_commas(p.stages), with_commas(p.lost_total()));
}

const sink_report* finished_text(const process_report& p) {
  for (const sink_report& s : p.sinks)
    if (s.name == "ascii" && s.finished) return &s;
  return nullptr;
}

std::string causes(const process_report& p) {
  std::string text;
  for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i)
    if (p.lost[i] != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", cutrace::to_string(static_cast<cutrace::loss_cause>(i)),
                          with_commas(p.lost[i]));
  return text;
}

/// Whether a process has the backend of `method`, one without GPU time.
bool has_backend(const process_report& p, const std::string& method) {
  return p.backend.compare(0, method.size() + 1, method + ":") == 0;
}

/// "sleep (pid 17) still runs and has not used CUDA so far; its trace will be in /tmp/out"
std::string about_others(const run_summary& run) {
  constexpr std::size_t named = 3;
  const std::size_t n = run.others.size();
  std::string text = n > named ? fmt::format("{} processes (", n) : std::string();
  for (std::size_t i = 0; i < n && i < named; ++i)
    text += fmt::format("{}{} (pid {})", i == 0 ? "" : ", ", run.others[i].name, run.others[i].id);
  if (n > named) text += ", ...)";
  return text +
         (n == 1 ? " still runs and has not used CUDA so far; its trace will be in "
                 : " still run and have not used CUDA so far; their traces will be in ") +
         run.late_files;
}

/// Warnings of one process. True when there is none.
bool warn(const process_report& p, const run_summary& run) {
  const std::string& host_method = run.host_method;
  bool good = true;
  const auto warning = [&](const std::string& text) {
    say("cutrace: warning: " + who(p) + ": " + text);
    good = false;
  };
  if (p.state == run_state::untraced) warning("not traced: " + p.message);
  if (p.state == run_state::starting && !p.alive) warning("ended before its trace had begun");
  if (p.runs()) warning("still runs; its files in " + run.late_files + " are not complete yet");
  if (p.cut_off) warning("still runs, and is not traced any more");
  if (p.open() && !p.alive)
    warning(fmt::format(
        "its trace was not closed: it was killed, executed another program, or left before the trace "
        "could end. When it last reported, {} events were recorded, {} of them not yet delivered; the files "
        "may lack its last second",
        with_commas(p.produced), with_commas(p.pending)));
  if (p.empty_handed() && host_method.empty())
    warning(fmt::format("{} launches were seen, but not one GPU record arrived: the trace holds no GPU time ({})",
                        with_commas(p.launches), p.backend));
  const bool no_backend = !(host_method.empty() ? p.gpu_expected : has_backend(p, host_method)) &&
                          (p.open() || p.state == run_state::ended);
  if (no_backend && !run.quiet)
    say("cutrace: " + who(p) + (host_method.empty() ? ": no GPU time: " : ": no calls: ") + p.backend);
  good = good && !no_backend;
  if (p.lost_total() != 0) warning(fmt::format("{} events were lost: {}", with_commas(p.lost_total()), causes(p)));
  for (const sink_report& s : p.sinks)
    if (!s.failure.empty())
      warning(s.name.empty() ? "a sink cannot be had: " + s.failure
                             : fmt::format("sink {} failed, {} events are missing in it: {}", s.name,
                                           with_commas(s.lost), s.failure));
    else if (s.lost != 0)
      warning(fmt::format("sink {} left {} events out: its file has reached its limit (max=)", s.name,
                          with_commas(s.lost)));
  return good;
}

void print_reports(const std::vector<const process_report*>& worked) {
  for (const process_report* p : worked) {
    const sink_report* report = finished_text(*p);
    if (report != nullptr && worked.size() <= whole_reports) {
      std::ostringstream text;
      text << std::ifstream(report->path).rdbuf();
      say("\n" + text.str());
    } else {
      say(fmt::format("cutrace: {}: {}{}{}", who(*p), numbers(*p), report != nullptr ? "; report " : "",
                      report != nullptr ? report->path : ""));
    }
  }
}

void print_files(const std::string& out, const std::vector<process_report>& processes) {
  std::vector<std::string> lines;
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  for (const process_report& p : processes) {
    for (const sink_report& s : p.sinks) {
      if (s.path.empty() || s.path[0] != '/') continue;
      const bool inside = s.path.compare(0, out.size() + 1, out + "/") == 0;
      std::string name = (inside ? s.path.substr(out.size() + 1) : s.path) + (s.finished ? "" : ".tmp");
      if (s.parts != 0) name += " (" + cutrace::detail::trace_parts::newest_of(s.parts) + ")";
      if (!s.finished && s.bytes == 0) continue;
      lines.push_back(fmt::format("  {:<48} {:>9}{}", name, as_bytes(s.bytes), p.open() ? "  (not complete)" : ""));
      bytes += s.bytes;
      files += std::max<std::size_t>(s.parts, 1);
    }
  }
  if (lines.empty()) return;
  say(fmt::format("cutrace: {} file{}, {}, in {}", files, files == 1 ? "" : "s", as_bytes(bytes), out));
  for (std::size_t i = 0; i < lines.size() && lines.size() <= listed_files; ++i) say(lines[i]);
}

}  // namespace

std::string with_commas(std::uint64_t n) { return std::string(cutrace::ascii::count(n).view()); }

std::string as_bytes(std::uint64_t n) {
  static const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  double value = static_cast<double>(n);
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} B", n) : fmt::format("{:.{}f} {}", value, value < 99.95 ? 1 : 0, units[unit]);
}

progress_line::progress_line(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void progress_line::show(const std::vector<process_report>& processes) {
  // In the background the line would come into what the user is typing.
  if (!wanted_ || ::tcgetpgrp(STDERR_FILENO) != ::getpgrp()) return;
  std::uint64_t events = 0, lost = 0, bytes = 0, traced = 0;
  for (const process_report& p : processes) {
    if (p.state == run_state::untraced) continue;
    ++traced;
    events += p.delivered;
    lost += p.lost_total();
    for (const sink_report& s : p.sinks) bytes += s.bytes;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  std::string line =
      traced == 0 ? fmt::format("[cutrace {:.0f} s] CUDA has not been used yet", seconds)
                  : fmt::format("[cutrace {:.0f} s] {} process{}, {} events, {} lost, {} written", seconds, traced,
                                traced == 1 ? "" : "es", with_commas(events), with_commas(lost), as_bytes(bytes));
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && line.size() >= size.ws_col)
    line.resize(size.ws_col - 1u);  // a line that wraps could not be erased
  line = "\r" + line + "\033[K";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  shown_ = true;
}

void progress_line::erase() {
  if (!shown_) return;
  shown_ = false;
  static_cast<void>(!::write(STDERR_FILENO, "\r\033[K", 4));
}

bool print_end(const run_summary& run, const std::vector<process_report>& processes) {
  std::vector<const process_report*> worked;
  for (const process_report& p : processes)
    if ((p.worked() || (!run.host_method.empty() && p.calls != 0)) && p.state != run_state::untraced)
      worked.push_back(&p);
  if (!run.quiet) print_reports(worked);
  bool good = true;
  for (const process_report& p : processes) good = warn(p, run) && good;
  if (!run.others.empty()) {
    if (processes.empty() || !run.quiet)
      say(std::string("cutrace: ") + (processes.empty() ? "nothing was traced yet: " : "") + about_others(run));
    good = good && !processes.empty();
  } else if (processes.empty()) {
    good = false;
    std::error_code unknown;
    const bool has_folder = std::filesystem::is_directory(run.out, unknown);
    say("cutrace: nothing was traced: " +
        (run.turned_off              ? "CUTRACE=0 in the environment turns tracing off"
         : !has_folder               ? "the output folder " + run.out + " is gone"
         : !run.out_of_reach.empty() ? run.out_of_reach
         : run.host_method == "ioctl"
             ? "no process of " + run.program + " made an ioctl on a device of NVIDIA"
             : "no process of " + run.program + " reported that it used CUDA" + (run.nvtx ? " or NVTX" : "") +
                   "; one without cutrace's variables (env -i, sudo) cannot"));
  } else if (worked.empty() && good && !run.quiet) {
    say("cutrace: " + run.program + " launched no GPU work and had no stages; " + who(processes.front()) + " has " +
        processes.front().backend);
  }
  if (!run.quiet) print_files(run.out, processes);
  return good;
}

}  // namespace cutrace_tool
