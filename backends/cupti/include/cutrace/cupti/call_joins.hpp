// SPDX-License-Identifier: Apache-2.0
// `cutrace run --method all` has a probe on a function of the library that it injects, cutrace_call_joins, and so
// learns CUPTI's number of the call that a thread is in. The callbacks may be those of the library or, where a program
// has a session of its own, the program's.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/process_info.hpp>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

using call_joins_function = void (*)(std::uint64_t);

/// That function, where the command asks for it. Null: nobody asks, or it is not to be had. It stays loaded: the driver
/// loads the same file when CUDA begins.
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
