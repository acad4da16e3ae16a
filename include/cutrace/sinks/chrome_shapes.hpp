// SPDX-License-Identifier: Apache-2.0
// How kernels are launched, in Chrome JSON args under Kineto's keys. A program launches its kernels in few shapes, so
// the text of the last ones is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/detail/kept_slot.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/chrome_fields.hpp>
#include <cutrace/sinks/chrome_occupancy.hpp>
#include <map>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline char* put_shape(char* to, const kernel_data& k) noexcept {
  to = put_field(to, ",\"registers per thread\":", k.registers_per_thread);
  to = put_field(to, ",\"shared memory\":", std::uint64_t{k.static_shared_bytes} + k.dynamic_shared_bytes);
  to = put_triple(to, ",\"grid\":[", k.grid);
  to = put_triple(to, ",\"block\":[", k.block);
  if (k.cluster[0] != 0) to = put_triple(to, ",\"cluster\":[", k.cluster);
  return put_field(to, ",\"priority\":", k.priority);
}

/// At most what a GPU can be asked for, but any number may stand in a record.
inline char* put_ratio(char* to, double ratio) noexcept {
  return put_millionths(to, ratio < 1e12 ? static_cast<std::uint64_t>(ratio * 1e6 + 0.5) : 1000000000000000000u);
}
inline char* put_fill(char* to, const launch_fill& f) noexcept {
  to = put_ratio(put_literal(to, ",\"blocks per SM\":"), f.blocks_per_multiprocessor);
  to = put_ratio(put_literal(to, ",\"warps per SM\":"), f.warps_per_multiprocessor);
  return put_field(to, ",\"est. achieved occupancy %\":", f.occupancy_percent);
}

class launch_shapes {
 public:
  /// Kernels of this device tell from now on how full they make it.
  void describe(std::uint32_t device, const device_data& d) {
    if (devices_.size() >= device_limit) return;
    devices_[device] = d;
    for (kept& k : kept_) k.size = 0;
  }

  /// What put_shape and put_fill write.
  std::string_view of(std::uint32_t device, const kernel_data& k) noexcept {
    kept& at = kept_[slot_of(k)];
    if (CUTRACE_UNLIKELY(at.size == 0 || at.device != device || std::memcmp(at.shape, &k, shape_bytes) != 0))
      render(at, device, k);
    return std::string_view(at.text, at.size);
  }

 private:
  /// All members before the first that put_shape does not write.
  static constexpr std::size_t shape_bytes = offsetof(kernel_data, graph_id);
  static constexpr std::size_t slots = 64;
  struct kept {
    unsigned char shape[shape_bytes];
    std::size_t size = 0;
    std::uint32_t device = 0;
    char text[448];
  };
  static constexpr std::size_t device_limit = 1024;

  CUTRACE_NOINLINE void render(kept& at, std::uint32_t device, const kernel_data& k) noexcept {
    std::memcpy(at.shape, &k, shape_bytes);
    at.device = device;
    char* to = put_shape(at.text, k);
    const auto known = devices_.find(device);
    launch_fill fill;
    if (known != devices_.end() && fill_of(known->second, k, fill)) to = put_fill(to, fill);
    at.size = static_cast<std::size_t>(to - at.text);
  }
  static std::size_t slot_of(const kernel_data& k) noexcept {
    return kept_slot<slots>(k.grid[0] + 3 * std::uint64_t{k.grid[1]} + 5 * std::uint64_t{k.block[0]} +
                            7 * std::uint64_t{k.registers_per_thread} + 11 * std::uint64_t{k.dynamic_shared_bytes});
  }

  kept kept_[slots];
  std::map<std::uint32_t, device_data> devices_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
