// SPDX-License-Identifier: Apache-2.0
// One thing to fix: what is wrong, what it costs, where, and the events that prove it. Plain data; its sentences are
// made where text is made (sinks/common/finding_text.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

enum class finding_kind : std::uint8_t {
  transfers_dominate,
  pageable_copies,
  blocking_copies,
  synchronisation,
  launch_bound,
  allocation,
  host_bound,
  single_stream,
  unused_overlap,
  low_bandwidth,
  losses,
};
constexpr std::size_t finding_kind_count = 11;

/// Short and stable, for machines.
inline const char* name_of(finding_kind k) noexcept {
  constexpr const char* names[] = {"transfers_dominate", "pageable_copies", "blocking_copies", "synchronisation",
                                   "launch_bound",       "allocation",      "host_bound",      "single_stream",
                                   "unused_overlap",     "low_bandwidth",   "losses"};
  return names[static_cast<std::size_t>(k)];
}

/// An event, by what distinguishes it from all others: when it was, and on which stream or thread.
struct evidence {
  enum class kind : std::uint8_t { gap, call, work };
  kind is = kind::gap;
  interval when;
  std::uint32_t device = 0;       ///< gaps and work
  std::uint64_t stream = 0;       ///< work
  std::uint32_t thread_id = 0;    ///< calls, and of work its call's
  std::uint32_t correlation = 0;  ///< of calls, and of work where its call was seen; 0 not known
  std::string name;               ///< of the call or kernel; of a gap the work that ended it
};

/// What another thread, or a span, did during a gap.
struct gap_company {
  std::string stage;
  std::uint32_t thread_id = 0;  ///< 0: a span, which is no thread's
  std::int64_t ns = 0;          ///< of the gap
};

struct finding {
  static constexpr std::size_t proofs = 4, companions = 3;
  finding_kind is = finding_kind::losses;
  std::int64_t cost_ns = 0;  ///< wall time that it takes now
  std::int64_t win_ns = 0;   ///< of that, what a fix can win; how it is estimated stands with each rule
  std::uint64_t count = 0;   ///< gaps, copies, kernels or lost records
  std::uint64_t bytes = 0;   ///< of copies
  double bytes_per_s = 0, peak_bytes_per_s = 0;
  std::uint64_t typical_ns = 0;        ///< launch_bound: the median kernel
  bool small_ones = false;             ///< low_bandwidth: most of the time went to small copies
  std::uint32_t device = 0;            ///< on which it costs most
  std::string stage, call, kernel;     ///< where; empty: not known, or not in one
  std::string site;                    ///< of that stage's marker in the source, "server.cpp:120"
  std::size_t places = 1;              ///< different stages and calls; the fields above are the worst of them
  std::uint32_t thread_id = 0;         ///< host_bound: which launched after the longest gap
  std::string next_stage;              ///< host_bound: in which it launched then
  std::vector<gap_company> meanwhile;  ///< host_bound: what others did in the longest gap, most time first
  std::vector<evidence> proof;         ///< the longest, at most `proofs`
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
