// SPDX-License-Identifier: Apache-2.0
// Which calls that probes saw are the same as calls that CUPTI saw: by the number that CUPTI's callback gave the
// probe while the call was open, never by time. CUPTI's numbers have 32 bits and wrap; a trace has the count of wraps
// in the upper half, and `add_probed` counts the wraps itself, in the order in which calls ended.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <memory>
#include <vector>

#include "trace/memory_budget.hpp"

namespace cutrace_reading {

struct join_counts {
  std::uint64_t both = 0, only_probes = 0, only_calls = 0;
};

class join_table {
 public:
  /// Upper half of the number of a call that probes alone saw, so that it is none of CUPTI's. Readers that
  /// keep JSON numbers as doubles still have it exactly.
  static constexpr std::uint64_t probe_epoch = std::uint64_t{1} << 20;

  /// A call that a probe saw, in the order of the trace; 0 as `parent` or `joined`: none.
  void add_probed(std::uint32_t id, std::uint32_t parent, std::uint32_t joined) {
    ++probed_;
    if (parent != 0) parents_.emplace(id, parent);
    if (joined != 0) slot(id) = number_of(joined);
  }
  /// CUPTI's number of a probed call; before `finish` also where CUPTI saw no such call. 0: none.
  std::uint64_t joined_to(std::uint32_t probed) const noexcept {
    const std::size_t page = probed / page_ids;
    return page < pages_.size() && pages_[page] != nullptr ? (*pages_[page])[probed % page_ids] : 0;
  }
  /// A call that CUPTI saw; after all calls of `add_probed`. @param id as in CUPTI's trace; 0: the file gives the call
  /// no number, and so it has no partner
  void add_call(std::uint64_t id) {
    if (id == 0) return void(++calls_);
    const auto found = marks_.try_emplace(key_of(id) / mark_ids);
    if (found.second) memory_.add(sizeof(marks));
    marks& m = found.first->second;
    ++calls_;
    m.seen.set(key_of(id) % mark_ids);
  }
  /// Joins. Call it once, after all calls were added and before the functions below.
  join_counts finish() {
    join_counts n;
    for (std::size_t p = 0; p < pages_.size(); ++p) {
      if (pages_[p] == nullptr) continue;
      for (std::uint64_t& number : *pages_[p])
        if (number != 0) take(number) ? void(++n.both) : void(number = 0);
    }
    n.only_probes = probed_ - n.both;
    n.only_calls = calls_ - n.both;
    for (const auto& [id, parent] : parents_)
      if (is_joined(id)) enclosing_[joined_to(id)] = number(parent);
    return n;
  }

  bool is_joined(std::uint32_t probed) const noexcept { return joined_to(probed) != 0; }
  /// A probed call's number in the joined trace. 0 stays 0.
  std::uint64_t number(std::uint32_t probed) const noexcept {
    if (probed == 0) return 0;
    const std::uint64_t joined = joined_to(probed);
    return joined != 0 ? joined : probe_epoch << 32 | probed;
  }
  /// Number of the innermost joined call among a probed call and those in which it was made; 0: there is none.
  std::uint64_t joined_around(std::uint32_t probed) const noexcept {
    for (std::size_t step = 0; probed != 0 && step < depth_limit; ++step) {
      if (const std::uint64_t joined = joined_to(probed)) return joined;
      const auto found = parents_.find(probed);
      probed = found != parents_.end() ? found->second : 0;
    }
    return 0;
  }
  /// Whether a probe saw CUPTI's call, too. True only for the first call asked about that has the number:
  /// CUPTI also gives it to calls that the driver makes inside of the call, and such inner calls have no partner.
  bool take_partner(std::uint64_t id) noexcept {
    const auto found = id != 0 ? marks_.find(key_of(id) / mark_ids) : marks_.end();
    if (found == marks_.end()) return false;
    marks& m = found->second;
    const std::size_t at = key_of(id) % mark_ids;
    if (!m.taken.test(at) || m.named.test(at)) return false;
    m.named.set(at);
    return true;
  }
  /// Number of the call in which CUPTI's call `id` was made, as probes saw it; 0: in none.
  std::uint64_t enclosing(std::uint64_t id) const noexcept {
    const auto found = enclosing_.find(key_of(id));
    return found != enclosing_.end() ? found->second : 0;
  }

 private:
  static constexpr std::size_t page_ids = 4096, mark_ids = 65536;
  static constexpr std::size_t depth_limit = 16;  ///< of calls in calls, which probes keep; a damaged file has circles
  struct marks {
    std::bitset<mark_ids> seen, taken, named;
  };

  /// A trace keeps 8 bits of the count of wraps.
  static std::uint64_t key_of(std::uint64_t id) noexcept { return id & 0xffffffffffu; }

  /// The one number with these lower 32 bits that is nearest to the newest one.
  std::uint64_t number_of(std::uint32_t joined) noexcept {
    const auto ahead = static_cast<std::int32_t>(joined - static_cast<std::uint32_t>(newest_));
    const std::uint64_t whole = newest_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
    if (ahead > 0) newest_ = whole;
    return key_of(whole);
  }

  std::uint64_t& slot(std::uint32_t id) {
    const std::size_t page = id / page_ids;
    if (page >= pages_.size()) pages_.resize(page + 1);
    if (pages_[page] == nullptr) {
      memory_.add(sizeof(*pages_[page]));
      pages_[page] = std::make_unique<std::array<std::uint64_t, page_ids>>();
    }
    return (*pages_[page])[id % page_ids];
  }

  /// Whether CUPTI saw the call of this number, and no other probed call took it before.
  bool take(std::uint64_t number) {
    const auto found = marks_.find(number / mark_ids);
    if (found == marks_.end()) return false;
    marks& m = found->second;
    const std::size_t at = number % mark_ids;
    if (!m.seen.test(at) || m.taken.test(at)) return false;
    m.taken.set(at);
    return true;
  }

  std::vector<std::unique_ptr<std::array<std::uint64_t, page_ids>>> pages_;  ///< CUPTI's number by the probe's
  cutrace::detail::seeded_map<std::uint64_t, marks> marks_;                  ///< by CUPTI's number / mark_ids
  cutrace::detail::seeded_map<std::uint32_t, std::uint32_t> parents_;        ///< of probed calls that have one
  cutrace::detail::seeded_map<std::uint64_t, std::uint64_t> enclosing_;
  counted_bytes memory_;  ///< of pages and marks, whose numbers a file may scatter
  std::uint64_t probed_ = 0, calls_ = 0, newest_ = 0;
};

}  // namespace cutrace_reading
