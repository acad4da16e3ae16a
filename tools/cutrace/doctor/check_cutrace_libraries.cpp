// SPDX-License-Identifier: Apache-2.0
// Are libcutrace_inject.so, libcutrace_preload.so and libcutrace_watch.so found, and can they be loaded? And which
// parts does this build of the command lack?
#include <dlfcn.h>

#include <initializer_list>

#include "../build_parts.hpp"
#include "../cutrace_libraries.hpp"
#include "checks.hpp"

namespace cutrace_tool::doctor {

findings check_build() {
  const std::string lacks = left_out_of_build();
  if (lacks.empty()) return {{"build.parts", for_none, state::ok, "this build of cutrace has all of its parts", ""}};
  return {{"build.parts", for_none, state::limited, "this build of cutrace was made without: " + lacks,
           "install what is missing (scripts/setup does; with --with-cuda CUDA's headers, too), configure and build "
           "again"}};
}

namespace {

struct cutrace_library {
  const char* id;
  method_set methods;
  std::string (*find)();
  const char* variable;
  const char* file;
  const char* built_where;
  std::initializer_list<const char*> functions;  ///< exported ones that identify it
};

/// Why the library at `path` cannot be used; empty where it can.
std::string fault_of(const setup& s, const cutrace_library& own, const std::string& path) {
  const probe_result r = run_probe(s.patience_seconds, [&](const reporter& t) {
    t.step("loading " + path);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = library == nullptr ? dlerror() : nullptr;
    if (library == nullptr) {
      t.report("fault", "it cannot be loaded: " + std::string(why != nullptr ? why : "unknown reason"));
      return;
    }
    for (const char* name : own.functions) {
      if (dlsym(library, name) != nullptr) continue;
      t.report("fault", "it is not cutrace's library");
      return;
    }
  });
  return !r.text("fault").empty() ? r.text("fault") : r.failure(s.patience_seconds);
}

finding check(const setup& s, const cutrace_library& own) {
  finding f{own.id, own.methods, state::ok, "", ""};
  const bool named = !variable(own.variable).empty();
  std::string fault;
  try {
    f.what = own.find();
    fault = fault_of(s, own, f.what);
    if (!fault.empty()) f.what += ": " + fault;
  } catch (const std::exception& e) {
    f.what = fault = e.what();
  }
  if (fault.empty()) return f;
  f.state = state::broken;
  f.remedy =
      named ? "let " + std::string(own.variable) + " name " + own.file + ", or unset it"
            : "install cutrace whole, built " + std::string(own.built_where) + ", or name the file in " + own.variable;
  return f;
}

}  // namespace

findings check_cutrace_libraries(const setup& s) {
  const cutrace_library inject{"inject.library",
                               for_cupti,
                               &find_inject_library,
                               "CUTRACE_INJECT_LIBRARY",
                               "libcutrace_inject.so",
                               "where CUDA's headers with CUPTI are",
                               {"InitializeInjection", "cutrace_injected_library"}};
  const cutrace_library preload{"preload.library",
                                for_preload,
                                &find_preload_library,
                                "CUTRACE_PRELOAD_LIBRARY",
                                "libcutrace_preload.so",
                                "for x86-64 and 64-bit ARM",
                                {"InitializeInjectionNvtx2", "cutrace_preloaded_library"}};
  const cutrace_library watch{"watch.library",         for_cupti | for_preload, &find_watch_library,
                              "CUTRACE_WATCH_LIBRARY", "libcutrace_watch.so",   "with the command",
                              {"cutrace_watch_1"}};
  return {check(s, inject), check(s, preload), check(s, watch)};
}

}  // namespace cutrace_tool::doctor
