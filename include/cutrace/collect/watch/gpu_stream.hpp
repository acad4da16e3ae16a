// SPDX-License-Identifier: Apache-2.0
// A stream as CUPTI's records name it, and the order of the calls on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct gpu_stream {
  std::uint32_t context;
  std::uint64_t stream;
  bool operator==(const gpu_stream& o) const noexcept { return context == o.context && stream == o.stream; }

  struct hash {
    std::size_t operator()(const gpu_stream& k) const noexcept {
      return static_cast<std::size_t>((k.stream ^ std::uint64_t{k.context} << 32) * 0x9E3779B97F4A7C15u);
    }
  };
};

/// Correlation ids count up and wrap.
inline bool is_before(std::uint32_t id, std::uint32_t later) noexcept {
  return static_cast<std::int32_t>(later - id) > 0;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
