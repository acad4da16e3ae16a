// SPDX-License-Identifier: Apache-2.0
// One packet sequence of a Perfetto trace: packets that share a clock of deltas (a time is the distance from the packet
// before), a default track and the numbers that stand for names. Each lane of a thread and each stream has a sequence,
// so that packets stay small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <cutrace/sinks/perfetto/names.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Sets of requests as interned texts of a Perfetto trace: "17, 18, chat-0007". A name that could be read as something
// else stands in quotes, with a backslash before those of its own and before backslashes. The stages of one step, and
// the kernels in them, serve the same set, so it is written once. One thread at a time.

class request_sets {
 public:
  struct entry {
    std::uint32_t number = 0;  ///< 0: no set stands here
    std::uint32_t total = 0;
    std::vector<request_ref> requests;

    bool is_of(const event& e) const noexcept {
      const auto same = [](const request_ref& a, const request_ref& b) {
        return a.id == b.id && a.name.data == b.name.data && a.name.size == b.name.size;
      };
      return number != 0 && total == e.request_total &&
             std::equal(requests.begin(), requests.end(), e.requests, e.requests + e.request_count, same);
    }
  };

  /// Forgets all numbers.
  void clear() noexcept {
    for (entry& e : entries_) e.number = 0;
    next_ = 1;
  }
  bool full() const noexcept { return next_ > number_limit; }

  /// Whether the event has a single request without a name, which is written as a number, not as text.
  static bool is_plain(const event& e) noexcept { return e.request_count == 1 && e.requests[0].name.size == 0; }
  static bool has(const event& e) noexcept { return e.request_count != 0 && e.requests != nullptr; }

  /// Of an event that has requests. Valid until the next call.
  const entry& of(const event& e) {
    std::uint64_t mixed = e.request_total;
    for (std::uint32_t i = 0; i < e.request_count; ++i) mixed = (mixed ^ e.requests[i].id) * 0x9E3779B97F4A7C15u;
    entry& found = entries_[mixed >> 56];
    if (found.is_of(e)) return found;
    found.number = 0;  // no set, should memory run out in the next line
    found.requests.assign(e.requests, e.requests + e.request_count);
    found.total = e.request_total;
    found.number = next_++;
    return found;
  }

  /// The text of a set, with at most `shown_limit` requests.
  static std::string text_of(const entry& set) {
    std::string text;
    std::size_t shown = 0;
    for (const request_ref& r : set.requests) {
      if (shown == shown_limit || text.size() > perfetto_text_limit) break;
      if (shown++ != 0) text += ", ";
      if (r.name.size == 0)
        text += std::to_string(r.id);
      else
        append_name(text, view_of(r.name));
    }
    const std::size_t all = std::max<std::size_t>(set.total, set.requests.size());
    if (all > shown) text += " and " + std::to_string(all - shown) + " more";
    return text;
  }

 private:
  static void append_name(std::string& text, std::string_view name) {
    constexpr std::string_view end = " more";  // as of "17 and 3 more"
    std::string shown;
    append_perfetto_text(shown, name);
    const bool is_clear = !shown.empty() && shown.front() != '"' && shown.find(", ") == std::string::npos &&
                          shown.find_first_not_of("0123456789") != std::string::npos &&
                          (shown.size() < end.size() || shown.compare(shown.size() - end.size(), end.size(), end) != 0);
    if (is_clear) {
      text += shown;
      return;
    }
    text += '"';
    for (const char c : shown) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += '"';
  }

  static constexpr std::size_t shown_limit = 1024;
  static constexpr std::uint32_t number_limit = 1u << 16;

  entry entries_[256];
  std::uint32_t next_ = 1;
};

/// The numbers whose meaning a sequence has written.
class known_numbers {
 public:
  /// True once for each number.
  bool first(std::uint32_t number) {
    if (number >= known_.size()) known_.resize(number + 1);
    const bool is_first = !known_[number];
    known_[number] = true;
    return is_first;
  }
  void clear() noexcept { known_.clear(); }

 private:
  std::vector<bool> known_;
};

/// Session time as nanoseconds of CLOCK_MONOTONIC, which is the clock of the trace. Clamped to what readers hold:
/// int64, from 0.
class trace_clock {
 public:
  trace_clock() = default;
  trace_clock(std::uint64_t monotonic_ns, std::int64_t trace_ns) noexcept
      : offset_ns_(static_cast<std::int64_t>(monotonic_ns - static_cast<std::uint64_t>(trace_ns))) {}

  std::uint64_t of(std::int64_t trace_ns) const noexcept {
    std::int64_t ns = 0;
    if (__builtin_add_overflow(trace_ns, offset_ns_, &ns)) return trace_ns < 0 ? 0 : INT64_MAX;
    return ns < 0 ? 0 : static_cast<std::uint64_t>(ns);
  }
  /// Of session time 0: where the clocks of sequences begin.
  std::uint64_t origin() const noexcept { return of(0); }

 private:
  std::int64_t offset_ns_ = 0;
};

/// Offset of an opened packet's content: behind its tag and its length.
constexpr std::size_t packet_at = 2;

struct perfetto_sequence {
  std::uint32_t id = 0;
  std::uint32_t generation = 0;  ///< of the numbers that it uses; 0: not begun
  std::uint64_t track = 0;       ///< default track, 0: none
  std::uint64_t last_ns = 0;     ///< where its clock of deltas stands
  known_numbers names, texts, kernels;
  std::vector<std::uint32_t> contexts;  ///< CUDA contexts that the sequence has described

  /// The clock of deltas takes steps up to this: after one time from far in the future, all packets would be earlier
  /// than the clock and need absolute times.
  static constexpr std::uint64_t longest_step_ns = std::uint64_t{1} << 42;  // 73 minutes
  static constexpr std::size_t head_room = 5 * number_field_room;

  /// Opens a packet, whose content begins at `to` + packet_at, and puts the number of the sequence and the time.
  char* put_head(char* to, bool needs_state, const trace_clock& clock, std::int64_t trace_ns) noexcept {
    to = put_number<pf::packet::sequence_id>(open_message<pf::trace_packet>(to), id);
    if (needs_state) to = put_number<pf::packet::sequence_flags>(to, pf::packet::needs_state);
    const std::uint64_t ns = clock.of(trace_ns), origin_ns = clock.origin();
    if (ns >= last_ns && ns - last_ns < longest_step_ns) {
      to = put_number<pf::packet::timestamp>(to, ns - last_ns);
      last_ns = ns;
      return to;
    }
    // A packet earlier than the one before it (a stage is written after what happened in it), or far later, has an
    // absolute clock, which needs more bytes.
    const bool in_session = ns >= origin_ns;
    to = put_number<pf::packet::timestamp>(to, in_session ? ns - origin_ns : ns);
    return put_number<pf::packet::timestamp_clock_id>(to, in_session ? pf::clocks::of_session : pf::clocks::monotonic);
  }
};

}  // namespace detail
CUTRACE_END_NAMESPACE
