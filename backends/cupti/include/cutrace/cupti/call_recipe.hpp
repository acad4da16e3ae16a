// SPDX-License-Identifier: Apache-2.0
// What the callback must know of a driver function, in 16 bytes: what to do at a call, and where the values of its
// arguments lie. A program that does much between two calls evicts these bytes from the near caches, so the callback
// must touch few cache lines. All other code uses the whole tables of names and parameters.
#pragma once

#include <cuda.h>

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
  /// uses_graph_gate: calls enter process_state::graphs. only_result: calls are not recorded, except the first that
  /// returns an error after which the context cannot be used. takes_context: the call is for the context that is its
  /// first argument.
  enum trait : std::uint8_t {
    makes_work = 1,
    updates_graph = 2,
    uses_graph_gate = 4,
    waits = 8,
    only_result = 16,
    takes_context = 32
  };
  static constexpr std::uint32_t short_words = 4;                         ///< see is_short
  static constexpr unsigned rare_before = uses_graph_gate | only_result;  ///< traits with work at a call's ENTER
  static constexpr unsigned rare_after = updates_graph | uses_graph_gate | waits | only_result;  ///< and at its EXIT
  /// Traits that keep a function from being short.
  static constexpr unsigned long_after = (rare_after & ~unsigned{waits}) | takes_context;

  /// `f`: null where the function is not known.
  void set(unsigned traits, const function_entry* f) noexcept {
    std::uint64_t places[2] = {0, 0};
    const bool known = f != nullptr && f->known, plain = known && plain_values(*f, places);
    const std::uint64_t count = known ? f->words : 0;
    // The same for each session, whatever its traits: a call of an earlier one may read one word before `set` and one
    // after it.
    std::uint64_t rest = known ? short_places(*f) : none;
    const bool is_short = rest != none && (traits & long_after) == 0;
    if (rest == none) rest = places[1];
    if (known && f->work == function_work::synchronize) rest |= wait_places(*f);
    rest_.store(rest, std::memory_order_relaxed);
    first_.store(
        traits | count << count_at | (plain ? plain_bit : 0) | (is_short ? short_bit : 0) | places[0] << places_at,
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

  /// Whether the function needs nothing after a call and has one to `short_words` values, all of 8 bytes and in the
  /// parameter structure, but for the first one, which may lie behind a pointer. Most calls are of such functions.
  bool is_short() const noexcept { return (first_.load(std::memory_order_relaxed) & short_bit) != 0; }
  /// Of such a function: the number of its values, and the one at `i`, below short_words, of a call that succeeded.
  /// What lies beyond the values means nothing.
  CUTRACE_INLINE std::uint32_t short_count() const noexcept {
    return first_.load(std::memory_order_relaxed) >> count_at & 7;
  }
  CUTRACE_INLINE std::uint64_t short_word(const void* params, unsigned i) const noexcept {
    const std::uint64_t rest = rest_.load(std::memory_order_relaxed);
    const auto* at = static_cast<const unsigned char*>(params) + static_cast<std::uint8_t>(rest >> (i * 8));
    std::uint64_t v;
    std::memcpy(&v, at, sizeof(v));
    const std::uint64_t inner = static_cast<std::uint8_t>(rest >> inner_at);
    if (i != 0 || inner == 0 || v == 0) return v;
    std::memcpy(&v, reinterpret_cast<const unsigned char*>(v) + (inner - 1), sizeof(v));
    return v;
  }

  /// What a function waits for, if it has the trait `waits`: the stream and event that it takes, nullptr where it takes
  /// none, and whether its default stream is that of the calling thread.
  struct wait {
    const CUstream* stream;
    const CUevent* event;
    bool thread_stream;
  };
  wait waited_for(const void* params) const noexcept {
    const std::uint64_t rest = rest_.load(std::memory_order_relaxed);
    const auto at = [&](unsigned shift) -> const unsigned char* {
      const std::uint8_t place = static_cast<std::uint8_t>(rest >> shift);
      return place != 0 && params != nullptr ? static_cast<const unsigned char*>(params) + (place - 1) : nullptr;
    };
    return {reinterpret_cast<const CUstream*>(at(stream_at)), reinterpret_cast<const CUevent*>(at(event_at)),
            rest >> thread_stream_at != 0};
  }

 private:
  // Bits of a place: offset from `params` in units of 4 bytes, and how the value is loaded: 8 bytes, or 4 with or
  // without their sign.
  static constexpr std::uint64_t offset_mask = 0x3f, wide = 0x40, extended = 0x80;
  static constexpr unsigned unit = 4, count_at = 8, places_at = 16, places_in_first = 6;
  static constexpr unsigned inner_at = 32, stream_at = 40, event_at = 48, thread_stream_at = 56;  // of rest_
  static constexpr std::uint64_t plain_bit = 1u << 12, short_bit = 1u << 13, none = ~std::uint64_t{0};
  // wait_places take the room of the other places: no function that waits has more than places_in_first.
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

  /// Of a function that is_short: the offset of each value in a byte. If the first value lies behind a pointer, its
  /// offset there, plus one, is at `inner_at`. `none` for other functions. Places beyond the values get the first one's
  /// offset, so that reading all short_words is safe.
  static std::uint64_t short_places(const function_entry& f) noexcept {
    if (f.words == 0 || f.words > short_words) return none;
    const function_parameter* p = parameters_of(f);
    std::uint64_t places = p->how == read_how::nested ? (p->inner + std::uint64_t{1}) << inner_at : 0;
    if (p->how == read_how::nested && p->inner >= 0xff) return none;
    for (unsigned i = 0; i < short_words; ++i) {
      const function_parameter& at = p[i < f.words ? i : 0];
      if (at.size != 8 || at.offset > 0xff || !(at.how == read_how::value || (&at == p && places >> inner_at != 0)))
        return none;
      places |= std::uint64_t{at.offset} << (i * 8);
    }
    return places;
  }

  /// Of a function that waits: one more than the offsets of its stream and event, at `stream_at` and `event_at`.
  static std::uint64_t wait_places(const function_entry& f) noexcept {
    std::uint64_t places = std::uint64_t{uses_thread_stream(f)} << thread_stream_at;
    const function_parameter* p = parameters_of(f);
    for (unsigned i = 0; i < f.words; ++i, ++p) {
      if (p->how != read_how::value || p->size != sizeof(void*) || p->offset >= 0xff) continue;
      const unsigned at = std::strcmp(p->name, "hStream") == 0 ? stream_at : event_at;
      if (at == stream_at || std::strcmp(p->name, "hEvent") == 0) places |= (p->offset + std::uint64_t{1}) << at;
    }
    return places;
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
  std::atomic<std::uint64_t> rest_{0};   ///< the other places, or short_places and wait_places
};
static_assert(sizeof(call_recipe) == 16, "four functions a cache line");

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
