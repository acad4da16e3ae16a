// SPDX-License-Identifier: Apache-2.0
// `cutrace run --method all` sets a probe on cutrace_call_joins, a function of the library that it injects. The
// function's argument is CUPTI's correlation id of the call that the thread is in. The CUPTI callbacks that call it are
// those of the injected library or, where a program has a session of its own, the program's.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <cutrace/base/process_info.hpp>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

using call_joins_function = void (*)(std::uint64_t) noexcept;

/// cutrace_call_joins of the injected library, where `cutrace run` asks for it by CUTRACE_CALL_JOINS=1; null where it
/// is not asked for or not found. The library stays loaded: the driver loads the same file when CUDA begins.
inline call_joins_function find_call_joins() noexcept {
  const char* const asked = detail::environment("CUTRACE_CALL_JOINS");
  const char* const path = detail::environment("CUDA_INJECTION64_PATH");
  if (asked == nullptr || std::strcmp(asked, "1") != 0 || path == nullptr) return nullptr;
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<call_joins_function>(::dlsym(library, "cutrace_call_joins"));
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
