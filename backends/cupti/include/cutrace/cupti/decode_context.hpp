// SPDX-License-Identifier: Apache-2.0
// What the decoder keeps between records, and the pieces that the decoders of all kinds share.
#pragma once

#include <cupti.h>  // CUPTI_API_VERSION

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/late_places.hpp>
#include <cutrace/cupti/records.hpp>
#include <cutrace/stats.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

/// State of one decoder, for one emitter and one thread: names stay interned with the first emitter that it was given.
struct decode_context {
  /// Version of the CUPTI library that fills the buffers (cuptiGetVersion): decides how long some records are. The
  /// backend sets it; the default is for records that were made with these headers.
  std::uint32_t cupti_version = CUPTI_API_VERSION;
  /// The current buffer came back by a forced flush: there, a record without any time is of work that had not ended.
  bool forced = false;
  /// Frees details of overhead records, which CUPTI allocates with malloc.
  void (*free_data)(void*) = &std::free;

  struct known_context {
    std::uint32_t context = 0;
    std::uint32_t device = 0;
    bool known = false;
  };
  struct known_gauge {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
  };
  static constexpr std::size_t name_count = 48;
  static constexpr std::size_t context_count = 64;
  static constexpr std::size_t gauge_count = 64;

  known_places places;
  known_context contexts[context_count];  ///< by context id modulo the size: ids are small and count up
  known_gauge gauges[gauge_count];
  std::uint32_t next_gauge = 0;
  static constexpr std::uint32_t device_count = 64;
  std::uint64_t faults[device_count + 1] = {};  ///< page faults of managed memory, by device modulo the size; last: CPU
  const char* literals[name_count] = {};        ///< addresses of literals, and what they were interned as
  text names[name_count];

  void learn(std::uint32_t context, std::uint32_t device) noexcept {
    contexts[context % context_count] = {context, device, true};
  }
  /// Device of a context, as far as records have named it; else 0, the device of most programs.
  std::uint32_t device_of(std::uint32_t context) const noexcept {
    const known_context& k = contexts[context % context_count];
    return k.known && k.context == context ? k.device : 0;
  }
  /// Stores a gauge's value and returns the previous one, 0 where there is none (64 gauges are remembered). `key`: the
  /// address of a memory pool or, for a device's quantities, a number that is no address (environment() in
  /// decode_state.hpp).
  std::uint64_t exchange_gauge(std::uint64_t key, std::uint64_t value) noexcept {
    for (known_gauge& g : gauges) {
      if (g.key != key) continue;
      const std::uint64_t before = g.value;
      g.value = value;
      return before;
    }
    gauges[next_gauge++ % gauge_count] = {key, value};
    return 0;
  }
};

/// Longest name that is read from a record: names of kernels with deep templates reach some kilobytes.
constexpr std::size_t name_limit = 64 * 1024;

namespace decoding {

/// All ones stand for "no stream", "no context", "no event" (CUPTI_INVALID_STREAM_ID and its like).
constexpr std::uint32_t no_id = 0xffffffffu;
CUTRACE_LOCAL inline std::uint32_t id_or_0(std::uint32_t id) noexcept { return id == no_id ? 0 : id; }

/// Copies the first `bytes` of a record. False where fewer are there.
template <class Record>
bool load(const void* at, std::size_t available, std::size_t bytes, Record& out) noexcept {
  if (available < bytes) return false;
  std::memcpy(static_cast<void*>(&out), at, bytes);
  return true;
}

/// Interned form of a literal: a lookup by address, not by content, because it happens for each record.
CUTRACE_LOCAL inline text fixed(decode_context& c, event_emitter& emitter, const char* literal) {
  for (std::size_t i = 0; i < decode_context::name_count; ++i) {
    if (c.literals[i] == literal) return c.names[i];
    if (c.literals[i] != nullptr) continue;
    c.literals[i] = literal;
    c.names[i] = emitter.intern(literal, std::strlen(literal));
    return c.names[i];
  }
  return emitter.intern(literal, std::strlen(literal));
}

/// Interned by content: CUPTI's pointers do not outlive the module they came from.
CUTRACE_LOCAL inline text intern(event_emitter& emitter, const char* name) {
  if (name == nullptr) return {};
  return emitter.intern(name, ::strnlen(name, name_limit));
}

/// Sets the times, which are of CUPTI's clock. Where the end of GPU work or of a wait is 0, it had not ended yet if
/// there is a start, or if the buffer comes of a forced flush (both times are 0, and CUPTI does not deliver the record
/// again, CUPTI 13.0): such an event has no times. Otherwise CUPTI could not collect the end, and the start stands for
/// it. An end before the start stays as it is; the collector, which maps the clocks, counts it.
CUTRACE_LOCAL inline void set_times(event& e, std::uint64_t start, std::uint64_t end, const decode_context& c,
                                    event_emitter& emitter) {
  const bool of_gpu = e.is_gpu_work() || e.kind == event_kind::sync;
  e.incomplete = of_gpu && end == 0 && (c.forced || start != 0);
  if (e.incomplete) return;
  if (end == 0) emitter.count_quality(static_cast<std::uint32_t>(quality::no_timestamp));
  e.start_ns = static_cast<std::int64_t>(start);
  e.end_ns = static_cast<std::int64_t>(end != 0 ? end : start);
}

CUTRACE_LOCAL inline void set_place(event& e, std::uint32_t device, std::uint32_t context,
                                    std::uint32_t stream) noexcept {
  e.device = device;
  e.context = id_or_0(context);
  e.stream = id_or_0(stream);
}

/// CUpti_ActivityMemoryKind, whose numbers memory_kind shares.
CUTRACE_LOCAL inline memory_kind memory_of(std::uint32_t kind) noexcept {
  return kind <= static_cast<std::uint32_t>(memory_kind::managed_static) ? static_cast<memory_kind>(kind)
                                                                         : memory_kind::unknown;
}

/// CUpti_ActivityMemcpyKind.
struct copy_form {
  copy_direction direction;
  const char* name;
};
CUTRACE_LOCAL inline const copy_form& copy_of(std::uint32_t kind) noexcept {
  static constexpr copy_form forms[] = {
      {copy_direction::unknown, "memcpy"},
      {copy_direction::host_to_device, "memcpy HtoD"},
      {copy_direction::device_to_host, "memcpy DtoH"},
      {copy_direction::host_to_device, "memcpy HtoA"},
      {copy_direction::device_to_host, "memcpy AtoH"},
      {copy_direction::device_to_device, "memcpy AtoA"},
      {copy_direction::device_to_device, "memcpy AtoD"},
      {copy_direction::device_to_device, "memcpy DtoA"},
      {copy_direction::device_to_device, "memcpy DtoD"},
      {copy_direction::host_to_host, "memcpy HtoH"},
      {copy_direction::peer, "memcpy PtoP"},
  };
  return forms[kind < sizeof(forms) / sizeof(forms[0]) ? kind : 0];
}

}  // namespace decoding
}  // namespace cupti
CUTRACE_END_NAMESPACE
