// SPDX-License-Identifier: Apache-2.0
// libcutrace_inject.so: the driver loads it when CUDA_INJECTION64_PATH names it, and calls InitializeInjection while
// CUDA starts; NVTX loads it when NVTX_INJECTION64_PATH names it, at its first call. Whoever comes first opens a
// session from the environment, so that a program that knows nothing of cutrace is traced.
#include <atomic>
#include <cstdio>
#include <cutrace/cupti/register.hpp>
#include <cutrace/nvtx/ingest.hpp>
#include <cutrace/runtime.hpp>
#include <exception>
#include <memory>

namespace {

/// Sinks that are used when the environment names none: the report, on stderr.
constexpr const char* default_sinks = "ascii";

void open_session(bool by_driver) {
  cutrace::session_options options;
  if (cutrace::detail::environment("CUTRACE_SINKS") == nullptr) options.sinks = default_sinks;
  if (by_driver) cutrace::cupti::loaded_by_driver() = true;
  // The runtime's own exit handler ends the trace when the program exits.
  cutrace::detail::keep_for_ever(std::unique_ptr<cutrace::session>(new cutrace::session(options)));
}

/// False when CUTRACE=0, and in processes that `cutrace run` is told to leave out. A value that means nothing is the
/// session's to tell.
bool wanted() noexcept {
  if (cutrace::detail::what_command_says() == cutrace::detail::command_says::leave_out) return false;
  try {
    return cutrace::detail::tracing_wanted();
  } catch (...) {
    return true;
  }
}

/// Opens the session once in a process; true when it has been opened. No exception and no exit ever leaves it, and the
/// program goes on untraced when it fails.
///
/// Nobody waits here: one thread may come from within the driver, which holds its locks, while another one that came
/// from NVTX opens the session and asks the driver for something. And who opens it may come here again, since what it
/// calls may use NVTX.
bool start(bool by_driver) noexcept {
  static std::atomic<int> begun{0};  // 1: somebody opens it; 2: it is open
  int expected = 0;
  if (!begun.compare_exchange_strong(expected, 1)) return expected == 2;
  try {
    open_session(by_driver);
    begun = 2;
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cutrace: not traced by the injected library: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "cutrace: not traced by the injected library\n");
  }
  return false;
}

}  // namespace

/// Tells a session that emits NVTX that the tool which it found is this one.
extern "C" __attribute__((visibility("default"), used)) const char cutrace_injected_library = 1;

/// Called by the driver, once, before the first CUDA call of the program returns.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (wanted()) start(true);
  return 1;
}

/// Called by each NVTX instance of the process at its first call: the executable's, and those of libraries. Functions
/// that are not set do nothing there, so a program that is not traced pays one test of a pointer.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(cutrace::nvtx::get_export_table tables) {
  if (!wanted()) return 1;
  start(false);
  cutrace::nvtx::ingest::attach(tables);
  return 1;
}
