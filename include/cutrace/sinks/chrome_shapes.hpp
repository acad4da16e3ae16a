// SPDX-License-Identifier: Apache-2.0
// How kernels are launched, in Chrome JSON args under Kineto's keys. A program launches its kernels in few shapes, so
// the text of the last ones is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/chrome_fields.hpp>
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

class launch_shapes {
 public:
  /// What put_shape writes.
  std::string_view of(const kernel_data& k) noexcept {
    kept& at = kept_[slot_of(k)];
    if (CUTRACE_UNLIKELY(at.size == 0 || std::memcmp(at.shape, &k, shape_bytes) != 0)) {
      std::memcpy(at.shape, &k, shape_bytes);
      at.size = static_cast<std::size_t>(put_shape(at.text, k) - at.text);
    }
    return std::string_view(at.text, at.size);
  }

 private:
  /// All members before the first that put_shape does not write.
  static constexpr std::size_t shape_bytes = offsetof(kernel_data, graph_id);
  static_assert(shape_bytes % 8 == 0, "hashed word by word");
  static constexpr std::size_t slots = 64;
  struct kept {
    unsigned char shape[shape_bytes];
    std::size_t size = 0;
    char text[320];
  };
  static std::size_t slot_of(const kernel_data& k) noexcept {
    std::uint64_t words[shape_bytes / 8];
    std::memcpy(words, &k, sizeof(words));
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : words) mixed = mixed * 31 + word;
    return static_cast<std::size_t>(mixed * 0x9E3779B97F4A7C15u >> 58);  // as slice_heads does
  }

  kept kept_[slots];
};

}  // namespace detail
CUTRACE_END_NAMESPACE
