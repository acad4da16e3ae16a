// SPDX-License-Identifier: Apache-2.0
// Waits for streams, events and contexts, derived from the calls that wait. CUPTI's SYNCHRONIZATION records hold the
// same and cost a program that waits often a tenth of its time (ggml on an H200), so those are on request only.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/decode_context.hpp>
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
  static void record(const functions& api, event_writer& w, CUpti_CallbackId cbid, const CUpti_CallbackData& call,
                     std::uint64_t begin, std::uint64_t end) noexcept {
    const function_entry* f = find_driver(cbid);
    if (f == nullptr) return;
    const CUstream* const stream = parameter<CUstream>(*f, call.functionParams, "hStream");
    const CUevent* const event = parameter<CUevent>(*f, call.functionParams, "hEvent");
    gpu_work g{};
    g.kind = event_kind::sync;
    g.sync = stream != nullptr ? (event != nullptr ? sync_kind::stream_wait_event : sync_kind::stream)
                               : (event != nullptr ? sync_kind::event : sync_kind::context);
    g.begin = begin;
    g.end = end;
    g.times_are_ticks = true;
    g.correlation = call.correlationId;
    g.context = call.contextUid;
    g.name = decoding::name_of_wait(g.sync);
    if (api.cuptiGetDeviceId != nullptr && api.cuptiGetDeviceId(call.context, &g.device) != CUPTI_SUCCESS) g.device = 0;
    std::uint32_t id = 0;
    if (stream != nullptr && api.cuptiGetStreamIdEx != nullptr &&
        api.cuptiGetStreamIdEx(call.context, *stream, uses_thread_stream(*f), &id) == CUPTI_SUCCESS)
      g.stream = id;
    w.gpu(g);
  }

 private:
  /// The argument of that name, nullptr where the function has none.
  template <class Handle>
  static const Handle* parameter(const function_entry& f, const void* params, const char* name) noexcept {
    const function_parameter* p = parameters_of(f);
    for (unsigned i = 0; params != nullptr && i < f.words; ++i, ++p)
      if (p->how == read_how::value && p->size == sizeof(Handle) && std::strcmp(p->name, name) == 0)
        return reinterpret_cast<const Handle*>(static_cast<const unsigned char*>(params) + p->offset);
    return nullptr;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
