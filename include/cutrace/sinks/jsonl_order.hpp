// SPDX-License-Identifier: Apache-2.0
// Puts lines that come roughly in order of time into order, within a bound of lines and of bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// A heap by (time, order of arrival). What leaves it is ordered as long as no line comes later than `limit` others
/// that belong behind it.
class paired_lines {
 public:
  explicit paired_lines(std::size_t limit) : limit_(limit) {}

  /// Takes a line and hands the earliest ones to `write(const std::string&)` until the bounds hold.
  template <class Write>
  void add(std::int64_t ts_ns, std::string_view text, Write write) {
    heap_.push_back(line{ts_ns, sequence_++, std::string(text)});
    bytes_ += text.size();
    std::push_heap(heap_.begin(), heap_.end(), later);
    while (heap_.size() > limit_ || bytes_ > byte_limit) pop(write);
  }

  template <class Write>
  void drain(Write write) {
    while (!heap_.empty()) pop(write);
  }

 private:
  struct line {
    std::int64_t ts_ns;
    std::uint64_t sequence;
    std::string text;
  };
  static constexpr std::size_t byte_limit = 8u << 20;

  static bool later(const line& a, const line& b) noexcept {
    return a.ts_ns != b.ts_ns ? a.ts_ns > b.ts_ns : a.sequence > b.sequence;
  }

  template <class Write>
  void pop(Write& write) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const line first = std::move(heap_.back());
    heap_.pop_back();
    bytes_ -= first.text.size();
    write(first.text);
  }

  std::vector<line> heap_;
  std::size_t limit_;
  std::size_t bytes_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
