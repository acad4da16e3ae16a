// SPDX-License-Identifier: Apache-2.0
// Numbers that several processes gave out on their own, made different: the first process to use a number keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/names.hpp>

namespace cutrace_reading {

class id_space {
 public:
  /// @param step what is added to a number that another process has, until it is free; `limit`: below it, where it can
  /// be
  explicit id_space(std::uint64_t step, std::uint64_t limit = UINT64_MAX) : step_(step), limit_(limit) {}

  std::uint64_t of(std::size_t process, std::uint64_t id) {
    const auto found = known_[process].emplace(id, 0);
    if (found.second) {
      std::uint64_t out = id;
      // More tries than processes: who has so many numbers gets the next one that is free, whichever that is.
      for (int tries = 0; out >= limit_ || !used_.insert(out).second; ++tries)
        out = tries < most_tries && out < limit_ && limit_ - out > step_ ? out + step_ : ++spare_;
      found.first->second = out;
    }
    return found.first->second;
  }
  /// As if `process` had been given `out`; false where it has another number already.
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
