// SPDX-License-Identifier: Apache-2.0
// libcutrace_watch.so: what `cutrace run` preloads beside any other library. It sees what a trace must know of its
// process (early_end.hpp). It is in every process of a run: it needs the C library alone, starts nothing, and does
// nothing until a trace asks for it.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cutrace/run/early_end.hpp>

#define EXPORTED __attribute__((visibility("default")))

CUTRACE_BEGIN_NAMESPACE
namespace watch CUTRACE_LOCAL {

using listener_function = bool (*)(detail::watched) noexcept;

/// Of the trace, while there is one.
inline std::atomic<listener_function> listener{nullptr};

/// Notifies the trace, if any. @returns for cupti_takes whether the trace has given CUPTI's records up
inline bool happens(detail::watched what) noexcept {
  const auto call = listener.load(std::memory_order_acquire);
  return call != nullptr && call(what);
}

/// dlsym as it is without this library. RTLD_NEXT is what comes behind this library.
void* find_symbol(void* handle, const char* name);

/// The function that the program would call without this library.
template <class Function>
class next {
 public:
  explicit constexpr next(const char* name) noexcept : name_(name) {}
  Function* get() noexcept {
    Function* known = found_.load(std::memory_order_acquire);
    if (known == nullptr) found_.store(known = reinterpret_cast<Function*>(find_symbol(RTLD_NEXT, name_)));
    return known;
  }

 private:
  const char* const name_;
  std::atomic<Function*> found_{nullptr};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
