// SPDX-License-Identifier: Apache-2.0
// One packet sequence of a Perfetto trace: the rows of a viewer that share a clock of deltas, a default track and the
// numbers that stand for names. Each lane of a thread and each stream has its own, so that packets stay small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <cutrace/sinks/perfetto/names.hpp>
#include <cutrace/sinks/perfetto/wire.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// Sets of requests as interned texts of a Perfetto trace: "17, 18, chat-0007". The stages of one step, and the kernels
// in them, serve the same set, so it is written once. One thread at a time.

class request_sets {
 public:
  struct entry {
    std::uint32_t number = 0;
    std::uint32_t total = 0;
    std::vector<request_ref> requests;
    std::string text;  ///< rendered, if it was and is short
  };

  /// The set that a sequence has used last.
  struct used {
    const request_ref* at = nullptr;
    std::uint32_t count = 0, total = 0;
    std::uint32_t number = 0;   ///< as that sequence was told it
    std::uint64_t version = 0;  ///< of the sets: 0 matches nothing
  };
  CUTRACE_INLINE bool is_used(const used& u, const event& e) const noexcept {
    return u.at == e.requests && u.version == version_ && u.count == e.request_count && u.total == e.request_total;
  }
  used use(const event& e, std::uint32_t number) const noexcept {
    return {e.requests, e.request_count, e.request_total, number, version_};
  }

  /// Requests at one address are one set until the next call.
  void begin_write() noexcept {
    ++writes_;
    ++version_;
  }
  /// The numbers are forgotten.
  void clear() noexcept {
    for (entry& e : kept_) e.number = 0;
    for (recent& r : recent_) r.write = 0;  // matches nothing
    ++version_;
    next_ = 1;
  }
  bool full() const noexcept { return next_ > number_limit; }

  /// A single number needs no text.
  static bool is_plain(const event& e) noexcept { return e.request_count == 1 && e.requests[0].name.size == 0; }
  static bool has(const event& e) noexcept { return e.request_count != 0 && e.requests != nullptr; }

  /// Of an event that has requests. Valid until the next call.
  CUTRACE_INLINE const entry& of(const event& e) {
    recent& r = recent_[reinterpret_cast<std::uintptr_t>(e.requests) / sizeof(request_ref) % recent_size];
    if (CUTRACE_LIKELY(r.at == e.requests && r.write == writes_ && r.number == r.set->number &&
                       r.set->requests.size() == e.request_count && r.set->total == e.request_total)) {
      return *r.set;
    }
    // What stood there when it was last written is what most often stands there now.
    const bool is_same = r.at == e.requests && r.number == r.set->number && same(*r.set, e);
    entry& found = is_same ? *r.set : find(e);
    r = recent{e.requests, writes_, &found, found.number};
    return found;
  }

  /// At most `shown_limit` of them. `set` is what `of` returned; valid until the next call of either.
  std::string_view text_of(const entry& set) {
    if (CUTRACE_LIKELY(!set.text.empty())) return set.text;  // another sequence has asked
    render(set);
    const std::string_view text = rendered_.view();
    if (text.size() <= text_limit) kept_[static_cast<std::size_t>(&set - kept_)].text = text;
    return text;
  }

 private:
  void render(const entry& of) {
    rendered_.clear();
    std::size_t shown = 0;
    for (const request_ref& r : of.requests) {
      if (shown == shown_limit || rendered_.size() > perfetto_text_limit) break;
      char* to = rendered_.room(2 + decimal_room);
      if (shown++ != 0) to = put_literal(to, ", ");
      if (r.name.size == 0) to = put_decimal(to, r.id);
      rendered_.commit(to);
      if (r.name.size != 0) {
        name_.clear();
        append_perfetto_text(name_, view_of(r.name));
        rendered_.append(name_);
      }
    }
    const std::size_t all = of.total > of.requests.size() ? of.total : of.requests.size();
    if (all > shown) rendered_.append(" and " + std::to_string(all - shown) + " more");
  }

  struct recent {
    const request_ref* at = nullptr;
    std::uint64_t write = 0;
    entry* set = nullptr;
    std::uint32_t number = 0;
  };
  static constexpr std::size_t recent_size = 64;
  static constexpr std::size_t slots = 256;
  static constexpr std::size_t shown_limit = 1024;
  static constexpr std::size_t text_limit = 512;  // so all texts that are kept stay below 128 KiB
  static constexpr std::uint32_t number_limit = 1u << 16;

  CUTRACE_ONE_COPY entry& find(const event& e) {
    std::uint64_t mixed = e.request_total;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      mixed = (mixed ^ e.requests[i].id) * 0x9E3779B97F4A7C15u;
    }
    entry& k = kept_[mixed >> 56];
    if (k.number == 0 || !same(k, e)) {
      k.number = 0;  // matches nothing, should memory run out in the next line
      ++version_;
      k.text.clear();
      k.requests.assign(e.requests, e.requests + e.request_count);
      k.total = e.request_total;
      k.number = next_++;
    }
    return k;
  }
  static bool same(const entry& k, const event& e) noexcept {
    if (k.total != e.request_total || k.requests.size() != e.request_count) return false;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      const request_ref &a = k.requests[i], &b = e.requests[i];
      if (a.id != b.id || a.name.data != b.name.data || a.name.size != b.name.size) return false;
    }
    return true;
  }

  entry kept_[slots];
  text_buffer rendered_;
  std::string name_;
  recent recent_[recent_size];
  std::uint64_t writes_ = 1;
  std::uint64_t version_ = 1;  ///< rises when a set may have another number than before
  std::uint32_t next_ = 1;
};

/// Which numbers a sequence has told the meaning of.
class told_numbers {
 public:
  /// True once for each number.
  CUTRACE_INLINE bool first(std::uint32_t number) {
    if (CUTRACE_LIKELY(number < limit_ && (words_.data()[number / 64] >> number % 64 & 1) != 0)) return false;
    add(number);
    return true;
  }
  void clear() noexcept {
    words_.clear();
    limit_ = 0;
  }

 private:
  CUTRACE_ONE_COPY void add(std::uint32_t number) {
    const std::size_t word = number / 64;
    if (word >= words_.size()) words_.resize(word + 1);
    words_[word] |= std::uint64_t{1} << number % 64;
    limit_ = 64 * words_.size();
  }
  std::vector<std::uint64_t> words_;
  std::uint64_t limit_ = 0;  ///< numbers below it have a word; its size would have to be computed
};

/// Session time as nanoseconds of CLOCK_MONOTONIC, which is the clock of the trace. Clamped to what readers hold:
/// int64, from 0.
class trace_clock {
 public:
  trace_clock() = default;
  trace_clock(std::uint64_t monotonic_ns, std::int64_t trace_ns) noexcept
      : offset_ns_(monotonic_ns - static_cast<std::uint64_t>(trace_ns)),
        limit_ns_(is_behind() ? beyond_ns + offset_ns_ : beyond_ns) {}

  CUTRACE_INLINE std::uint64_t of(std::int64_t trace_ns) const noexcept {
    std::uint64_t ns = 0;
    return CUTRACE_LIKELY(is_held(trace_ns, ns)) ? ns : clamped(trace_ns);
  }
  /// Is it a time that needs no clamping? `ns` is that time then. One comparison: a sum that is negative, or too large,
  /// wraps around to `limit_ns_` or more.
  CUTRACE_INLINE bool is_held(std::int64_t trace_ns, std::uint64_t& ns) const noexcept {
    ns = static_cast<std::uint64_t>(trace_ns) + offset_ns_;
    return ns < limit_ns_;
  }
  /// Of session time 0: where the clocks of sequences begin.
  std::uint64_t origin() const noexcept { return of(0); }

 private:
  static constexpr std::uint64_t beyond_ns = std::uint64_t{1} << 63;

  /// Is the offset, an int64, negative?
  bool is_behind() const noexcept { return offset_ns_ >= beyond_ns; }
  CUTRACE_NOINLINE std::uint64_t clamped(std::int64_t trace_ns) const noexcept {
    return trace_ns < 0 || is_behind() ? 0 : beyond_ns - 1;
  }

  std::uint64_t offset_ns_ = 0;
  std::uint64_t limit_ns_ = beyond_ns;
};

/// What the packets of a sequence begin with: its number, flags if there are any, and the tag of the time.
class packet_head {
 public:
  /// Where an opened packet stands: behind its tag and its length.
  static constexpr std::size_t packet_at = 2;

  void set(std::uint32_t sequence, std::uint32_t flags) noexcept {
    char* to = put_number<pf::packet::sequence_id>(open_message<pf::trace_packet>(text_), sequence);
    if (flags != 0) to = put_number<pf::packet::sequence_flags>(to, flags);
    to = put_tag<pf::packet::timestamp, protozero::pbf_wire_type::varint>(to);
    size_ = static_cast<std::uint8_t>(to - text_);
  }
  CUTRACE_INLINE char* put(char* to) const noexcept {
    std::memcpy(to, text_, sizeof(text_));
    return to + size_;
  }

 private:
  char text_[16] = {};  ///< at most 11
  std::uint8_t size_ = 0;
};

struct perfetto_sequence {
  std::uint32_t id = 0;
  std::uint32_t generation = 0;  ///< of the numbers that it uses; 0: not begun
  std::uint64_t track = 0;       ///< default track, 0: none
  std::uint64_t last_ns = 0;     ///< where its clock of deltas stands
  packet_head head, needing_state;
  told_numbers names, texts, kernels;
  request_sets::used requests;
  std::vector<std::uint32_t> contexts;  ///< of the GPU that it has told of

  /// The clock of deltas takes steps up to this; one time from far in the future must not make all others late.
  static constexpr std::uint64_t longest_step_ns = std::uint64_t{1} << 42;  // 73 minutes
  static constexpr std::size_t head_room = 5 * number_field_room;

  /// Opens a packet, at packet_head::packet_at of `to`, and puts its time. `with`: head or needing_state.
  CUTRACE_INLINE char* put_head(char* to, const packet_head& with, const trace_clock& clock,
                                std::int64_t trace_ns) noexcept {
    to = with.put(to);
    std::uint64_t ns = 0;
    if (CUTRACE_LIKELY(clock.is_held(trace_ns, ns) && ns - last_ns < longest_step_ns)) return put_step(to, ns);
    return put_far_time(to, clock, trace_ns);
  }

 private:
  CUTRACE_INLINE char* put_step(char* to, std::uint64_t ns) noexcept {
    const std::uint64_t step = ns - last_ns;
    last_ns = ns;
    return put_time(to, step);
  }
  /// What lies before the packet before it (a stage, which is written after what happened in it) is told by a clock
  /// that needs more bytes, but no order.
  CUTRACE_ONE_COPY char* put_far_time(char* to, const trace_clock& clock, std::int64_t trace_ns) noexcept {
    const std::uint64_t ns = clock.of(trace_ns), origin_ns = clock.origin();
    if (ns - last_ns < longest_step_ns) return put_step(to, ns);
    const bool in_session = ns >= origin_ns;
    to = put_varint(to, in_session ? ns - origin_ns : ns);
    return put_number<pf::packet::timestamp_clock_id>(to, in_session ? pf::clocks::of_session : pf::clocks::monotonic);
  }
};

}  // namespace detail
CUTRACE_END_NAMESPACE
