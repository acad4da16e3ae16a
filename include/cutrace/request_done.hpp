// SPDX-License-Identifier: Apache-2.0
// What one request cost, reported to the program itself when the request is done and its GPU work has come:
// session::on_request_done. docs/analyses.md defines when a request is done, and each number; all times are integer
// nanoseconds.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE

/// A request is what stages name as one: CUTRACE_STAGE("prefill", id), CUTRACE_STAGE_BATCH("decode", ids, n). The times
/// below overlap each other: they do not add up to the wall time. GPU times of a batch are the batch's, and stand apart
/// from those of this request alone; the request's share of a batch is an estimate. All other times include batches at
/// full length.
struct request_done {
  std::uint64_t id = 0;  ///< the number given, or the hash of the text
  text name;             ///< text form, empty for numbers; lives until the handler returns

  std::int64_t start_ns = 0;  ///< first start of its stages, since the session's start
  std::int64_t end_ns = 0;    ///< last end of its stages and of their GPU work
  std::uint32_t stages = 0;   ///< instances
  std::uint32_t batches = 0;  ///< of those stages, how many served other requests, too

  std::int64_t host_ns = 0;             ///< union of the times of its stages
  std::int64_t idle_inside_ns = 0;      ///< part of host_ns in which no GPU was at work, for any request
  std::int64_t queue_ns = 0;            ///< of its GPU work, from the end of the launching call to the work's start
  std::int64_t execution_alone_ns = 0;  ///< kernels of stages that served no other request
  std::int64_t transfer_alone_ns = 0;   ///< copies likewise
  std::int64_t execution_in_batches_ns = 0;  ///< kernels of stages that served several: the batches' time
  std::int64_t transfer_in_batches_ns = 0;   ///< copies likewise
  std::int64_t estimated_share_ns = 0;       ///< estimate: sum over batches of (GPU time / requests of the batch)

  std::uint64_t lost = 0;  ///< records of any kind that the trace lost while the request was open: 0 is good
  std::uint64_t late = 0;  ///< events of the request that came out of order; the numbers include them
  bool unfinished =
      false;  ///< a stage of it had not ended: the trace ended first, or the stage was waited for no longer
  bool work_missing = false;  ///< a launch of it has no GPU record, or one without times: its GPU times are too small
  bool approximate = false;   ///< a union was estimated, as there were more intervals than are kept, or the trace was
                              ///< paused inside of a stage: the time not recorded counts in it, too

  std::int64_t wall_ns() const noexcept { return end_ns - start_ns; }
  /// Nothing is known to be missing.
  bool exact() const noexcept { return lost == 0 && !unfinished && !work_missing && !approximate; }
};

/// Called on the collector's thread, one call at a time, never on a thread of the program; the time that it takes
/// delays the sinks. The reference is valid until the handler returns. Exceptions are caught: the request counts as
/// lost for the sink "on_request_done" in session::stats(), `on_error` gets the first reason, and later requests are
/// delivered all the same. What the handler calls of the session is refused, as for sinks.
using request_done_handler = void (*)(const request_done& request, void* user);

CUTRACE_END_NAMESPACE
