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
  std::uint32_t device = 0;       ///< of gaps and work
  std::uint64_t stream = 0;       ///< of work
  std::uint32_t thread_id = 0;    ///< of calls; of work, the thread of its launching call
  std::uint32_t correlation = 0;  ///< of calls, and of work whose launching call was seen; 0: not known
  std::string name;               ///< of the call or kernel; of a gap the work that ended it
};

/// What another thread, or a span, did during a gap.
struct gap_company {
  std::string stage;
  std::uint32_t thread_id = 0;  ///< 0: a span, which belongs to no thread
  std::int64_t ns = 0;          ///< time inside the gap
};

struct finding {
  static constexpr std::size_t proofs = 4, companions = 3;
  finding_kind is = finding_kind::losses;
  std::int64_t cost_ns = 0;  ///< wall time that the problem takes now
  std::int64_t win_ns = 0;   ///< part of cost_ns that a fix can win; each rule states how it is estimated
  std::uint64_t count = 0;   ///< gaps, copies, kernels or lost records
  std::uint64_t bytes = 0;   ///< of copies
  double bytes_per_s = 0, peak_bytes_per_s = 0;
  std::uint64_t typical_ns = 0;        ///< launch_bound: median duration of the kernels
  bool small_ones = false;             ///< low_bandwidth: most of the time went to small copies
  std::uint32_t device = 0;            ///< device on which the problem costs most
  std::string stage, call, kernel;     ///< where it costs most; empty: not known, or in none
  std::string site;                    ///< of that stage's marker in the source, "server.cpp:120"
  std::size_t places = 1;              ///< different stages and calls; the fields above describe the worst
  std::uint32_t thread_id = 0;         ///< host_bound: thread that launched after the longest gap
  std::string next_stage;              ///< host_bound: stage in which that thread launched
  std::vector<gap_company> meanwhile;  ///< host_bound: what others did in the longest gap, most time first
  std::vector<evidence> proof;         ///< the longest, at most `proofs`
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
