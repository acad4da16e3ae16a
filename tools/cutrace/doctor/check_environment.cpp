// SPDX-License-Identifier: Apache-2.0
// Variables that load other tools into each program, and those that turn cutrace off.
#include <cutrace/run/settings.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <exception>

#include "checks.hpp"

#if CUTRACE_WITH_CUPTI
#include <cutrace/cupti/options.hpp>
#endif

namespace cutrace_tool::doctor {

namespace {

/// Parts of the names of libraries whose tools are known to claim CUPTI for themselves.
bool is_known_tool(const std::string& library) {
  for (const char* part : {"nsys", "nsight", "ToolsInjection", "nvperf", "ncu", "cuda-gdb", "sanitizer-collection",
                           "libinjection", "rocprof", "scorep", "tau", "hpcrun", "vtune", "extrae"})
    if (library.find(part) != std::string::npos) return true;
  return false;
}

std::string tools_among(const std::string& preloads) {
  std::string found;
  for (std::size_t at = 0; at < preloads.size();) {
    const std::size_t end = std::min(preloads.find_first_of(" :", at), preloads.size());
    const std::string one = preloads.substr(at, end - at);
    if (is_known_tool(one.substr(one.rfind('/') + 1))) found += (found.empty() ? "" : ", ") + one;
    at = end + 1;
  }
  return found;
}

finding check_tools() {
  finding f{"environment.tools", for_cupti, state::ok, "", ""};
  std::string names;
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    const std::string value = variable(name);
    if (value.empty()) continue;
    if (names_cutrace_library(value)) {
      f.what += std::string(f.what.empty() ? "" : "; ") + name + " names cutrace's own library";
      continue;
    }
    f.state = state::limited;
    f.what += std::string(f.what.empty() ? "" : "; ") + name + " is set to " + value + ", a library of another tool";
    names += std::string(names.empty() ? "" : " ") + name;
  }
  const std::string preloaded = tools_among(variable("LD_PRELOAD"));
  if (!preloaded.empty()) {
    f.state = state::limited;
    f.what += std::string(f.what.empty() ? "" : "; ") + "LD_PRELOAD loads " + preloaded +
              ", which by its name is another tool";
    names += std::string(names.empty() ? "" : " ") + "LD_PRELOAD";
  }
  if (f.what.empty()) f.what = "no variable loads another tool into programs";
  if (!names.empty()) f.remedy = "unset " + names + ": only one tool at a time gets CUPTI in a process";
  return f;
}

/// Reads cutrace's variables as the tracing library does.
finding check_cutrace_variables() {
  finding f{"environment.cutrace", for_all, state::ok, "no variable turns tracing off, and none is set wrongly", ""};
  try {
    if (!cutrace::detail::tracing_wanted()) {
      f.state = state::broken;
      f.what = "CUTRACE=" + variable("CUTRACE") + " turns tracing off";
      f.remedy = "unset CUTRACE";
      return f;
    }
    const std::string backend = cutrace::detail::complete({}).backend;
    std::vector<std::string> refused;
    static_cast<void>(
        cutrace::make_sinks(variable("CUTRACE_SINKS").c_str(), "CUTRACE_SINKS", cutrace::builtin_sinks(), &refused));
#if CUTRACE_WITH_CUPTI
    cutrace::cupti::options::from_environment();
#endif
    const std::string unknown = cutrace::detail::about_unknown_variables();
    const std::string gpu_events = variable("CUTRACE_GPU_EVENTS");
    const bool times_known = gpu_events.empty() || cutrace::detail::switch_value(gpu_events.c_str()).has_value();
    if (!refused.empty() || !unknown.empty() || !times_known) {
      f.state = state::limited;
      f.what = !refused.empty()   ? refused.front() + "; the other sinks work without it"
               : !unknown.empty() ? unknown
                                  : "CUTRACE_GPU_EVENTS=\"" + gpu_events +
                                        "\" is neither 0 nor 1: --method preload measures no GPU times";
      f.remedy = "docs/options.md says what each variable takes";
    }
    if (backend == "auto" || backend == "cupti") return f;
    f.methods = for_cupti;
    f.state = state::broken;
    f.what = "CUTRACE_BACKEND=" + backend + ": no GPU work is recorded by CUPTI";
    f.remedy = "unset CUTRACE_BACKEND";
  } catch (const std::exception& e) {
    f.state = state::broken;
    f.what = std::string("a program would run untraced: ") + e.what();
    f.remedy = "docs/options.md says what each variable takes";
  }
  return f;
}

}  // namespace

findings check_environment(const setup&) { return {check_tools(), check_cutrace_variables()}; }

}  // namespace cutrace_tool::doctor
