// SPDX-License-Identifier: Apache-2.0
// The document around the events of a Chrome JSON trace: Kineto's keys, and those of our own that begin with "cutrace".
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/json_trace.hpp>
#include <map>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// From the first brace to before "traceEvents".
inline std::string chrome_head(const trace_info& info) {
  // HTA finds the rank with a regular expression that wants white space after the colon, early in the file.
  std::string head = "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"rank\": ";
  head += std::to_string(info.rank < 0 ? 0 : info.rank);
  head += ", \"world_size\": " + std::to_string(info.world_size <= 0 ? 1 : info.world_size);
  head += "},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ";
  // UTC of trace time 0: Kineto's readers add it to each ts.
  head += std::to_string(static_cast<std::int64_t>(info.start.realtime_ns) - info.start.trace_ns);
  head += ",\n\"cutraceInfo\": ";
  json_text json;
  json.begin_object();
  info_fields(json, info);
  json.end_object();
  return head.append(json.view()).append(",\n");
}

/// From behind the last event to the end. `devices`: an object of each; `totals`: an object.
inline std::string chrome_tail(const std::map<std::uint32_t, std::string>& devices, const std::string& totals,
                               const std::string& path) {
  std::string tail = "\n],\n\"deviceProperties\": [";
  for (const auto& d : devices) tail += (d.first == devices.begin()->first ? "\n" : ",\n") + d.second;
  tail.append("\n],\n\"cutraceSummary\": ").append(totals);
  json_text name;
  name.value(path);
  return tail.append(",\n\"traceName\": ").append(name.view()).append("\n}\n");
}

}  // namespace detail
CUTRACE_END_NAMESPACE
