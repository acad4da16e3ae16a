// SPDX-License-Identifier: Apache-2.0
// What the GPU benchmarks compare: one row a configuration. A new one is a row here; every program knows it then.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/options.hpp>
#include <sstream>
#include <string>

namespace bench {

enum class tracer {
  none,
  records,  ///< raw CUPTI, the kinds that the environment asks for and nothing else
  twin,     ///< raw CUPTI with all that cutrace switches on, see raw_cupti.hpp
  spans,    ///< a twin that stores the least that a span of a call needs
  cutrace,  ///< with the null sink, unless the environment names another
  nsys      ///< Nsight Systems around an untraced program; the environment holds its options instead
};

struct configuration {
  const char* name;
  tracer who;
  /// "NAME=value NAME=value": options of cutrace, which raw clients read too; RAW_CUPTI_ATTRIBUTE: see raw_cupti.hpp
  const char* environment;
};

// clang-format off
constexpr configuration configurations[] = {
    {"none",           tracer::none,    ""},
    {"kernels",        tracer::records, "CUTRACE_KINDS=kernel"},
    {"raw",            tracer::twin,    "CUTRACE_KINDS=kernel,memcpy,memset"},
    {"raw-spans",      tracer::spans,   "CUTRACE_KINDS=kernel,memcpy,memset"},
    {"raw-records",    tracer::records, "CUTRACE_KINDS=kernel,memcpy,memset"},
    {"raw-shared",     tracer::twin,    "CUTRACE_KINDS=kernel,memcpy,memset RAW_CUPTI_ATTRIBUTE=9:0"},
    {"raw-pinned",     tracer::twin,    "CUTRACE_KINDS=kernel,memcpy,memset RAW_CUPTI_ATTRIBUTE=8:1"},
    {"raw-large",      tracer::twin,    "CUTRACE_KINDS=kernel,memcpy,memset RAW_CUPTI_ATTRIBUTE=0:33554432"},
    {"raw-small",      tracer::twin,    "CUTRACE_KINDS=kernel,memcpy,memset RAW_CUPTI_ATTRIBUTE=0:65536"},
    {"callbacks",      tracer::twin,    "CUTRACE_KINDS=kernel"},
    {"twin",           tracer::twin,    ""},
    {"cutrace",        tracer::cutrace, ""},
    {"kernels-graph",  tracer::records, "CUTRACE_KINDS=kernel CUTRACE_GRAPHS=graph"},
    {"twin-graph",     tracer::twin,    "CUTRACE_GRAPHS=graph"},
    {"cutrace-sync",   tracer::cutrace, "CUTRACE_KINDS=+sync"},
    {"cutrace-perfetto", tracer::cutrace, "CUTRACE_SINKS=perfetto:/tmp/cutrace-bench.pftrace"},
    {"cutrace-large",  tracer::cutrace, "RAW_CUPTI_ATTRIBUTE=0:33554432"},
    {"cutrace-graph",  tracer::cutrace, "CUTRACE_GRAPHS=graph"},
    {"twin-memory",    tracer::twin,    "CUTRACE_KINDS=+memory"},
    {"cutrace-memory", tracer::cutrace, "CUTRACE_KINDS=+memory"},
    {"cutrace-runtime", tracer::cutrace, "CUTRACE_KINDS=+runtime"},
    {"cutrace-latency", tracer::cutrace, "CUTRACE_KINDS=+latency"},
    {"nsys",           tracer::nsys,    "--cuda-graph-trace=node"},
    {"nsys-graph",     tracer::nsys,    "--cuda-graph-trace=graph"},
};
// clang-format on

/// Null when there is no such row.
inline const configuration* find_configuration(const std::string& name) {
  for (const configuration& c : configurations)
    if (name == c.name) return &c;
  return nullptr;
}

/// Whether the backend that this was built with accepts the row's CUTRACE_KINDS.
inline bool known_kinds(const configuration& c) {
  constexpr const char* option = "CUTRACE_KINDS=";
  const char* at = std::strstr(c.environment, option);
  if (at == nullptr) return true;
  const std::string list(at + std::strlen(option));
  try {
    cutrace::cupti::options().set_kinds(list.substr(0, list.find(' ')));
    return true;
  } catch (const cutrace::config_error&) {
    return false;
  }
}

/// What the caller's own environment says about tracing must not reach the children. Which library to use may.
inline void forget_environment() {
  for (const char* name :
       {"CUTRACE", "CUTRACE_SINKS", "CUTRACE_BACKEND", "CUTRACE_KINDS", "CUTRACE_GRAPHS", "CUTRACE_CUPTI_QUERIES",
        "CUTRACE_MEMORY_LIMIT", "CUTRACE_OVERFLOW", "CUTRACE_WINDOW_MS", "CUTRACE_SAMPLE", "CUDA_INJECTION64_PATH"})
    unsetenv(name);
}

/// In the process that is to be traced, before anything of cutrace or CUDA runs.
inline void set_environment(const configuration& c) {
  if (c.who == tracer::nsys) return;
  std::istringstream words(c.environment);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    setenv(word.substr(0, equals).c_str(), word.substr(equals + 1).c_str(), 1);
  }
}

/// "nsys profile ... " for a command to be put behind it; its file goes to `folder`. Nothing but CUDA is traced.
inline std::string nsys_prefix(const std::string& nsys, const configuration& c, const std::string& folder) {
  return nsys + " profile --wait=primary -t cuda --sample=none --cpuctxsw=none " + c.environment +
         " --force-overwrite=true -o " + folder + "/nsys ";
}

/// The path of this program.
inline std::string own_path() {
  char self[4096] = {};
  return readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 ? self : "";
}

}  // namespace bench
