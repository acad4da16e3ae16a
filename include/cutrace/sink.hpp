// SPDX-License-Identifier: Apache-2.0
// Where events go. To write a sink, derive a class; one function must be written:
//
//   struct my_sink : cutrace::sink {
//     void write(cutrace::event_view events) override { for (const cutrace::event& e : events) ...; }
//   };
//   session.emplace_sink<my_sink>();
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/stats.hpp>

CUTRACE_BEGIN_NAMESPACE

/// The machine's clocks, read together, in ns. `error_ns` bounds how far apart the reads were.
struct clock_anchor {
  std::int64_t trace_ns;  ///< the same moment in session time, as event::start_ns
  std::uint64_t realtime_ns;
  std::uint64_t monotonic_ns;
  std::uint64_t boottime_ns;
  std::uint64_t error_ns;
};

/// What is known when a sink opens.
struct trace_info {
  std::uint32_t process_id;
  const char* process_name;
  const char* command_line;
  const char* host_name;
  const char* boot_id;
  const char* backend;         ///< "cupti", "sim", "none", ...
  const char* backend_detail;  ///< versions, or why there is no GPU time
  const char* clock;           ///< "tsc", "cntvct" or "monotonic"
  std::int32_t rank;           ///< in the job, from the launcher's environment (base/process_info.hpp); -1: none
  std::int32_t world_size;     ///< processes of the job, likewise
  clock_anchor start;          ///< of the trace; of a sink that is added later, when that was
};

/// What is known when a sink closes.
struct trace_summary {
  clock_anchor stop;
  stats totals;              ///< counted since the sink was added; `sinks` are all of the trace
  const char* const* notes;  ///< lines a reader must see: errors of backends, "launches but no GPU record", ...
  std::uint32_t note_count;
  /// Of a trace that was read from a file: what the file lacks, in words. nullptr: nothing; always in a traced program.
  const char* missing;
};

/// Interface. Functions are called in the order open, write or flush any number of times, close. `open` runs on the
/// thread that adds the sink and throws cutrace::error when the sink cannot work; write, flush and close run on the
/// collector's thread. A sink that throws there is reported and not called again, not even `close`; the other sinks go
/// on. The same holds for a sink that has not returned within session_options::sink_deadline_ms when the trace ends:
/// then no sink is destroyed.
class sink {
 public:
  sink() = default;
  sink(const sink&) = delete;
  sink& operator=(const sink&) = delete;
  virtual ~sink() = default;

  /// Short name for statistics and messages, a literal.
  virtual const char* name() const noexcept { return "user"; }
  virtual void open(const trace_info&) {}
  /// Where the sink writes, once open: a path or a few words; nullptr: nowhere in particular. Valid while it lives.
  virtual const char* destination() const noexcept { return nullptr; }
  virtual void write(event_view events) = 0;
  /// Makes what was written so far visible to readers. Called about once a second, and by session::flush.
  virtual void flush() {}
  /// Number of events that the sink received and did not write because of its limits. They count as lost; the reason,
  /// left_out_because, is reported once.
  virtual std::uint64_t left_out() const noexcept { return 0; }
  virtual const char* left_out_because() const noexcept { return "it left events out"; }
  /// Number of received events that are whole in the output. Called once, after `write`, `flush` or `close` has thrown;
  /// events of the batch that was being written count, too. All other events count as lost. UINT64_MAX: the events of
  /// all earlier batches arrived.
  virtual std::uint64_t arrived() const noexcept { return UINT64_MAX; }
  /// The last call. Nothing is written afterwards.
  virtual void close(const trace_summary&) {}
};

CUTRACE_END_NAMESPACE
