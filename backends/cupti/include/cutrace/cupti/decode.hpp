// SPDX-License-Identifier: Apache-2.0
// CUPTI activity records to events: pure functions, no CUPTI call, nothing shared. One thread for each decode_context.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/cupti/decode_managed.hpp>
#include <cutrace/cupti/decode_state.hpp>
#include <cutrace/cupti/decode_work.hpp>
#include <cutrace/cupti/records_check.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

namespace decoding {

/// Returns false where `available` bytes are too few for the record's kind.
CUTRACE_LOCAL inline bool one(const void* at, std::size_t available, decode_context& c, event_emitter& emitter) {
  std::uint32_t kind = 0;
  if (!load(at, available, sizeof(kind), kind)) return false;
  switch (static_cast<record_kind>(kind)) {
    case record_kind::kernel:
    case record_kind::concurrent_kernel:
      return kernel(at, available, c, emitter);
    case record_kind::memcpy:
      return copy(at, available, c, emitter);
    case record_kind::memcpy_peer:
      return peer_copy(at, available, c, emitter);
    case record_kind::memset:
      return set(at, available, c, emitter);
    case record_kind::graph_trace:
      return graph(at, available, c, emitter);
    case record_kind::synchronization:
      return synchronization(at, available, c, emitter);
    case record_kind::overhead:
      return overhead(at, available, c, emitter);
    case record_kind::device:
      return device(at, available, c, emitter);
    case record_kind::context:
      return context(at, available, c, emitter);
    case record_kind::stream:
      return stream(at, available, c, emitter);
    case record_kind::name:
      return name(at, available, c, emitter);
    case record_kind::memory:
      return memory(at, available, c, emitter);
    case record_kind::memory2:
      return memory2(at, available, c, emitter);
    case record_kind::memory_pool:
      return memory_pool(at, available, c, emitter);
    case record_kind::environment:
      return environment(at, available, c, emitter);
    case record_kind::unified_memory:
      return unified_memory(at, available, c, emitter);
    case record_kind::cuda_event:
      return cuda_event(at, available, c, emitter);
    case record_kind::jit:
      return jit(at, available, c, emitter);
    // Calls are taken from callbacks, with their arguments; these records would count them a second time.
    case record_kind::driver:
    case record_kind::runtime:
    case record_kind::internal_launch_api:
    case record_kind::external_correlation:
      return true;
  }
  emitter.count_loss(loss_cause::unknown_record, 1);
  return true;
}

}  // namespace decoding

/// Decodes one complete record. Times of its events are CUPTI's, unchanged; `correlation_id` is the 32-bit id. A record
/// of a kind that is not decoded counts as loss (unknown_record), a record without times as quality::no_timestamp,
/// unless it is of unfinished work (decode_context::forced). Throws only what the emitter throws.
CUTRACE_LOCAL inline void decode_record(const CUpti_Activity* record, decode_context& c, event_emitter& emitter) {
  if (record != nullptr) decoding::one(record, static_cast<std::size_t>(-1), c, emitter);
}

/// cuptiActivityGetNextRecord: only CUPTI knows how long its records are.
using next_record_function = CUptiResult (*)(std::uint8_t* buffer, std::size_t valid_bytes, CUpti_Activity** record);

struct walk_result {
  std::uint64_t records = 0;  ///< stepped over, including those that were counted as loss
  bool complete = true;       ///< false: the rest of the buffer could not be read, at least one loss was counted
};

/// Decodes all records of a buffer. No byte outside of [data, data + bytes) is read here, whatever `next` answers: a
/// record that does not lie behind its predecessor and within the buffer, or is cut off, ends the walk and counts as
/// one unknown_record. What hides behind it cannot be counted. (Names are read where records point.)
CUTRACE_LOCAL inline walk_result walk_buffer(next_record_function next, void* data, std::size_t bytes,
                                             decode_context& c, event_emitter& emitter) {
  walk_result result;
  if (data == nullptr || bytes == 0) return result;
  auto* const begin = static_cast<std::uint8_t*>(data);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  std::uintptr_t lowest = first;
  CUpti_Activity* record = nullptr;
  for (;;) {
    const CUptiResult status = next(begin, bytes, &record);
    if (status == CUPTI_ERROR_MAX_LIMIT_REACHED) return result;  // the regular end
    const auto at = reinterpret_cast<std::uintptr_t>(record);
    if (status != CUPTI_SUCCESS || at < lowest || at - first >= bytes ||
        !decoding::one(begin + (at - first), bytes - (at - first), c, emitter)) {
      emitter.count_loss(loss_cause::unknown_record, 1);
      result.complete = false;
      return result;
    }
    ++result.records;
    lowest = at + sizeof(CUpti_Activity);
  }
}

}  // namespace cupti
CUTRACE_END_NAMESPACE
