// SPDX-License-Identifier: Apache-2.0
// What tables by name are made of: names and their small numbers, and the order of rows. Equal text has one number,
// wherever it is stored; names beyond the bounds share number 0. And hash tables of what a trace names, with a seed
// that differs from process to process, so that nobody can write a file whose numbers or names all fall into one place.
#pragma once

#include <sys/auxv.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>
#include <deque>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// 16 random bytes that the kernel gives to each process (getauxval(3), AT_RANDOM).
struct hash_seed {
  std::uint64_t first = 0x243F6A8885A308D3u, second = 0x13198A2E03707344u;

  static const hash_seed& of_process() noexcept {
    static const hash_seed seed = [] {
      hash_seed s;
      if (const auto* const bytes = reinterpret_cast<const unsigned char*>(::getauxval(AT_RANDOM))) {
        std::memcpy(&s.first, bytes, sizeof(s.first));
        std::memcpy(&s.second, bytes + sizeof(s.first), sizeof(s.second));
      }
      s.second |= 1;
      return s;
    }();
    return seed;
  }
};

/// XOR of both halves of the product of 128 bits, as wyhash mixes.
inline std::uint64_t mix_words(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide_number = unsigned __int128;
  const wide_number product = static_cast<wide_number>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_number(std::uint64_t n) noexcept {
  const hash_seed& seed = hash_seed::of_process();
  return mix_words(n ^ seed.first, seed.second);
}
inline std::uint64_t hash_bytes(const char* at, std::size_t size) noexcept {
  const hash_seed& seed = hash_seed::of_process();
  std::uint64_t sum = seed.first ^ size, word = 0;
  for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
    std::memcpy(&word, at, sizeof(word));
    sum = mix_words(sum ^ word, seed.second) + seed.first;
  }
  if (size == 0) return sum ^ sum >> 32;
  word = 0;
  std::memcpy(&word, at, size);
  sum = mix_words(sum ^ word, seed.second) + seed.first;
  return sum ^ sum >> 32;
}

/// Hash of numbers and of texts.
struct seeded_hash {
  template <class Key>
  std::size_t operator()(const Key& key) const noexcept {
    if constexpr (std::is_integral_v<Key>)
      return static_cast<std::size_t>(hash_number(static_cast<std::uint64_t>(key)));
    else
      return static_cast<std::size_t>(hash_bytes(std::string_view(key).data(), std::string_view(key).size()));
  }
};

// The iteration order of these tables differs from process to process: no output may depend on it.
template <class Key, class Value>
using seeded_map = std::unordered_map<Key, Value, seeded_hash>;
template <class Key>
using seeded_set = std::unordered_set<Key, seeded_hash>;

}  // namespace detail

namespace analysis {

inline text text_of(std::string_view s) noexcept { return {s.data(), static_cast<std::uint32_t>(s.size())}; }

/// A counter of a GPU by its name, "GPU 3 SM clock MHz", which is all that files have of it.
struct gpu_counter {
  static constexpr std::string_view begin = "GPU ";
  std::uint32_t device = 0;
  std::string_view of;  ///< what follows the number, " SM clock MHz"; empty for other names

  static gpu_counter named(text name) noexcept {
    gpu_counter found;
    const std::string_view all(name.data, name.size);
    if (all.substr(0, begin.size()) != begin) return found;
    const char* const end = all.data() + all.size();
    const std::from_chars_result read = std::from_chars(all.data() + begin.size(), end, found.device);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == ' ')
      found.of = all.substr(static_cast<std::size_t>(read.ptr - all.data()));
    return found;
  }
};

class name_table {
 public:
  /// Number of every name that found no room.
  static constexpr std::uint32_t others = 0;
  /// Longest text kept of a name; the rest is dropped, names that agree up to here are one.
  static constexpr std::size_t longest = 1024;

  /// @param limit most names. @param bytes most bytes of their text. 0: no limit.
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
