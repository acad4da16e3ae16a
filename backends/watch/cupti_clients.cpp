// SPDX-License-Identifier: Apache-2.0
// Clients of CUPTI in the program: a profiler of PyTorch, of JAX, its own. CUPTI has one subscriber and one owner of
// its records; a client that comes while a trace has them gets nothing, and does not always say so.
//
// Some link libcupti, for them this library exports the functions by which a client begins; others ask dlsym. Both call
// the real ones in the end.
#include <link.h>

#include <cstring>
#include <initializer_list>

#include "../preload/elf_image.hpp"
#include "watch.hpp"

#pragma weak _r_debug  // not every C library has the loader's list by this name

namespace {

using cutrace::detail::watched;
using cutrace::preload::elf_image;
using namespace cutrace::watch;

using dlsym_function = void*(void*, const char*);
std::atomic<dlsym_function*> found_dlsym{nullptr};

/// The dlsym that follows this library in the loader's order. Found in the ELF images, since to ask the loader for it
/// takes dlsym itself.
dlsym_function* real_dlsym() noexcept {
  dlsym_function* known = found_dlsym.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  std::uintptr_t found = 0;
  if (&_r_debug != nullptr) {
    bool past_us = false;  // before us where this library was opened and not preloaded
    for (int round = 0; round < 2 && found == 0; ++round, past_us = true) {
      for (const link_map* m = _r_debug.r_map; m != nullptr && found == 0; m = m->l_next) {
        if (m->l_ld == _DYNAMIC)
          past_us = true;
        else if (past_us)
          found = elf_image(*m).find_function("dlsym");
      }
    }
  } else {
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* to) {
          const elf_image image(*info);
          if (image.identity() != _DYNAMIC) *static_cast<std::uintptr_t*>(to) = image.find_function("dlsym");
          return static_cast<int>(*static_cast<std::uintptr_t*>(to) != 0);
        },
        &found);
  }
  known = reinterpret_cast<dlsym_function*>(found);
  found_dlsym.store(known, std::memory_order_release);
  return known;
}

/// What CUPTI answers (cupti_result.h).
enum result : int { max_limit_reached = 12, not_initialized = 15, multiple_subscribers = 39 };

/// One function of CUPTI that this library stands before.
struct door {
  const char* name;
  std::atomic<void*> asked_for{nullptr};  ///< what the program's first dlsym for this name found

  explicit constexpr door(const char* n) noexcept : name(n) {}

  /// What the caller's reference would be bound to without `own`; null where there is no libcupti. Not cached: a
  /// client begins once a profile. A function of the caller's library does not count: where that exports the same names
  /// and passes calls on to the real ones, it would call itself.
  void* real(const void* caller, const void* own) noexcept {
    Dl_info from{};
    if (::dladdr(caller, &from) == 0) from = {};
    const auto usable = [&](const void* f) {
      Dl_info of{};
      return f != nullptr && f != own && ::dladdr(f, &of) != 0 && of.dli_fbase != from.dli_fbase;
    };
    void* found = nullptr;
    if (from.dli_fname != nullptr) {
      if (void* handle = ::dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
        found = find_symbol(handle, name);
        ::dlclose(handle);
      }
    }
    if (!usable(found)) found = asked_for.load(std::memory_order_acquire);
    if (!usable(found)) found = find_symbol(RTLD_NEXT, name);
    ::dlerror();  // what was not found here is none of the program's errors
    return usable(found) ? found : nullptr;
  }

  /// What dlsym answers instead of `found`: `own`, but `found` where another library's function was asked for before,
  /// since `own` passes calls on to only one. The library of that one stays loaded.
  void* instead_of(void* found, void* own) noexcept {
    void* first = nullptr;
    if (!asked_for.compare_exchange_strong(first, found)) return first == found ? own : found;
    Dl_info of{};
    if (::dladdr(found, &of) != 0) ::dlopen(of.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return own;
  }
};
door subscribe("cuptiSubscribe"), subscribe_2("cuptiSubscribe_v2"), take_records("cuptiActivityRegisterCallbacks"),
    enable("cuptiActivityEnable"), disable("cuptiActivityDisable");

/// Kinds of records that the program has enabled. They are enabled again when it takes CUPTI's records over: the trace
/// then disables all of its kinds, also those that both have enabled.
std::atomic<bool> wanted[256];

door* door_of(const char* name) noexcept {
  if (name == nullptr || std::strncmp(name, "cupti", 5) != 0) return nullptr;
  for (door* d : {&subscribe, &subscribe_2, &take_records, &enable, &disable})
    if (std::strcmp(d->name, name) == 0) return d;
  return nullptr;
}

int noted(int answer) noexcept {
  if (answer == multiple_subscribers || answer == max_limit_reached) happens(watched::cupti_refused);
  return answer;
}

template <class... Arguments>
int call(void* function, Arguments... arguments) {
  return function != nullptr ? reinterpret_cast<int (*)(Arguments...)>(function)(arguments...) : not_initialized;
}

}  // namespace

CUTRACE_BEGIN_NAMESPACE
namespace watch CUTRACE_LOCAL {

void* find_symbol(void* handle, const char* name) { return real_dlsym()(handle, name); }

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE

extern "C" {

/// For cutrace's own backend.
EXPORTED void* cutrace_watch_find_symbol(void* handle, const char* name) { return find_symbol(handle, name); }

EXPORTED int cuptiActivityEnable(int kind);

EXPORTED int cuptiSubscribe(void** subscriber, void* callback, void* user) {
  void* const real = subscribe.real(__builtin_return_address(0), reinterpret_cast<void*>(&cuptiSubscribe));
  return noted(call(real, subscriber, callback, user));
}
EXPORTED int cuptiSubscribe_v2(void** subscriber, void* callback, void* user, void* parameters) {
  void* const real = subscribe_2.real(__builtin_return_address(0), reinterpret_cast<void*>(&cuptiSubscribe_v2));
  return noted(call(real, subscriber, callback, user, parameters));
}
EXPORTED int cuptiActivityRegisterCallbacks(void* requested, void* completed) {
  void* const real =
      take_records.real(__builtin_return_address(0), reinterpret_cast<void*>(&cuptiActivityRegisterCallbacks));
  const bool taken_over = real != nullptr && happens(watched::cupti_takes);
  const int answer = call(real, requested, completed);
  if (!taken_over) return answer;
  void* const turn_on = enable.real(__builtin_return_address(0), reinterpret_cast<void*>(&cuptiActivityEnable));
  for (int kind = 0; kind < 256; ++kind)
    if (wanted[kind].load()) call(turn_on, kind);
  return answer;
}
EXPORTED int cuptiActivityEnable(int kind) {
  if (kind >= 0 && kind < 256) wanted[kind].store(true);
  return call(enable.real(__builtin_return_address(0), reinterpret_cast<void*>(&cuptiActivityEnable)), kind);
}
EXPORTED int cuptiActivityDisable(int kind) {
  if (kind >= 0 && kind < 256) wanted[kind].store(false);
  return call(disable.real(__builtin_return_address(0), reinterpret_cast<void*>(&cuptiActivityDisable)), kind);
}

/// For RTLD_NEXT the real one looks at its return address, so it is reached by a tail call (a jump), for which this
/// file is always optimised.
EXPORTED void* dlsym(void* handle, const char* name) noexcept {
  dlsym_function* const real = real_dlsym();
  door* const d = door_of(name);
  if (d == nullptr) return real(handle, name);
  void* const own = d == &subscribe     ? reinterpret_cast<void*>(&cuptiSubscribe)
                    : d == &subscribe_2 ? reinterpret_cast<void*>(&cuptiSubscribe_v2)
                    : d == &enable      ? reinterpret_cast<void*>(&cuptiActivityEnable)
                    : d == &disable     ? reinterpret_cast<void*>(&cuptiActivityDisable)
                                        : reinterpret_cast<void*>(&cuptiActivityRegisterCallbacks);
  // A pseudo handle may find our function: it is the answer only where the real one would be found without us.
  if ((handle == RTLD_NEXT || handle == RTLD_DEFAULT) && d->real(__builtin_return_address(0), own) == nullptr) {
    void* volatile none = real(RTLD_NEXT, name);  // no jump: behind us there is none, and dlerror says so
    return none;
  }
  if (handle == RTLD_NEXT) return real(handle, name);
  void* const found = real(handle, name);
  if (found == nullptr) return nullptr;
  if (found != own) return d->instead_of(found, own);
  if (d->real(__builtin_return_address(0), own) != nullptr) return own;
  void* volatile none = real(RTLD_NEXT, name);
  return none;
}
}
