// SPDX-License-Identifier: Apache-2.0
// What tables by name are made of: names and their small numbers, and the order of rows. Equal text has one number,
// wherever it is stored; names beyond the bounds share number 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/base/seeded_hash.hpp>
#include <cutrace/event.hpp>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

class name_table {
 public:
  /// Number of every name that found no room.
  static constexpr std::uint32_t others = 0;
  /// Longest text kept of a name; the rest is dropped, names that agree up to here are one.
  static constexpr std::size_t longest = 1024;

  /// @param limit names, `bytes` of text; 0: no limit.
  explicit name_table(std::size_t limit = 0, std::size_t bytes = 0, std::string_view others_name = "(other names)")
      : limit_(limit), bytes_left_(bytes == 0 ? SIZE_MAX : bytes) {
    names_.emplace_back(others_name);
  }
  name_table(const name_table&) = delete;
  name_table& operator=(const name_table&) = delete;

  /// Number of `name`, a new one at first sight. Numbers start at 1 and have no holes.
  std::uint32_t number(text name) {
    const std::string_view key(name.data, name.size < longest ? name.size : longest);
    // Names come interned: the same one has the same address, and comparing it is cheaper than hashing it.
    recent& r = recent_[(reinterpret_cast<std::uintptr_t>(name.data) >> 4) % recent_count];
    if (r.data == name.data && names_[r.number] == key) return r.number;
    const std::uint32_t n = find_or_add(key);
    if (n != others) r = {name.data, n};
    return n;
  }

  const std::string& name(std::uint32_t number) const { return names_[number]; }
  /// Names with a number, `others` included.
  std::size_t size() const noexcept { return names_.size(); }
  /// Calls of `number` that ended in `others`.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  CUTRACE_NOINLINE std::uint32_t find_or_add(std::string_view key) {
    const auto found = numbers_.find(key);
    if (found != numbers_.end()) return found->second;
    if ((limit_ != 0 && names_.size() > limit_) || key.size() > bytes_left_) {
      ++refused_;
      return others;
    }
    bytes_left_ -= key.size();
    names_.emplace_back(key);  // a deque never moves its elements, so the map's keys may point into it
    const std::uint32_t n = static_cast<std::uint32_t>(names_.size() - 1);
    numbers_.emplace(names_.back(), n);
    return n;
  }

  struct recent {
    const char* data = nullptr;
    std::uint32_t number = 0;
  };
  static constexpr std::size_t recent_count = 256;

  std::size_t limit_;
  std::size_t bytes_left_;
  std::deque<std::string> names_;
  detail::seeded_map<std::string_view, std::uint32_t> numbers_;
  recent recent_[recent_count];
  std::uint64_t refused_ = 0;
};

// The order of a table's rows, largest first. Sorting small keys in one place, instead of the rows of each table, keeps
// rows with names where they are and compiles one sort.

/// Row `index` and the two numbers that place it.
struct ranked {
  std::int64_t first = 0;
  std::int64_t second = 0;
  std::uint32_t index = 0;
};

/// Largest `first` in front, then largest `second`, then smallest index.
CUTRACE_NOINLINE inline void rank(std::vector<ranked>& rows) {
  std::sort(rows.begin(), rows.end(), [](const ranked& a, const ranked& b) {
    if (a.first != b.first) return a.first > b.first;
    return a.second != b.second ? a.second > b.second : a.index < b.index;
  });
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
