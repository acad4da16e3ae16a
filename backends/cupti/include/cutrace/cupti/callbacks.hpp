// SPDX-License-Identifier: Apache-2.0
// What CUPTI calls: on the application's threads at each driver call, and for buffers on whichever thread it likes.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/decode.hpp>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/graph_callbacks.hpp>
#include <cutrace/cupti/process_state.hpp>
#include <cutrace/cupti/runtime_calls.hpp>
#include <cutrace/cupti/state_callbacks.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

struct callbacks {
  /// Raw-frame nanoseconds, for CUPTI. Any thread.
  static std::uint64_t CUPTIAPI timestamp() {
    static const tick_scale& scale = process_state::get().scale;
    return scale.now_ns();
  }

  static void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
    static process_state& p = process_state::get();
    event_writer* w = p.writer.load(std::memory_order_acquire);
    if (CUTRACE_UNLIKELY(w == nullptr)) return;
    if (CUTRACE_UNLIKELY(domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid >= process_state::function_limit)) {
      if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return runtime_calls::on_call(p, cbid, data);
      if (domain == CUPTI_CB_DOMAIN_RESOURCE && !p.exiting.load(std::memory_order_acquire))
        graph_callbacks::on_resource(p.api, *w, cbid, data);
      if (domain == state_domain && cbid == state_fatal_error) {
        p.fatal.store(true, std::memory_order_relaxed);
        tell_fatal_error(p.api, *w, data);
      }
      return;
    }
    const CUpti_CallbackData& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_ENTER) {
      const unsigned traits = p.traits[cbid].load(std::memory_order_relaxed);
      const bool works = (traits & process_state::makes_work) != 0;
      if (CUTRACE_UNLIKELY((traits & process_state::uses_gate) != 0)) p.graphs.enter();
      const std::uint32_t wait_us = p.overflow_wait_us.load(std::memory_order_relaxed);
      if (CUTRACE_UNLIKELY(wait_us != 0) && works) p.buffers.wait_for_room(wait_us);
      const std::uint64_t begin = w->ticks();
      const std::uint64_t stage = w->enter(cbid, call.correlationId, begin, works);
      *call.correlationData = stage != api_call::not_recorded ? begin : 0;
      const auto joins = p.call_joins.load(std::memory_order_relaxed);
      if (CUTRACE_UNLIKELY(joins != nullptr) && stage != api_call::not_recorded) joins(call.correlationId);
    } else {
      const unsigned traits = p.traits[cbid].load(std::memory_order_relaxed);
      leave(*w, cbid, call, (traits & process_state::updates_graph) != 0);
      if (CUTRACE_UNLIKELY((traits & process_state::uses_gate) != 0)) p.graphs.leave();
    }
  }

  static void leave(event_writer& w, CUpti_CallbackId cbid, const CUpti_CallbackData& call,
                    bool updates_graph) noexcept {
    api_call c{};
    c.begin_ticks = *call.correlationData;
    if (c.begin_ticks == 0) return;  // entered before the callbacks were on, or while tracing was paused
    std::uint64_t words[word_limit];
    // Not as a CUresult: a newer driver may return what this header's enumeration cannot hold.
    if (call.functionReturnValue != nullptr) std::memcpy(&c.result, call.functionReturnValue, sizeof(c.result));
    const function_entry* f = find_driver(cbid);
    c.word_count = f != nullptr ? read_words(*f, call.functionParams, c.result == 0, words)
                                : read_raw_words(call.functionParams, words);
    c.words = words;
    c.function = cbid;
    c.correlation = call.correlationId;
    c.stage = api_call::stage_of_thread;
    const std::uint32_t names = process_state::get().runtime_names.load(std::memory_order_relaxed);
    if (CUTRACE_UNLIKELY(names != 0)) c.runtime_function = runtime_calls::current(names);
    c.end_ticks = w.ticks();
    w.exit(c);
    if (CUTRACE_UNLIKELY(updates_graph) && c.result == 0)
      graph_callbacks::on_update(process_state::get().api, w, call.functionParams);
  }

  static void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    process_state& p = process_state::get();
    *records = 0;  // as many as fit
    *buffer = p.buffers.take();
    *size = buffer_pool::buffer_bytes;
    if (*buffer != nullptr) return;
    *size = 0;
    // Earlier releases crash on a refusal (CUDA 12.8 and older): they get one to throw away.
    if (p.version < 27) *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_pool::discard_bytes));
    if (*buffer == nullptr) {
      p.refused.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::memset(*buffer, 0, buffer_pool::discard_bytes);
    *size = buffer_pool::discard_bytes;
  }

  static void CUPTIAPI buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t size,
                                        std::size_t valid) {
    process_state& p = process_state::get();
    if (buffer == nullptr) return;
    event_writer* w = p.writer.load(std::memory_order_acquire);
    const bool discard = size == buffer_pool::discard_bytes;
    if (w != nullptr && valid != 0 && !discard) {
      const activity_buffer full{buffer, valid, p.decoder.load(std::memory_order_acquire), &decode, &release};
      p.buffers.queued(true);
      if (w->submit(full)) return;
      p.buffers.queued(false);
    }
    if (w != nullptr && valid != 0) w->count_loss(loss_cause::buffer_limit, count_records(p, buffer, valid));
    if (discard)
      std::free(buffer);
    else
      p.buffers.give(buffer, valid);
  }

  static std::uint64_t count_records(process_state& p, std::uint8_t* buffer, std::size_t valid) noexcept {
    std::uint64_t n = 0;
    CUpti_Activity* record = nullptr;
    while (p.api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) ++n;
    return n != 0 ? n : 1;  // unreadable: there was at least one
  }

  /// The collector's thread; the session's backend may have stopped already.
  static void decode(const activity_buffer& b, event_emitter& to) {
    process_state& p = process_state::get();
    decode_context& context = *static_cast<decode_context*>(b.owner);
    place_deriver derived(to, context.places);
    event_emitter& out = context.places.wanted ? static_cast<event_emitter&>(derived) : to;
    walk_result read;
    if (p.clock_registered) {
      read = walk_buffer(p.api.cuptiActivityGetNextRecord, b.data, b.valid_bytes, context, out);
    } else {
      shifting_emitter shifted(out, p.clock.offset_ns());
      read = walk_buffer(p.api.cuptiActivityGetNextRecord, b.data, b.valid_bytes, context, shifted);
    }
    event_writer* w = p.last_writer.load(std::memory_order_acquire);
    if (!read.complete && w != nullptr)
      w->report("cupti", "cuptiActivityGetNextRecord cannot read a buffer to its end: the GPU records in it are lost");
  }
  static void release(const activity_buffer& b) {
    buffer_pool& buffers = process_state::get().buffers;
    buffers.queued(false);
    buffers.give(static_cast<unsigned char*>(b.data), b.valid_bytes);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
