// SPDX-License-Identifier: Apache-2.0
// libcutrace_inject.so: found, and a library that the driver could load and call.
#include <dlfcn.h>

#include "../inject_library.hpp"
#include "checks.hpp"

namespace cutrace_tool::doctor {

namespace {

/// Why it is of no use; empty where it is.
std::string fault_of(const setup& s, const std::string& path) {
  const probe_result r = run_probe(s.patience_seconds, [&](const teller& t) {
    t.step("loading " + path);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = library == nullptr ? dlerror() : nullptr;
    if (library == nullptr)
      t.tell("fault", "it cannot be loaded: " + std::string(why != nullptr ? why : "unknown reason"));
    else if (dlsym(library, "InitializeInjection") == nullptr || dlsym(library, "cutrace_injected_library") == nullptr)
      t.tell("fault", "it is not cutrace's library");
  });
  return !r.text("fault").empty() ? r.text("fault") : r.failure(s.patience_seconds);
}

}  // namespace

findings check_inject_library(const setup& s) {
  finding f{"inject.library", for_cupti, state::ok, "", ""};
  const bool named = !variable("CUTRACE_INJECT_LIBRARY").empty();
  std::string fault;
  try {
    f.what = find_inject_library();
    fault = fault_of(s, f.what);
    if (!fault.empty()) f.what += ": " + fault;
  } catch (const std::exception& e) {
    f.what = fault = e.what();
  }
  if (fault.empty()) return {f};
  f.state = state::broken;
  f.remedy = named ? "let CUTRACE_INJECT_LIBRARY name libcutrace_inject.so, or unset it"
                   : "install cutrace whole, built where CUDA's headers with CUPTI are, or name the file in "
                     "CUTRACE_INJECT_LIBRARY";
  return {f};
}

}  // namespace cutrace_tool::doctor
