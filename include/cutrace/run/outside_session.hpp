// SPDX-License-Identifier: Apache-2.0
// The session of a program that knows nothing of cutrace, opened by a library that got into it from outside: injected
// by the driver or by NVTX, or preloaded.
#pragma once

#include <atomic>
#include <cutrace/base/write_all.hpp>
#include <cutrace/nvtx/ingest.hpp>
#include <cutrace/run/keep_for_ever.hpp>
#include <cutrace/run/settings.hpp>
#include <cutrace/session.hpp>
#include <exception>
#include <memory>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct outside_session {
  /// Sinks that are used when the environment names none: the report, on stderr.
  static constexpr const char* default_sinks = "ascii";

  /// False when CUTRACE=0, in processes that `cutrace run` is asked to leave out, and in programs with more rights than
  /// their caller, who chose this library. An unusable CUTRACE counts as true: the session reports it.
  static bool wanted() noexcept {
    if (has_more_rights_than_caller()) {
      static std::atomic<bool> said{false};
      if (!said.exchange(true))
        write_error_line(
            "cutrace: a program with rights that its caller has not (setuid, setgid or file capabilities) is not "
            "traced from outside");
      return false;
    }
    if (what_command_says() == command_says::leave_out) return false;
    try {
      return tracing_wanted();
    } catch (...) {
      return true;
    }
  }

  /// Opens the session once in a process; true when it has been opened. No exception and no exit ever leaves it, and
  /// the program goes on untraced when it fails. `way` is how the message calls the library; `backend` is used where
  /// the environment names none, null: the automatic one. `before` is called first, by the thread that opens it.
  ///
  /// Nobody waits here: one thread may come from within the driver, which holds its locks, while another one that came
  /// from NVTX opens the session and asks the driver for something. And the thread that opens the session may come here
  /// again, since functions that it calls may use NVTX.
  static bool open(const char* way, const char* backend, void (*before)() noexcept = nullptr) noexcept {
    static std::atomic<int> begun{0};  // 1: somebody opens it; 2: it is open
    int expected = 0;
    if (!begun.compare_exchange_strong(expected, 1)) return expected == 2;
    try {
      if (before != nullptr) before();
      session_options options;
      if (environment("CUTRACE_SINKS") == nullptr) options.sinks = default_sinks;
      if (environment("CUTRACE_BACKEND") == nullptr) options.backend = backend;
      // The runtime's own exit handler ends the trace when the program exits.
      keep_for_ever(std::unique_ptr<session>(new session(options)));
      begun = 2;
      return true;
    } catch (const std::exception& e) {
      write_error_line("cutrace: not traced by the %s library: %s", way, e.what());
    } catch (...) {
      write_error_line("cutrace: not traced by the %s library", way);
    }
    return false;
  }

  /// Called by each instance of NVTX in the process, the executable's and those of libraries, at its first call.
  /// NVTX skips functions that are not set, so a program that is not traced pays one test of a pointer.
  static int attach_nvtx(nvtx::get_export_table tables, const char* way, const char* backend) noexcept {
    if (!wanted()) return 1;
    open(way, backend);
    nvtx::ingest::attach(tables);
    return 1;
  }
  /// The same for an extension module of NVTX; NVTX itself has called the attach_nvtx above before.
  static int attach_nvtx(nvtx::extension_module* to) noexcept { return wanted() && nvtx::ingest::attach(to) ? 1 : 0; }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
