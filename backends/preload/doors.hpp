// SPDX-License-Identifier: Apache-2.0
// The doors: where a program gets the addresses of the driver's functions. They are dlsym and dlvsym (the real ones are
// found without asking the loader) and the results of cuGetProcAddress. (Relocation slots: slots.hpp.)
#pragma once

#include <dlfcn.h>

#include <cerrno>

#include "slots.hpp"

extern "C" {
/// The real functions, which our dlsym and dlvsym in the assembler file go on to. Set before the first use, by
/// find_real.
extern CUTRACE_LOCAL void* (*cutrace_preload_real_dlsym)(void*, const char*);
extern CUTRACE_LOCAL void* (*cutrace_preload_real_dlvsym)(void*, const char*, const char*);
}

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

struct doors {
  /// Finds the dlsym and dlvsym that would be called if this library were not there. May run before our own
  /// constructor, since those of other libraries may come first.
  static void find_real() noexcept {
    if (__atomic_load_n(&cutrace_preload_real_dlvsym, __ATOMIC_ACQUIRE) != nullptr) return;
    // They lie behind us in the loader's order, or before us where this library was opened and not preloaded. The
    // loader's list is read directly: dl_iterate_phdr may be that of another library, which does not work yet.
    std::uintptr_t sym = 0, vsym = 0;
    bool past_us = false;
    for (int round = 0; round < 2 && (sym == 0 || vsym == 0); ++round, past_us = true) {
      for (const link_map* m = _r_debug.r_map; m != nullptr; m = m->l_next) {
        if (m->l_ld == _DYNAMIC) {
          past_us = true;
          continue;
        }
        if (!past_us) continue;
        const elf_image image(*m);
        if (sym == 0) sym = image.find_function("dlsym");
        if (vsym == 0) vsym = image.find_function("dlvsym");
      }
    }
    __atomic_store_n(&cutrace_preload_real_dlsym, reinterpret_cast<decltype(cutrace_preload_real_dlsym)>(sym),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&cutrace_preload_real_dlvsym, reinterpret_cast<decltype(cutrace_preload_real_dlvsym)>(vsym),
                     __ATOMIC_RELEASE);
  }

  /// What dlsym, or with a `version` dlvsym, returns to `caller`; null: the result of the real function.
  static void* find(void* handle, const char* name, const char* version, const void* caller) noexcept {
    find_real();
    process& p = process::own();
    if (name == nullptr || p.off.load(std::memory_order_relaxed)) return nullptr;
    // Sanitizers look up the functions that they replace before those work, and a scan would use them.
    if (!is_driver_name(name) && !p.begun.load(std::memory_order_relaxed)) return nullptr;
    const int kept = errno;
    void* const found = find_hook(p, handle, name, version, caller);
    errno = kept;
    return found;
  }

  /// After a successful cuGetProcAddress(symbol, function, version, flags, ...): hooks the very function that it
  /// returned, whichever version of the symbol that is.
  static void hook_answer(process& p, const char* symbol, void** function, std::uint64_t flags) noexcept {
    if (symbol == nullptr || function == nullptr || *function == nullptr) return;
    if (p.off.load(std::memory_order_relaxed)) return;
    constexpr std::uint64_t per_thread = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    const int kept = errno;
    *function = reinterpret_cast<void*>(
        p.hooked(reinterpret_cast<std::uintptr_t>(*function), symbol, (flags & per_thread) != 0));
    errno = kept;
  }

 private:
  static void* find_hook(process& p, void* handle, const char* name, const char* version, const void* caller) noexcept {
    slots::scan(p);
    const auto asks = reinterpret_cast<std::uintptr_t>(caller);
    // Code of the driver gets the driver's own functions.
    if (!is_driver_name(name) || !p.driver.present() || p.driver.contains(asks)) return nullptr;
    std::uintptr_t found = 0;
    if (handle == RTLD_NEXT) {
      found = find_next(p, name, asks);
    } else {
      void* answer = version != nullptr ? cutrace_preload_real_dlvsym(handle, name, version)
                                        : cutrace_preload_real_dlsym(handle, name);
      if (answer == nullptr && handle == RTLD_DEFAULT) answer = find_among_own(caller, name, version);
      found = reinterpret_cast<std::uintptr_t>(answer);
    }
    // The address decides, not the name alone: other libraries may have such names.
    if (!p.driver.executes(found)) return nullptr;
    return reinterpret_cast<void*>(p.hooked(found, name));
  }

  /// What RTLD_DEFAULT finds last: functions of the libraries that the caller's own one brought along, which are not
  /// global where that was opened with RTLD_LOCAL.
  static void* find_among_own(const void* caller, const char* name, const char* version) noexcept {
    Dl_info from{};
    if (::dladdr(caller, &from) == 0) return nullptr;
    void* const own = ::dlopen(from.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (own == nullptr) return nullptr;
    void* const found =
        version != nullptr ? cutrace_preload_real_dlvsym(own, name, version) : cutrace_preload_real_dlsym(own, name);
    ::dlclose(own);
    return found;
  }

  /// What RTLD_NEXT means for `caller`. The real dlsym would take our library for the caller, so that an interposer of
  /// a driver function would get its own.
  static std::uintptr_t find_next(process& p, const char* name, std::uintptr_t caller) noexcept {
    std::uintptr_t found = 0;
    if (!p.scanning.lock_soon()) return 0;
    p.objects.with([&](const loaded_objects& all) {
      const elf_image* at = all.containing(caller);
      if (at == nullptr) return;
      while (found == 0 && ++at != all.end()) found = at->find_function(name);
    });
    p.scanning.unlock();
    return found;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
