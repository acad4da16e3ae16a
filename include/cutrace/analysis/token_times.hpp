// SPDX-License-Identifier: Apache-2.0
// When a request of an inference server began and had its tokens, from marks that say so. For live metrics and for
// reports on files alike.
//
//   CUTRACE_MARK("request_begin", id);   optional: else a request begins with the first stage that names it
//   CUTRACE_MARK("first_token", id);     or simply the first "token"
//   CUTRACE_MARK("token", id);           without an id inside of a CUTRACE_STAGE_BATCH: one of each of its requests
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/config.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

inline bool is_request_begin(std::string_view mark) noexcept { return mark == "request_begin"; }
inline bool is_request_end(std::string_view mark) noexcept { return mark == "request_end"; }
inline bool is_token(std::string_view mark) noexcept { return mark == "token" || mark == "first_token"; }

/// One request: when it began, and when its tokens came. In ns of trace time.
struct token_times {
  std::int64_t begin_ns = INT64_MAX;
  std::int64_t ended_ns = INT64_MAX;  ///< its last mark of an end; INT64_MAX: it has none
  std::int64_t first_ns = 0, last_ns = 0;
  std::uint64_t tokens = 0;
  bool begin_marked = false;

  /// A stage that names the request began at `start_ns`.
  void stage(std::int64_t start_ns) noexcept {
    if (!begin_marked) begin_ns = std::min(begin_ns, start_ns);
  }
  /// The first of several marks counts: a front end and the engine behind it, or each rank, may have one.
  void begin(std::int64_t at_ns) noexcept {
    begin_ns = begin_marked ? std::min(begin_ns, at_ns) : at_ns;
    begin_marked = true;
  }
  void end(std::int64_t at_ns) noexcept { ended_ns = ended_ns == INT64_MAX ? at_ns : std::max(ended_ns, at_ns); }
  /// Whether a mark of a begin at `at_ns` is that of another request, which has the same id.
  bool is_over(std::int64_t at_ns) const noexcept { return at_ns > ended_ns; }
  /// ns since the token before; -1 for the first token, and for one that came late: the time around it was reported as
  /// one interval already.
  std::int64_t token(std::int64_t at_ns) noexcept {
    if (tokens++ == 0) {
      first_ns = last_ns = at_ns;
      return -1;
    }
    if (at_ns < last_ns) return -1;
    const std::int64_t gap_ns = elapsed(last_ns, at_ns);
    last_ns = at_ns;
    return gap_ns;
  }
  /// ns from the request's begin to its first token; -1 where there is no token, or where it seems to lie before the
  /// begin.
  std::int64_t to_first_ns() const noexcept {
    return tokens != 0 && begin_ns <= first_ns ? elapsed(begin_ns, first_ns) : -1;
  }

 private:
  static std::int64_t elapsed(std::int64_t from_ns, std::int64_t to_ns) noexcept {
    std::int64_t d = 0;
    return __builtin_sub_overflow(to_ns, from_ns, &d) ? INT64_MAX : d;
  }
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
