// SPDX-License-Identifier: Apache-2.0
// Numbers for names, texts and kernels in a Perfetto trace. One set of numbers for all sequences; each sequence is told
// the meaning of a number before it uses it. Bounded: when there are too many, all numbers are forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/utf8.hpp>
#include <cutrace/sinks/common/slice_heads.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Text of a trace: UTF-8, no control character, cut after 8 KiB. The viewer loads names of any size, and stops there.
inline constexpr std::size_t perfetto_text_limit = 8192;
inline void append_perfetto_text(std::string& out, std::string_view s) {
  append_printable(out, s, perfetto_text_limit);
}

/// Keys of bytes to numbers that count up from `first`. The last ones are found without the table.
template <std::size_t Words>
class number_table {
 public:
  struct key {
    std::uint64_t word[Words];
    bool operator==(const key& other) const noexcept { return std::memcmp(word, other.word, sizeof(word)) == 0; }
    CUTRACE_INLINE std::uint64_t mixed() const noexcept {
      // Long keys in lanes, since each product waits for the one before it.
      constexpr std::size_t lanes = Words < 8 ? 1 : 4;
      std::uint64_t lane[lanes] = {};
      for (std::size_t i = 0; i < Words; ++i) lane[i % lanes] = (lane[i % lanes] ^ word[i]) * 0x9E3779B97F4A7C15u;
      std::uint64_t sum = lane[0];
      for (std::size_t i = 1; i < lanes; ++i) sum = (sum ^ sum >> 32 ^ lane[i]) * 0x9E3779B97F4A7C15u;
      return sum ^ sum >> 29;
    }
  };
  static constexpr std::uint32_t limit = 1u << 16;

  CUTRACE_INLINE std::uint32_t of(const key& k) {
    const std::uint64_t mixed = k.mixed();
    recent& r = recent_[mixed >> 56];
    if (CUTRACE_LIKELY(r.number != 0 && r.is_of == k)) return r.number;
    return find(k, r);
  }
  bool full() const noexcept { return next_ > limit; }
  void clear() {
    numbers_.clear();
    for (recent& r : recent_) r.number = 0;
    next_ = 1;
  }

 private:
  struct recent {
    key is_of;
    std::uint32_t number = 0;
  };
  struct hash {
    std::size_t operator()(const key& k) const noexcept { return static_cast<std::size_t>(k.mixed()); }
  };
  CUTRACE_ONE_COPY std::uint32_t find(const key& k, recent& r) {
    const std::uint32_t number = numbers_.emplace(k, next_).first->second;
    if (number == next_) ++next_;
    r.number = 0;  // matches nothing while the key is copied
    r.is_of = k;
    r.number = number;
    return number;
  }
  std::unordered_map<key, std::uint32_t, hash> numbers_;
  recent recent_[256] = {};
  std::uint32_t next_ = 1;
};

/// What slices are called.
class slice_names {
 public:
  using table = number_table<2>;

  CUTRACE_INLINE std::uint32_t of(const event& e) { return numbers_.of(key_of(e, e.kind)); }
  bool full() const noexcept { return numbers_.full(); }
  void clear() { numbers_.clear(); }

  static void render(std::string& out, const event& e) {
    std::string whole;
    chrome_name(whole, e);
    if (whole.empty()) whole = to_string(e.kind);
    append_perfetto_text(out, whole);
  }

  /// Names are interned: equal addresses are equal texts. Others are made of what stands in `what`.
  /// `of_kind`: the event's, which callers that know it let the compiler know.
  CUTRACE_INLINE static table::key key_of(const event& e, event_kind of_kind) noexcept {
    const std::uint64_t kind = std::uint64_t{static_cast<std::uint8_t>(of_kind)} << 56;
    switch (of_kind) {
      case event_kind::memcpy:
        return {{0, kind | static_cast<std::uint64_t>(e.memcpy_.direction) |
                        static_cast<std::uint64_t>(e.memcpy_.source) << 8 |
                        static_cast<std::uint64_t>(e.memcpy_.destination) << 16}};
      case event_kind::memset:
        return {{0, kind | static_cast<std::uint64_t>(e.memset_.memory)}};
      case event_kind::sync:
        return {{0, kind | static_cast<std::uint64_t>(e.sync.what)}};
      case event_kind::graph_launch:
        return {{0, kind | e.kernel.graph_id}};
      default:
        return {{reinterpret_cast<std::uintptr_t>(e.name.data), kind | e.name.size}};
    }
  }

 private:
  table numbers_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
