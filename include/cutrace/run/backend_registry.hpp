// SPDX-License-Identifier: Apache-2.0
// Backends register as objects, in the one source file of a program that compiles the runtime: no #if in inline code
// that two files could see differently.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/run/settings.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// A static object of this type makes a backend known. `automatic` ones are started by CUTRACE_BACKEND=auto.
struct backend_registration {
  const char* name;
  bool automatic;
  backend* (*make)();
  backend_registration* next;

  backend_registration(const char* backend_name, bool is_automatic, backend* (*maker)())
      : name(backend_name), automatic(is_automatic), make(maker), next(first().load(std::memory_order_relaxed)) {
    first().store(this, std::memory_order_release);
  }
  /// Atomic, since the thread that loads the library need not be the one that asks: the loader's lock lies between
  /// them, which is nothing that the language knows.
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

/// What a library in this process offers to whichever runtime there is: the preload library its backend, by a C
/// function that names the contract.
CUTRACE_NOINLINE inline backend_maker find_offered(const std::string& name) {
  const std::string symbol = "cutrace_backend_" + name + "_abi" + std::to_string(CUTRACE_ABI_VERSION);
  return reinterpret_cast<backend_maker>(dlsym(RTLD_DEFAULT, symbol.c_str()));
}

/// Makes the backend of that name; nullptr for "none", and for "auto" when no automatic one exists. `option` is how the
/// message calls the place where the name came from.
CUTRACE_NOINLINE inline backend_maker find_backend(const std::string& name, const char* option = "CUTRACE_BACKEND") {
  if (name == "none") return nullptr;
  for (backend_registration* r = backend_registration::first().load(std::memory_order_acquire); r != nullptr;
       r = r->next)
    if (name == r->name || (name == "auto" && r->automatic)) return r->make;
  if (name == "auto") return nullptr;
  if (const backend_maker offered = find_offered(name)) return offered;
  reject(option, name, backend_names().c_str());
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
