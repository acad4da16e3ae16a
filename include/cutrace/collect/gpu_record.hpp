// SPDX-License-Identifier: Apache-2.0
// GPU work in two records: what a backend without activity buffers writes from its own thread.
#pragma once

#include <cutrace/backend.hpp>
#include <cutrace/marker/record.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

constexpr std::uint32_t gpu_records = 2;

inline std::uint64_t pack(std::uint64_t low, std::uint64_t high) noexcept { return (low & 0xffffffffu) | high << 32; }

/// Continuation first, then the head; `name_id` is the site table's.
inline void encode_gpu(const gpu_work& w, std::uint32_t name_id, record* at) noexcept {
  words_record more{};
  more.type = record_type::words;
  more.size = 7;
  more.words[0] = pack(w.grid[0], w.grid[1]);
  more.words[1] = pack(w.grid[2], w.block[0]);
  more.words[2] = pack(w.block[1], w.block[2]);
  more.words[3] = pack(w.registers_per_thread, w.shared_bytes);
  more.words[4] = pack(w.graph_id, w.device);
  more.words[5] = w.graph_node_id;
  more.words[6] = static_cast<std::uint64_t>(w.direction) | static_cast<std::uint64_t>(w.source) << 8 |
                  static_cast<std::uint64_t>(w.destination) << 16 | static_cast<std::uint64_t>(w.sync) << 24;
  __builtin_memcpy(static_cast<void*>(at), &more, sizeof(more));
  const std::uint8_t flags = w.times_are_ticks ? std::uint8_t{0} : flag_ns_times;
  at[1] = record{make_head(record_type::gpu, flags, request_form::none, static_cast<std::uint8_t>(w.kind), name_id),
                 w.begin,
                 w.end,
                 w.correlation,
                 w.stream,
                 w.context,
                 w.bytes,
                 0};
}

inline void decode_gpu(const record& r, const std::uint64_t (&words)[7], event& e) noexcept {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  e.kind = static_cast<event_kind>(r.count());
  e.correlation_id = low(r.id);
  e.stream = r.parent;
  e.context = low(r.a);
  e.device = high(words[4]);
  const std::uint64_t kinds = words[6];
  const copy_direction direction = static_cast<copy_direction>(kinds & 0xff);
  const memory_kind source = static_cast<memory_kind>(kinds >> 8 & 0xff);
  const memory_kind destination = static_cast<memory_kind>(kinds >> 16 & 0xff);
  switch (e.kind) {
    case event_kind::memcpy:
      e.memcpy_ = memcpy_data{r.b, direction, source, destination, true, e.device, e.device, low(words[4]), words[5]};
      break;
    case event_kind::memset:
      e.memset_ = memset_data{r.b, 0, destination, true, low(words[4]), words[5]};
      break;
    case event_kind::sync:
      e.sync = sync_data{static_cast<sync_kind>(kinds >> 24 & 0xff), 0};
      break;
    default:
      e.kernel.grid[0] = low(words[0]);
      e.kernel.grid[1] = high(words[0]);
      e.kernel.grid[2] = low(words[1]);
      e.kernel.block[0] = high(words[1]);
      e.kernel.block[1] = low(words[2]);
      e.kernel.block[2] = high(words[2]);
      e.kernel.registers_per_thread = low(words[3]);
      e.kernel.static_shared_bytes = high(words[3]);
      e.kernel.graph_id = low(words[4]);
      e.kernel.graph_node_id = words[5];
      break;
  }
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
