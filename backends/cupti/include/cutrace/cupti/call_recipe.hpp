// SPDX-License-Identifier: Apache-2.0
// What the callback must know of a driver function, in 16 bytes: what to do at a call, and where the values of its
// arguments lie. A program that does much between two calls evicts these bytes from the near caches, so the callback
// must touch few cache lines. All other code uses the whole tables of names and parameters.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <cutrace/cupti/functions.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// Set before callbacks of the function are on. A later session sets the recipe again, while a call from the earlier
/// session may still read it: hence the atomics.
class call_recipe {
 public:
  /// uses_graph_gate: calls pass process_state::graphs. only_result: calls are not recorded, except the first that
  /// returns an error after which the context cannot be used.
  enum trait : std::uint8_t { makes_work = 1, updates_graph = 2, uses_graph_gate = 4, waits = 8, only_result = 16 };
  static constexpr std::uint32_t short_words = 3;                         ///< what a record holds without a second one
  static constexpr unsigned rare_before = uses_graph_gate | only_result;  ///< traits with work at a call's ENTER
  static constexpr unsigned rare_after = updates_graph | uses_graph_gate | waits | only_result;  ///< and at its EXIT

  /// `f`: null where the function is not known.
  void set(unsigned traits, const function_entry* f) noexcept {
    std::uint64_t places[2] = {0, 0};
    const bool plain = f != nullptr && f->known && plain_values(*f, places);
    const std::uint64_t count = plain ? f->words : 0;
    rest_.store(places[1], std::memory_order_relaxed);
    first_.store(traits | count << count_at | (plain ? plain_bit : 0) |
                     (plain && count <= short_words ? short_bit : 0) | places[0] << places_at,
                 std::memory_order_relaxed);
  }

  unsigned traits() const noexcept { return static_cast<std::uint8_t>(first_.load(std::memory_order_relaxed)); }

  /// As cupti::read_words, but only where all arguments are plain: values of 8 bytes, or of 4 bytes and no float, in
  /// the parameter structure itself. Otherwise sets `plain` to false and reads nothing.
  CUTRACE_INLINE std::uint32_t read(const void* params, std::uint64_t* out, bool& plain) const noexcept {
    const std::uint64_t first = first_.load(std::memory_order_relaxed);
    plain = (first & plain_bit) != 0;
    if (!plain || params == nullptr) return 0;
    const auto* base = static_cast<const unsigned char*>(params);
    const std::uint32_t count = first >> count_at & 0xf;
    std::uint64_t places = first >> places_at;
    for (std::uint32_t i = 0; i < count; ++i, places >>= 8) {
      if (CUTRACE_UNLIKELY(i == places_in_first)) places = rest_.load(std::memory_order_relaxed);
      out[i] = word(base, places);
    }
    return count;
  }

  /// Whether all arguments are plain, and no more than `short_words`.
  bool is_short() const noexcept { return (first_.load(std::memory_order_relaxed) & short_bit) != 0; }
  /// As `read`, for functions of which is_short is true. `out`: short_words of them, 0 where there is no argument.
  CUTRACE_INLINE std::uint32_t read_short(const void* params, std::uint64_t* out) const noexcept {
    const std::uint64_t first = first_.load(std::memory_order_relaxed), places = first >> places_at;
    const auto* base = static_cast<const unsigned char*>(params);
    const std::uint32_t count = CUTRACE_LIKELY(params != nullptr) ? first >> count_at & 3 : 0;
    out[0] = count > 0 ? word(base, places) : 0;
    out[1] = count > 1 ? word(base, places >> 8) : 0;
    out[2] = count > 2 ? word(base, places >> 16) : 0;
    return count;
  }

 private:
  // Bits of a place: offset from `params` in units of 4 bytes, and how the value is loaded: 8 bytes, or 4 with or
  // without their sign.
  static constexpr std::uint64_t offset_mask = 0x3f, wide = 0x40, extended = 0x80;
  static constexpr unsigned unit = 4, count_at = 8, places_at = 16, places_in_first = 6;
  static constexpr std::uint64_t plain_bit = 1u << 12, short_bit = 1u << 13;
  static_assert(word_limit <= places_in_first + 8 && word_limit < 16, "places and count have their bits");

  static CUTRACE_INLINE std::uint64_t word(const unsigned char* base, std::uint64_t place) noexcept {
    const unsigned char* at = base + (place & offset_mask) * unit;
    std::uint64_t whole;
    if (CUTRACE_LIKELY((place & wide) != 0)) {
      std::memcpy(&whole, at, 8);
      return whole;
    }
    std::int32_t v;
    std::memcpy(&v, at, 4);
    return (place & extended) != 0 ? static_cast<std::uint64_t>(std::int64_t{v}) : static_cast<std::uint32_t>(v);
  }

  static bool plain_values(const function_entry& f, std::uint64_t* places) noexcept {
    const function_parameter* p = parameters_of(f);
    for (unsigned i = 0; i < f.words; ++i, ++p) {
      const bool whole = p->size == 8 || (p->size == 4 && p->kind != argument_kind::floating);
      if (p->how != read_how::value || !whole || p->offset % unit != 0 || p->offset / unit > offset_mask) return false;
      std::uint64_t place = p->offset / unit;
      if (p->size == 8) place |= wide;
      if (p->kind == argument_kind::integer) place |= extended;
      places[i / places_in_first != 0] |= place << (i < places_in_first ? i : i - places_in_first) * 8;
    }
    return true;
  }

  std::atomic<std::uint64_t> first_{0};  ///< traits, count, `plain_bit`, the first places
  std::atomic<std::uint64_t> rest_{0};   ///< the other places
};
static_assert(sizeof(call_recipe) == 16, "four functions a cache line");

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
