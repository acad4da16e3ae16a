// SPDX-License-Identifier: Apache-2.0
// Numbers for names, texts and kernels in a Perfetto trace. One set of numbers for all sequences; each sequence writes
// the meaning of a number before it uses it. Bounded: when there are too many, all numbers are forgotten.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/utf8.hpp>
#include <cutrace/sinks/common/kineto_names.hpp>
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

/// Maps keys to numbers that count up from 1.
template <std::size_t Words>
class number_table {
 public:
  using key = std::array<std::uint64_t, Words>;
  static constexpr std::uint32_t limit = 1u << 16;

  std::uint32_t of(const key& k) {
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : k) mixed = (mixed << 7 | mixed >> 57) ^ word;
    recent& r = recent_[mixed * 0x9E3779B97F4A7C15u >> 56];  // Fibonacci hashing
    if (CUTRACE_LIKELY(r.number != 0 && r.is_of == k)) return r.number;
    const std::uint32_t number = numbers_.try_emplace(k, next_).first->second;
    if (number == next_) ++next_;
    r = {k, number};
    return number;
  }
  bool full() const noexcept { return next_ > limit; }
  void clear() {
    numbers_.clear();
    for (recent& r : recent_) r.number = 0;
    next_ = 1;
  }

 private:
  struct hash {
    std::size_t operator()(const key& k) const noexcept {
      std::uint64_t sum = 0;
      for (const std::uint64_t word : k) sum = detail::hash_number(sum ^ word);  // seeded: words may come from a file
      return static_cast<std::size_t>(sum);
    }
  };
  std::unordered_map<key, std::uint32_t, hash> numbers_;
  struct recent {
    key is_of{};
    std::uint32_t number = 0;
  };
  /// Without this cache an event of the Perfetto sink costs 95 ns instead of 75 (bench/sink_cost, no file).
  recent recent_[256];
  std::uint32_t next_ = 1;
};

/// Numbers for the names of slices.
class slice_names {
 public:
  std::uint32_t of(const event& e) { return numbers_.of(key_of(e)); }
  bool full() const noexcept { return numbers_.full(); }
  void clear() { numbers_.clear(); }

  static void render(std::string& out, const event& e) {
    std::string room;
    const std::string_view name = chrome_name(e, room);
    append_perfetto_text(out, name.empty() ? to_string(e.kind) : name);
  }

  /// Names are interned: equal addresses are equal texts. Other names are made of the fields in the key's second word.
  static number_table<2>::key key_of(const event& e) noexcept {
    const std::uint64_t kind = std::uint64_t{static_cast<std::uint8_t>(e.kind)} << 56;
    switch (e.kind) {
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
  number_table<2> numbers_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
