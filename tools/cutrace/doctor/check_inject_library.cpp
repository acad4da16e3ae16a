// SPDX-License-Identifier: Apache-2.0
// libcutrace_inject.so: found, and a library that the driver could load and call.
#include <dlfcn.h>

#include "../inject_library.hpp"
#include "checks.hpp"

namespace doctor {

findings check_inject_library(const setup& s) {
  finding f{"inject.library", for_cupti, state::ok, "", ""};
  const inject_library found = find_inject_library();
  if (found.path.empty()) {
    f.state = state::broken;
    f.what = "libcutrace_inject.so is not found; looked at";
    for (const std::string& place : found.looked_at) f.what += " " + place;
    f.remedy = found.named ? "let CUTRACE_INJECT_LIBRARY name the file, or unset it"
                           : "install cutrace whole, with CUDA's headers at hand when it is built, or name the file in "
                             "CUTRACE_INJECT_LIBRARY";
    return {f};
  }
  const probe_result r = run_probe(s.patience_seconds, [&](const teller& t) {
    t.step("loading " + found.path);
    void* library = dlopen(found.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = library == nullptr ? dlerror() : nullptr;
    if (library == nullptr)
      t.tell("fault", why != nullptr ? why : "it cannot be loaded");
    else if (dlsym(library, "InitializeInjection") == nullptr || dlsym(library, "cutrace_injected_library") == nullptr)
      t.tell("fault", "it is not cutrace's library");
  });
  const std::string fault = !r.text("fault").empty() ? r.text("fault") : r.failure(s.patience_seconds);
  f.what = found.path;
  if (fault.empty()) return {f};
  f.state = state::broken;
  f.what += fault.find(found.path) != std::string::npos ? " cannot be loaded: " + fault : ": " + fault;
  f.remedy =
      found.named ? "let CUTRACE_INJECT_LIBRARY name libcutrace_inject.so, or unset it" : "install cutrace again";
  return {f};
}

}  // namespace doctor
