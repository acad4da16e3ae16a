// SPDX-License-Identifier: Apache-2.0
// Waits for streams, events and contexts, derived from the calls that wait. CUPTI's SYNCHRONIZATION records hold the
// same and cost a program that waits often a tenth of its time (ggml on an H200), so those are on request only.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/call_recipe.hpp>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/library.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

struct waits {
  /// Calls of `f` wait for work, or make a stream wait for some.
  static bool is_made_by(const function_entry* f) noexcept {
    return f != nullptr && f->known && f->work == function_work::synchronize;
  }

  /// Records the wait from `begin` to `end`, in ticks, at EXIT of a waiting call that succeeded: so its handles are
  /// valid. CUPTI is asked for the stream's id now, since a handle may be destroyed and given out again. Any thread.
  CUTRACE_ONE_COPY static void record(const functions& api, event_writer& w, const call_recipe& recipe,
                                      const CUpti_CallbackData& call, std::uint64_t begin, std::uint64_t end) noexcept {
    const call_recipe::wait f = recipe.waited_for(call.functionParams);
    gpu_work g{};
    g.kind = event_kind::sync;
    g.sync = f.stream != nullptr ? (f.event != nullptr ? sync_kind::stream_wait_event : sync_kind::stream)
                                 : (f.event != nullptr ? sync_kind::event : sync_kind::context);
    g.begin = begin;
    g.end = end;
    g.times_are_ticks = true;
    g.correlation = call.correlationId;
    g.context = call.contextUid;
    if (api.cuptiGetDeviceId != nullptr && api.cuptiGetDeviceId(call.context, &g.device) != CUPTI_SUCCESS) g.device = 0;
    std::uint32_t id = 0;
    if (f.stream != nullptr && api.cuptiGetStreamIdEx != nullptr &&
        api.cuptiGetStreamIdEx(call.context, *f.stream, f.thread_stream, &id) == CUPTI_SUCCESS)
      g.stream = id;
    w.gpu(g);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
