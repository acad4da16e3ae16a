// SPDX-License-Identifier: Apache-2.0
// Numbers that several processes gave out on their own, made different: the first process to use a number keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/names.hpp>

namespace cutrace_reading {

class id_space {
 public:
  /// @param step added to a number that another process uses, until the number is free
  /// @param limit new numbers stay below it where possible
  explicit id_space(std::uint64_t step, std::uint64_t limit = UINT64_MAX) : step_(step), limit_(limit) {}

  std::uint64_t of(std::size_t process, std::uint64_t id) {
    const auto found = known_[process].emplace(id, 0);
    if (found.second) {
      std::uint64_t out = id;
      // More tries than there are processes (merge_limit): then the next free number, whichever that is.
      for (int tries = 0; out >= limit_ || !used_.insert(out).second; ++tries)
        out = tries < most_tries && out < limit_ && limit_ - out > step_ ? out + step_ : ++spare_;
      found.first->second = out;
    }
    return found.first->second;
  }
  /// Gives `id` of `process` the number `out`. @returns false where `id` has another number already
  bool join(std::size_t process, std::uint64_t id, std::uint64_t out) {
    used_.insert(out);
    return known_[process].emplace(id, out).first->second == out;
  }

 private:
  static constexpr int most_tries = 600;
  std::uint64_t step_, limit_, spare_ = 0;
  cutrace::detail::seeded_map<std::size_t, cutrace::detail::seeded_map<std::uint64_t, std::uint64_t>> known_;
  cutrace::detail::seeded_set<std::uint64_t> used_;
};

}  // namespace cutrace_reading
