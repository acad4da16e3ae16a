// SPDX-License-Identifier: Apache-2.0
// libcutrace_inject.so: the driver loads it when CUDA_INJECTION64_PATH names it, and calls InitializeInjection while
// CUDA starts. It opens a session from the environment, so that a program that knows nothing of cutrace is traced.
#include <cstdio>
#include <cutrace/cupti/register.hpp>
#include <cutrace/runtime.hpp>
#include <exception>

namespace {

/// Sinks that are used when the environment names none: the report, on stderr.
constexpr const char* default_sinks = "ascii";

bool start() {
  cutrace::session_options options;
  if (cutrace::detail::environment("CUTRACE_SINKS") == nullptr) options.sinks = default_sinks;
  // Never destroyed: the runtime's own exit handler ends the trace when the program exits.
  static cutrace::session* session = nullptr;
  cutrace::cupti::loaded_by_driver() = true;
  if (session == nullptr) session = new cutrace::session(options);
  return session != nullptr;
}

}  // namespace

/// Called by the driver, once, before the first CUDA call of the program returns. The program goes on untraced when
/// this fails; no exception and no exit ever leaves it.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  try {
    return start() ? 1 : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cutrace: not traced by the injected library: %s\n", e.what());
  } catch (...) {
    std::fprintf(stderr, "cutrace: not traced by the injected library\n");
  }
  return 1;
}
