// SPDX-License-Identifier: Apache-2.0
// Where a small table that keeps what came last looks for something, and how it knows interned texts again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// One of `Slots`, a power of two, for a key that was mixed to one word: Fibonacci hashing (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
template <std::size_t Slots>
constexpr std::size_t kept_slot(std::uint64_t mixed) noexcept {
  static_assert(Slots > 1 && (Slots & (Slots - 1)) == 0, "the upper bits of the product choose one");
  return static_cast<std::size_t>(mixed * 0x9E3779B97F4A7C15u >> (64 - __builtin_ctzll(Slots)));
}

/// Of interned texts: equal addresses are equal texts.
constexpr bool is_same_interned(text a, text b) noexcept { return a.data == b.data && a.size == b.size; }

}  // namespace detail
CUTRACE_END_NAMESPACE
