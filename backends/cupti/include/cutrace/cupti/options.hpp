// SPDX-License-Identifier: Apache-2.0
// What the CUPTI backend records: kinds of records, and how a CUDA graph is recorded.
//
//   CUTRACE_KINDS   "kernel,memcpy" these alone; "+memory,-sync" what is usual, with changes
//   CUTRACE_GRAPHS  "node" (the default): each node of a replay is an event, which costs some 0.4 us a node, on the GPU
//                   too; "graph": a replay is one event, which costs 2 to 5 % of its time (H200, CUPTI 13.0)
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/base/process_info.hpp>
#include <cutrace/error.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

enum class graph_level : std::uint8_t { node, graph };

/// Groups of CUPTI's activity kinds. What describes the process (devices, contexts, streams) is always on.
/// Two are no activity kinds: `latency` adds the times of queueing and submission to each kernel, `runtime` adds to
/// each driver call the name of the runtime API function that made it.
enum class record_group : unsigned {
  kernel,
  memcpy,
  memset,
  sync,
  overhead,
  memory,
  jit,
  event,
  environment,
  latency,
  unified,  ///< managed memory: pages that move between processors, and page faults
  runtime
};
constexpr unsigned record_group_count = 12;
constexpr unsigned group_bit(record_group g) noexcept { return 1u << static_cast<unsigned>(g); }

struct options {
  unsigned groups = group_bit(record_group::kernel) | group_bit(record_group::memcpy) |
                    group_bit(record_group::memset) | group_bit(record_group::overhead);
  graph_level graphs = graph_level::node;
  bool queries = false;  ///< also record functions that only ask, such as cuCtxGetCurrent

  bool has(record_group g) const noexcept { return (groups & group_bit(g)) != 0; }

  /// From the environment. @throws config_error that names the variable and the accepted values.
  static options from_environment() {
    options o;
    if (const char* v = detail::environment("CUTRACE_KINDS")) o.set_kinds(v);
    if (const char* v = detail::environment("CUTRACE_GRAPHS")) {
      if (std::strcmp(v, "graph") == 0)
        o.graphs = graph_level::graph;
      else if (std::strcmp(v, "node") != 0)
        reject("CUTRACE_GRAPHS", v, "node (the default), graph");
    }
    if (const char* v = detail::environment("CUTRACE_CUPTI_QUERIES")) {
      o.queries = std::strcmp(v, "1") == 0;
      if (!o.queries && std::strcmp(v, "0") != 0) reject("CUTRACE_CUPTI_QUERIES", v, "0 (the default), 1");
    }
    return o;
  }

  /// A list as CUTRACE_KINDS holds. @throws config_error
  void set_kinds(const std::string& list) {
    const bool changes = list[0] == '+' || list[0] == '-';
    unsigned chosen = changes ? groups : 0;
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t comma = list.find(',', at);
      const std::size_t end = comma == std::string::npos ? list.size() : comma;
      std::string word = list.substr(at, end - at);
      const bool takes_away = word[0] == '-', has_sign = takes_away || word[0] == '+';
      if (has_sign) word.erase(0, 1);
      const unsigned bit = bit_of(word);
      if (bit == 0 || has_sign != changes) reject("CUTRACE_KINDS", list, accepted_kinds);
      chosen = takes_away ? chosen & ~bit : chosen | bit;
      at = end + 1;
    }
    groups = chosen;
    // CUPTI 13.0 makes no record of an event unless SYNCHRONIZATION is on, too (seen on an H200).
    if (has(record_group::event)) groups |= group_bit(record_group::sync);
  }

 private:
  static constexpr const char* names[record_group_count] = {"kernel",      "memcpy",  "memset",  "sync",
                                                            "overhead",    "memory",  "jit",     "event",
                                                            "environment", "latency", "unified", "runtime"};
  static constexpr const char* accepted_kinds =
      "a list of kernel, memcpy, memset, overhead (these are usual), sync, memory, jit, event, environment, latency, "
      "unified, runtime; with + or - before each it changes what is usual";

  static unsigned bit_of(const std::string& word) noexcept {
    for (unsigned i = 0; i < record_group_count; ++i)
      if (word == names[i]) return 1u << i;
    return 0;
  }
  [[noreturn]] static void reject(const char* option, const std::string& value, const char* accepted) {
    throw config_error((std::string(option) + "=\"" + value + "\" cannot be used; accepted: " + accepted).c_str());
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
