// SPDX-License-Identifier: Apache-2.0
// Backends register as objects, in the one source file of a program that compiles the runtime: an #if in inline code
// could differ between two files, against the one-definition rule.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/collect/record_writer.hpp>
#include <cutrace/run/keep_for_ever.hpp>
#include <cutrace/run/settings.hpp>
#include <new>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// The class of event_writer in each session of this object: for a backend that is compiled into this object and writes
/// in every call of the driver.
using session_writer = record_writer;

/// A static object of this type makes a backend known. `automatic` ones are started by CUTRACE_BACKEND=auto.
struct backend_registration {
  const char* name;
  bool automatic;
  backend* (*make)();
  backend_registration* next;

  backend_registration(const char* backend_name, bool is_automatic, backend* (*maker)())
      : name(backend_name), automatic(is_automatic), make(maker), next(first().load(std::memory_order_relaxed)) {
    while (!first().compare_exchange_weak(next, this, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  /// Atomic, since the thread that loads the library need not be the one that reads the list: between them lies the
  /// loader's lock, of which the language's memory model knows nothing.
  static std::atomic<backend_registration*>& first() noexcept {
    static std::atomic<backend_registration*> head{nullptr};
    return head;
  }
};

/// Accepted values of CUTRACE_BACKEND in this program.
CUTRACE_NOINLINE inline std::string backend_names() {
  std::string names = "auto, none";
  for (backend_registration* r = backend_registration::first().load(std::memory_order_acquire); r != nullptr;
       r = r->next)
    names += std::string(", ") + r->name;
  return names;
}

using backend_maker = backend* (*)();

inline const backend_registration* registered(const std::string& name) noexcept {
  const backend_registration* r = backend_registration::first().load(std::memory_order_acquire);
  while (r != nullptr && name != r->name) r = r->next;
  return r;
}

/// Registers the backend of that name which another library of this process offers, as the preload library does: by a C
/// function whose name ends in the ABI version, so that only a runtime of the same version finds it. The library stays
/// loaded. Waits for the loader, which may be waiting for a session of a library that it loads: the caller must hold no
/// lock. @returns false where memory is out
CUTRACE_NOINLINE inline bool register_offered(const char* name) noexcept try {
  if (name == nullptr || registered(name) != nullptr) return true;
  if (std::strcmp(name, "auto") == 0 || std::strcmp(name, "none") == 0) return true;
  const std::string symbol = std::string("cutrace_backend_") + name + "_abi" + std::to_string(CUTRACE_ABI_VERSION);
  void* const found = ::dlsym(RTLD_DEFAULT, symbol.c_str());
  ::dlerror();  // what was not found is none of the program's errors
  if (found == nullptr) return true;
  keep_library(found);
  const std::string& kept = *new std::string(name);
  new backend_registration(kept.c_str(), false, reinterpret_cast<backend_maker>(found));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

/// The function that makes the backend of that name; nullptr for "none", and for "auto" when no automatic one exists.
/// `option`: what the message calls the place where the name came from. @throws config_error for an unknown name
CUTRACE_NOINLINE inline backend_maker find_backend(const std::string& name, const char* option = "CUTRACE_BACKEND") {
  if (name == "none") return nullptr;
  for (backend_registration* r = backend_registration::first().load(std::memory_order_acquire); r != nullptr;
       r = r->next)
    if (name == r->name || (name == "auto" && r->automatic)) return r->make;
  if (name == "auto") return nullptr;
  reject(option, name, backend_names().c_str());
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
