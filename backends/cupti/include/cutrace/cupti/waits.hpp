// SPDX-License-Identifier: Apache-2.0
// Waits for streams, events and contexts, derived from the calls that wait. CUPTI's SYNCHRONIZATION records hold the
// same and cost a program that waits often a tenth of its time (ggml on an H200), so those are on request only.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cstring>
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

  /// Whether calls of `f` wait for a context that is given to them (cuCtxSynchronize_v2).
  static bool takes_context(const function_entry* f) noexcept {
    return is_made_by(f) && f->words != 0 && std::strcmp(parameters_of(*f)->name, "ctx") == 0;
  }
  /// The context that a call is for, and its id, 0: not known. The thread's unless another one was given, which is
  /// valid only where the call succeeded.
  struct place {
    CUcontext context;
    std::uint32_t id;
  };
  static place context_of(const functions& api, const call_recipe& recipe, const CUpti_CallbackData& call) noexcept {
    place given{nullptr, 0};
    if ((recipe.traits() & call_recipe::takes_context) != 0 && call.functionParams != nullptr)
      std::memcpy(&given.context, call.functionParams, sizeof(given.context));
    if (given.context == nullptr || given.context == call.context) return {call.context, call.contextUid};
    if (api.cuptiGetContextId == nullptr || api.cuptiGetContextId(given.context, &given.id) != CUPTI_SUCCESS)
      given.id = 0;
    return given;
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
    const place of = context_of(api, recipe, call);
    g.context = of.id;
    if (api.cuptiGetDeviceId != nullptr && api.cuptiGetDeviceId(of.context, &g.device) != CUPTI_SUCCESS) g.device = 0;
    std::uint32_t id = 0;
    if (f.stream != nullptr && api.cuptiGetStreamIdEx != nullptr &&
        api.cuptiGetStreamIdEx(call.context, *f.stream, f.thread_stream, &id) == CUPTI_SUCCESS)
      g.stream = id;
    w.gpu(g);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
