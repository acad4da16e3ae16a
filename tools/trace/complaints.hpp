// SPDX-License-Identifier: Apache-2.0
// What could not be read, counted: complaints of one kind are one entry, with the place of the first. Bounded, however
// broken a file is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cutrace_reading {

/// Nothing could be read; the text says of which file, and why.
class reading_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Where in a file: after decompression.
struct place {
  std::uint64_t byte = 0;
  std::uint64_t line = 0;  ///< from 1; 0: the format has no lines
};

struct complaint {
  std::string what;
  std::string file;
  place first;
  std::uint64_t count = 0;
};

class complaints {
 public:
  void in_file(std::string file) { file_ = std::move(file); }

  void add(std::string_view what, place at) {
    ++total_;
    for (complaint& c : kinds_) {
      if (c.what == what) return void(++c.count);
    }
    if (kinds_.size() < limit) kinds_.push_back({std::string(what), file_, at, 1});
  }

  std::uint64_t total() const noexcept { return total_; }
  /// In the order in which they first came.
  const std::vector<complaint>& kinds() const noexcept { return kinds_; }

 private:
  static constexpr std::size_t limit = 100;
  std::string file_;
  std::vector<complaint> kinds_;
  std::uint64_t total_ = 0;
};

/// "t.jsonl, line 7, byte 1234: ... (and 3 more)"
std::string sentence_of(const complaint& c);

}  // namespace cutrace_reading
