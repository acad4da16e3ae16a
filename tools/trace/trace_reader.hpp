// SPDX-License-Identifier: Apache-2.0
// Reads trace files into a sink: cutrace's JSONL, Chrome JSON and Perfetto protobuf, Chrome JSON of PyTorch's Kineto,
// plain or gzip, recognised by their content. The sink sees what it would have seen in the traced program, as far as
// the format keeps it: open, events in batches, close with the totals. Memory is bounded by memory_budget.hpp, whatever
// the size of the file.
#pragma once

#include <cstdint>
#include <cutrace/sink.hpp>
#include <functional>
#include <string>
#include <vector>

#include "trace/complaints.hpp"

namespace cutrace_reading {

enum class format : std::uint8_t { unknown, jsonl, chrome, perfetto };
const char* to_string(format f) noexcept;

/// For a line on a terminal.
struct progress {
  std::uint64_t bytes;      ///< read so far, before decompression
  std::uint64_t all_bytes;  ///< of all files, 0 where one of them has no size
  std::uint64_t events;
};

struct options {
  std::function<void(const progress&)> on_progress = {};  ///< called about once for each MiB
};

struct outcome {
  format what = format::unknown;
  std::uint64_t events = 0;
  std::uint64_t by_kind[cutrace::event_kind_count] = {};
  std::uint64_t out_of_order = 0;  ///< marked late by the reader
  bool whole = false;              ///< the trace has its end
  complaints problems;
};

/// The files are one trace: one file, or its parts in their order. "-" is standard input. @throws reading_error where
/// nothing can be read, or the files are of different traces; what the sink throws
outcome read(const std::vector<std::string>& files, cutrace::sink& to, const options& o = {});

}  // namespace cutrace_reading
