// SPDX-License-Identifier: Apache-2.0
// The functions that CUPTI calls: on the application's threads at each driver call, and on any thread for buffers.
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
#include <cutrace/cupti/waits.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

struct callbacks {
  /// Time of the raw frame (clock.hpp), for CUPTI. Any thread.
  static std::uint64_t CUPTIAPI timestamp() { return process_state::made().scale.now_ns(); }

  /// Each launch runs this code twice, in a program that may have evicted it from the near caches. So where `Writer`,
  /// the writer's class, is known to be final, this one function does what most calls need. It calls nothing but at its
  /// end, and whatever is rare goes to the general way, `enter` and `leave`.
  template <class Writer>
  static void CUPTIAPI on_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
    process_state& p = process_state::made();
    Writer* const w = static_cast<Writer*>(p.writer.load(std::memory_order_acquire));
    if (CUTRACE_UNLIKELY(w == nullptr)) return;
    if (CUTRACE_UNLIKELY(domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid >= process_state::function_limit))
      return on_other(p, *w, domain, cbid, data);
    const CUpti_CallbackData& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_ENTER) {
      if constexpr (std::is_final<Writer>::value)
        if (CUTRACE_LIKELY(enter_quickly(p, *w, cbid, call))) return join(p, call);
      return enter(p, *w, cbid, call);
    }
    if constexpr (std::is_final<Writer>::value)
      if (CUTRACE_LIKELY(leave_quickly(p, *w, cbid, call))) return;
    leave(p, *w, cbid, call);
  }

  /// Does for most calls what `enter` does, except `join`; false: nothing has been done.
  template <class Writer>
  CUTRACE_INLINE static bool enter_quickly(const process_state& p, Writer& w, CUpti_CallbackId cbid,
                                           const CUpti_CallbackData& call) noexcept {
    const unsigned traits = p.recipes[cbid].traits();
    if ((traits & call_recipe::rare_before) != 0 || p.overflow_wait_us.load(std::memory_order_relaxed) != 0)
      return false;
    return w.begin_call_quickly(cbid, call.correlationId, (traits & call_recipe::makes_work) != 0,
                                *call.correlationData);
  }
  CUTRACE_ONE_COPY static void enter(process_state& p, event_writer& w, CUpti_CallbackId cbid,
                                     const CUpti_CallbackData& call) noexcept {
    const unsigned traits = p.recipes[cbid].traits();
    const std::uint32_t wait_us = p.overflow_wait_us.load(std::memory_order_relaxed);
    if (wait_us != 0 && (traits & call_recipe::makes_work) != 0)
      p.buffers.wait_for_room(wait_us, [&w] { w.request_poll(); });
    if ((traits & call_recipe::uses_graph_gate) != 0) p.graphs.enter();
    *call.correlationData = 0;
    if ((traits & call_recipe::only_result) != 0) return;
    *call.correlationData = w.begin_call(cbid, call.correlationId, (traits & call_recipe::makes_work) != 0);
    if (*call.correlationData != 0) join(p, call);
  }
  CUTRACE_INLINE static void join(const process_state& p, const CUpti_CallbackData& call) noexcept {
    const auto joins = p.call_joins.load(std::memory_order_relaxed);
    if (joins != nullptr) joins(call.correlationId);
  }

  /// As `leave`, for most calls that succeed; false: nothing has been done.
  template <class Writer>
  CUTRACE_INLINE static bool leave_quickly(const process_state& p, Writer& w, CUpti_CallbackId cbid,
                                           const CUpti_CallbackData& call) noexcept {
    const call_recipe& recipe = p.recipes[cbid];
    if (*call.correlationData == 0 || !recipe.is_short() || call.functionParams == nullptr || result_of(call) != 0 ||
        p.runtime_names.load(std::memory_order_relaxed) != 0)
      return false;
    api_call c = begun(cbid, call);
    c.word_count = recipe.short_count();
    if (!w.end_call_quickly(c, [&](unsigned i) { return recipe.short_word(call.functionParams, i); })) return false;
    if (CUTRACE_UNLIKELY((recipe.traits() & call_recipe::waits) != 0))
      waits::record(p.api, w, recipe, call, c.begin_ticks, c.end_ticks);
    return true;
  }
  /// Records, at EXIT, a call that was entered while the callbacks were on and tracing was not paused, and does what
  /// else the function needs.
  CUTRACE_ONE_COPY static void leave(process_state& p, event_writer& w, CUpti_CallbackId cbid,
                                     const CUpti_CallbackData& call) noexcept {
    const unsigned traits = p.recipes[cbid].traits();
    std::uint64_t end = 0;
    if (*call.correlationData != 0)
      end = record(p, w, cbid, call);
    else
      note_result(p, w, cbid, call);
    if ((traits & call_recipe::rare_after) != 0) after(p, w, cbid, call, traits, end);
  }
  /// The call that is under way, without its result and its arguments.
  CUTRACE_INLINE static api_call begun(CUpti_CallbackId cbid, const CUpti_CallbackData& call) noexcept {
    api_call c{};
    c.begin_ticks = *call.correlationData;
    c.function = cbid;
    c.correlation = call.correlationId;
    c.context = static_cast<std::uint16_t>(call.contextUid);
    c.stage = api_call::stage_of_thread;
    return c;
  }
  /// Returns the call's end in ticks.
  static std::uint64_t record(const process_state& p, event_writer& w, CUpti_CallbackId cbid,
                              const CUpti_CallbackData& call) noexcept {
    std::uint64_t words[word_limit];
    api_call c = begun(cbid, call);
    c.result = result_of(call);
    if (CUTRACE_UNLIKELY((p.recipes[cbid].traits() & call_recipe::takes_context) != 0 && c.result == 0))
      c.context = static_cast<std::uint16_t>(waits::context_of(p.api, p.recipes[cbid], call).id);
    c.words = words;
    bool plain;
    c.word_count = p.recipes[cbid].read(call.functionParams, words, plain);
    if (!plain) c.word_count = read_by_tables(cbid, call.functionParams, c.result == 0, words);
    const std::uint32_t names = p.runtime_names.load(std::memory_order_relaxed);
    if (names != 0) c.runtime_function = runtime_calls::current(names);
    w.end_call(c);
    if (c.result != 0) note_failure(w, cbid, call, c.result, c.end_ticks);
    return c.end_ticks;
  }

  /// Notifies the writer of an error that loses the context: the records of what ran before are wanted then. Takes no
  /// address of an api_call, whose members then stay in registers: 22 instructions less of a launch.
  CUTRACE_ONE_COPY static void note_failure(event_writer& w, CUpti_CallbackId cbid, const CUpti_CallbackData& call,
                                            std::int32_t result, std::uint64_t end_ticks) noexcept {
    if (!loses_context(result)) return;
    process_state::get().faulted.store(true, std::memory_order_release);
    w.context_lost({cbid, call.correlationId, call.contextUid, result, end_ticks});
  }

  /// At EXIT of a call that is not recorded (call_recipe::only_result, or tracing was paused at its ENTER): an error
  /// that loses the context is noted all the same. The first such call is recorded, unless tracing is paused; later
  /// ones are not, since programs may poll on.
  CUTRACE_ONE_COPY static void note_result(const process_state& p, event_writer& w, CUpti_CallbackId cbid,
                                           const CUpti_CallbackData& call) noexcept {
    const std::int32_t result = result_of(call);
    if (!loses_context(result)) return;
    if (!p.faulted.load(std::memory_order_acquire))
      *call.correlationData = w.begin_call(cbid, call.correlationId, false);
    if (*call.correlationData != 0)
      record(p, w, cbid, call);
    else
      note_failure(w, cbid, call, result, w.ticks());
  }

  /// Not as a CUresult: a newer driver may return what this header's enumeration cannot hold.
  static std::int32_t result_of(const CUpti_CallbackData& call) noexcept {
    std::int32_t result = 0;
    if (call.functionReturnValue != nullptr) std::memcpy(&result, call.functionReturnValue, sizeof(result));
    return result;
  }

  CUTRACE_ONE_COPY static std::uint32_t read_by_tables(CUpti_CallbackId cbid, const void* params, bool succeeded,
                                                       std::uint64_t* words) noexcept {
    const function_entry* f = find_driver(cbid);
    return f != nullptr ? read_words(*f, params, succeeded, words) : read_raw_words(params, words);
  }

  CUTRACE_ONE_COPY static void after(process_state& p, event_writer& w, CUpti_CallbackId cbid,
                                     const CUpti_CallbackData& call, unsigned traits, std::uint64_t end) noexcept {
    const bool succeeded = result_of(call) == 0;
    if ((traits & call_recipe::waits) != 0 && succeeded && end != 0)
      waits::record(p.api, w, p.recipes[cbid], call, *call.correlationData, end);
    // Also where the call is not recorded: replays that are recorded later run what it put into the graph.
    if ((traits & call_recipe::updates_graph) != 0 && succeeded)
      graph_callbacks::on_update(p.api, w, call.functionParams);
    if ((traits & call_recipe::uses_graph_gate) != 0) p.graphs.leave();
  }

  CUTRACE_ONE_COPY static void on_other(process_state& p, event_writer& w, CUpti_CallbackDomain domain,
                                        CUpti_CallbackId cbid, const void* data) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return runtime_calls::on_call(p, cbid, data);
    if (domain == CUPTI_CB_DOMAIN_RESOURCE && !p.exiting.load(std::memory_order_acquire))
      graph_callbacks::on_resource(p.api, w, cbid, data);
    if (domain == state_domain && cbid == state_fatal_error) {
      p.fatal.store(true, std::memory_order_relaxed);
      report_fatal_error(p.api, w, data);
    }
  }

  static void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    process_state& p = process_state::get();
    *records = 0;  // as many as fit
    event_writer* w = p.writer.load(std::memory_order_acquire);
    const std::uint64_t now = w != nullptr ? w->raw_ns(w->ticks()) : clock::monotonic_ns();
    static thread_local std::uint64_t flushes_seen = ~std::uint64_t{0};  // CUPTI asks on the launching thread
    const std::uint64_t flushes = p.flushes.load(std::memory_order_relaxed);
    const bool first = flushes != flushes_seen;
    flushes_seen = flushes;
    const bool own = w != nullptr && p.buffer_a_thread.load(std::memory_order_relaxed);
    *buffer = p.buffers.take(own ? w->thread_number() : activity_buffers::any, now, first, *size);
    if (*buffer != nullptr) {
      if (w != nullptr) w->work_begins();
      return;
    }
    *size = 0;
    // CUDA 12.8 and older crash on a refusal: CUPTI gets a buffer whose records are thrown away. It is allocated so
    // that another client, which may take over the records next, can free() it.
    if (p.version < 27) *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_pool::discard_bytes));
    if (*buffer == nullptr) {
      if (!p.buffers.is_closed()) p.refused.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::memset(*buffer, 0, buffer_pool::discard_bytes);
    *size = buffer_pool::discard_bytes;
  }

  static void CUPTIAPI buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t size,
                                        std::size_t valid) {
    process_state& p = process_state::get();
    if (buffer == nullptr) return;
    p.completing.fetch_add(1);  // before `writer` is read and before at_cupti_bytes() falls
    hand_back(p, buffer, size, valid);
    p.completing.fetch_sub(1);
  }

  static void hand_back(process_state& p, std::uint8_t* buffer, std::size_t size, std::size_t valid) noexcept {
    event_writer* w = p.writer.load();
    const bool discard = p.version < 27 && size == buffer_pool::discard_bytes;
    if (!discard && !p.buffers.returned(buffer)) {  // CUPTI held it when our callbacks took the place of its client's
      if (w != nullptr)
        w->report("cupti", "CUPTI handed over a buffer of another client of the program, whose records are lost");
      return;
    }
    if (w != nullptr && valid != 0 && !discard) {
      const bool forced = p.forcing.load(std::memory_order_acquire);
      const activity_buffer full{buffer, valid, p.decoder.load(std::memory_order_acquire),
                                 forced ? &decode<true> : &decode<false>, &release};
      if (w->submit(full)) return;
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
  template <bool Forced>
  static void decode(const activity_buffer& b, event_emitter& to) {
    process_state& p = process_state::get();
    decode_context& context = *static_cast<decode_context*>(b.owner);
    context.forced = Forced;
    place_deriver out(to, context.places);
    walk_result read;
    if (p.clock_registered) {
      read = walk_buffer(p.api.cuptiActivityGetNextRecord, b.data, b.valid_bytes, context, out);
    } else {
      shifting_emitter shifted(out, p.clock.offset_ns());
      read = walk_buffer(p.api.cuptiActivityGetNextRecord, b.data, b.valid_bytes, context, shifted);
    }
    note_awaited(p, context);
    event_writer* w = p.last_writer.load(std::memory_order_acquire);
    if (!read.complete && w != nullptr)
      w->report("cupti", "cuptiActivityGetNextRecord cannot read a buffer to its end: the GPU records in it are lost");
  }

  /// Queues a step behind the buffers that came before: it describes those contexts and streams of GPU work that no
  /// buffer has described. Any thread.
  static void settle_places(process_state& p, event_writer& w) noexcept {
    const auto settle = [](const activity_buffer& b, event_emitter& to) {
      decode_context& context = *static_cast<decode_context*>(b.owner);
      place_deriver(to, context.places).settle();
      note_awaited(process_state::get(), context);
    };
    w.submit({nullptr, 0, p.decoder.load(std::memory_order_acquire), settle, [](const activity_buffer&) {}});
  }
  static void note_awaited(process_state& p, const decode_context& context) noexcept {
    const bool waits = !context.places.awaited.empty();
    if (waits && p.places_wait_since_ns.load(std::memory_order_relaxed) != 0) return;
    p.places_wait_since_ns.store(waits ? clock::monotonic_ns() : 0, std::memory_order_relaxed);
  }

  static void release(const activity_buffer& b) {
    process_state::get().buffers.give(static_cast<unsigned char*>(b.data), b.valid_bytes);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
