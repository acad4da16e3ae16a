// SPDX-License-Identifier: Apache-2.0
// The fault language of the stand-ins, from CUTRACE_SIM_FAULTS or cutrace_sim_set_faults(). Words, separated by commas:
//
//   <function>=<code>         every call of this cu* or cupti* function returns the code and does nothing else
//   <function>=<code>@<n>     only its n-th call from now on
//   <function>=hang           the call never returns; with @<n> as above
//   fault:<kernel>=<code>     the first execution of a kernel of this name, a node of a graph or not, faults at its
//                             begin; with @<n> the n-th, in the order of launches from now on. The context is lost:
//                             work that had not ended by then never ends, and from `fault_report` later on each call
//                             that touches the context returns the code, also a call that already waits
//   fault_report=<t>          time from the fault to the first error, by default 60ms; a GPU takes 45 to 590 ms
//   hang:<kernel>             the first execution (with @<n> the n-th) of a kernel of this name never ends, nor does
//                             work that is ordered after it: calls that wait never return, queries return NOT_READY
//   no_device                 cuInit returns CUDA_ERROR_NO_DEVICE (100)
//   no_such_symbol=<name>     dlsym and cuGetProcAddress do not find the function; read when the library is loaded
//   version=<n>               cuptiGetVersion returns n; below 27 (CUDA 12.9) the process is aborted when the client
//                             refuses to give a buffer: CUPTI crashes there
//   drop=<n>                  the next n GPU records are lost, and counted by cuptiActivityGetNumDroppedRecords
//   incomplete=<n>            the next n GPU records never complete: only a forced flush delivers them, without times
//   zero_time=<n>             the next n GPU records have start = end = 0
//   unknown=<n>               n records of a kind that no header knows are added
//   early=<t>                 GPU records have times that are t too early, as if the GPU's clock were off
//   unified=<n>               with each of the next n kernel records come two more, where UNIFIED_MEMORY_COUNTER is
//                             configured and on: managed memory moves to the device, and the device has a page fault
//   correlation=<n>           the next driver call gets this correlation id; after 4294967295 comes 0, as in 32 bits
//   cupti_fatal=<n>           at the n-th driver call that is reported from now on CUPTI meets a fatal error: it
//                             notifies the subscriber (domain STATE), finalizes itself, and later cupti* calls return
//                             CUPTI_ERROR_NOT_INITIALIZED
//   late=<t>                  GPU records become available t after the work has ended; t as 50ms, 200us, 1s or 1000ns
//   slow_buffers=<t>          a thread that needs a buffer stands still for t before it asks for one and, where it
//                             gets one, for t before it uses it, as if the machine were busy
//   slow_flush=<t>            cuptiActivityFlushAll and cuptiUnsubscribe stand still for t before they do anything, as
//                             if the machine were busy
//   shuffle                   records of a buffer are delivered in another order
//   graph_trace_crash         as CUPTI 13.0: replay of a graph that was instantiated while GRAPH_TRACE was off, and
//                             is replayed while it is on, kills the process (here: abort with a message)
//
// An empty text removes all faults. A word that is not of this language is an error on stderr, and set_faults fails.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace standin {

struct function_fault {
  std::string name;
  std::int32_t code = 0;
  std::uint64_t at = 0;  ///< 0: every call
};

constexpr std::int32_t fault_hangs = -0x7a46;  ///< as a function_fault's code

struct fault_set {
  std::vector<function_fault> functions;
  std::vector<function_fault> kernels;  ///< that fault, or never end (fault_hangs)
  std::vector<std::string> missing_symbols;
  bool no_device = false, shuffle = false, graph_trace_crash = false;
  std::uint32_t version = 0;
  std::uint64_t drop = 0, incomplete = 0, zero_time = 0, unknown = 0, unified = 0, late_ns = 0, early_ns = 0,
                slow_buffers_ns = 0, slow_flush_ns = 0, cupti_fatal = 0, fault_report_ns = 60000000;
  bool sets_correlation = false;
  std::uint32_t correlation = 0;
};

namespace fault_detail {

inline bool number(const std::string& text, std::uint64_t& value, std::string* rest = nullptr) {
  char* end = nullptr;
  value = std::strtoull(text.c_str(), &end, 10);
  if (end == text.c_str() || text[0] == '-') return false;
  if (rest != nullptr) *rest = end;
  return rest != nullptr || *end == '\0';
}

inline bool duration(const std::string& text, std::uint64_t& ns) {
  std::string unit;
  if (!number(text, ns, &unit)) return false;
  if (unit == "ms")
    ns *= 1000000;
  else if (unit == "us")
    ns *= 1000;
  else if (unit == "s")
    ns *= 1000000000;
  else
    return unit == "ns";
  return true;
}

/// A kernel's name, with @<n> behind the code or, where it hangs, behind the name. C++ names have no @.
inline bool kernel(const std::string& key, std::string value, bool has_value, fault_set& f) {
  const bool hangs = key.compare(0, 5, "hang:") == 0;
  if (hangs == has_value) return false;
  function_fault k;
  k.name = key.substr(key.find(':') + 1);
  std::string& counted = hangs ? k.name : value;
  std::uint64_t n = 0;
  const std::size_t at = counted.find('@');
  if (at != std::string::npos && (!number(counted.substr(at + 1), k.at) || k.at == 0)) return false;
  counted = counted.substr(0, at);
  if (k.name.empty() || (!hangs && (!number(counted, n) || n == 0))) return false;
  k.code = hangs ? fault_hangs : static_cast<std::int32_t>(n);
  f.kernels.push_back(k);
  return true;
}

inline bool word(const std::string& key, const std::string& value, bool has_value, fault_set& f) {
  if (key.compare(0, 6, "fault:") == 0 || key.compare(0, 5, "hang:") == 0) return kernel(key, value, has_value, f);
  if (!has_value) {
    if (key == "no_device") return f.no_device = true;
    if (key == "shuffle") return f.shuffle = true;
    if (key == "graph_trace_crash") return f.graph_trace_crash = true;
    return false;
  }
  if (key == "no_such_symbol") return f.missing_symbols.push_back(value), !value.empty();
  if (key == "drop") return number(value, f.drop);
  if (key == "incomplete") return number(value, f.incomplete);
  if (key == "zero_time") return number(value, f.zero_time);
  if (key == "unknown") return number(value, f.unknown);
  if (key == "early") return duration(value, f.early_ns);
  if (key == "unified") return number(value, f.unified);
  if (key == "cupti_fatal") return number(value, f.cupti_fatal) && f.cupti_fatal != 0;
  if (key == "fault_report") return duration(value, f.fault_report_ns);
  if (key == "late") return duration(value, f.late_ns);
  if (key == "slow_buffers") return duration(value, f.slow_buffers_ns);
  if (key == "slow_flush") return duration(value, f.slow_flush_ns);
  std::uint64_t n = 0;
  if (key == "version") {
    f.version = number(value, n) ? static_cast<std::uint32_t>(n) : 0;
    return f.version != 0;
  }
  if (key == "correlation") {
    f.sets_correlation = number(value, n) && n <= 0xffffffffu;
    f.correlation = static_cast<std::uint32_t>(n);
    return f.sets_correlation;
  }
  if (key.compare(0, 2, "cu") != 0) return false;
  function_fault call;
  call.name = key;
  const std::size_t at = value.find('@');
  const std::string code = value.substr(0, at);
  if (code != "hang" && !number(code, n)) return false;
  call.code = code == "hang" ? fault_hangs : static_cast<std::int32_t>(n);
  if (at != std::string::npos && (!number(value.substr(at + 1), call.at) || call.at == 0)) return false;
  f.functions.push_back(call);
  return true;
}

}  // namespace fault_detail

/// False when a word was not understood; each such word is named on stderr.
inline bool parse_faults(const char* text, fault_set& out, bool complain = true) {
  bool good = true;
  std::string rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string item = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (fault_detail::word(key, value, equals != std::string::npos, out)) continue;
    good = false;
    if (complain)
      std::fprintf(stderr, "cutrace stand-in: unknown fault \"%s\"; see backends/sim/cuda/faults.hpp for the words\n",
                   item.c_str());
  }
  return good;
}

}  // namespace standin
