// SPDX-License-Identifier: Apache-2.0
// The stage of an event and the requests it serves, as JSON fields. Calls and kernels of one stage come in crowds and
// say the same, digit by digit: the text of the last few stages is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/base/recent_slot.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/sinks/common/json_event.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class membership_fields {
 public:
  /// Called before the events of one sink::write. Requests at one address are one set until it returns, so they need
  /// not be compared again; without this call they always are.
  void begin_write() noexcept { ++writes_; }

  /// "stage", "stage_id" and what request_fields writes, without braces; may be empty. Valid until the next call.
  std::string_view fields(const event& e) { return find(e).json; }
  /// The same without "stage": what a stage says of itself, whose name stands elsewhere.
  std::string_view own_fields(const event& e) {
    const kept& k = find(e);
    return std::string_view(k.json).substr(k.own_at);
  }

  /// "capture_stage" and "capture_stage_id" of a graph's work, without braces; may be empty. Valid until the next call.
  std::string_view capture(const event& e) {
    if (e.capture_stage_id == 0) return {};
    if (e.capture_stage_id != captured_in_) {
      scratch_.clear();
      optional_field(scratch_, "capture_stage", e.capture_stage_name);
      scratch_.field("capture_stage_id", e.capture_stage_id);
      capture_ = scratch_.view();
      captured_in_ = e.capture_stage_id;
    }
    return capture_;
  }

  /// `fields` and `capture`, into the open object.
  void write(json_text& json, const event& e) {
    for (const std::string_view text : {fields(e), capture(e)})
      if (!text.empty()) json.raw(text);
  }

  static void render(json_text& json, const event& e) {
    optional_field(json, "stage", e.stage_name);
    render_own(json, e);
  }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  struct kept {
    std::uint64_t stage_id = 0;
    text stage_name;
    std::uint32_t request_total = 0, request_count = 0;
    std::vector<request_ref> requests;
    std::string json;
    std::size_t own_at = 0;
    const request_ref* compared = nullptr;  ///< where equal requests lay
    std::uint64_t compared_in = never;      ///< and in which write
  };
  struct kept_set {
    std::vector<std::uint64_t> ids;
    std::uint32_t total = 0;
    std::string json;

    bool is_of(const event& e) const noexcept {
      if (ids.size() != e.request_count || total != e.request_total) return false;
      bool same = true;
      for (std::size_t i = 0; i < ids.size(); ++i)
        same = same && ids[i] == e.requests[i].id && e.requests[i].name.size == 0;
      return same;
    }
  };
  static constexpr std::size_t set_slots = 16;
  static constexpr std::uint32_t set_limit = 64;  // ids of one: all slots together stay below 32 KiB
  static constexpr std::size_t slots = 32;
  static constexpr std::uint32_t request_limit = 256;  // of one stage: all slots together stay below 400 KiB

  static void render_own(json_text& json, const event& e) {
    optional_field(json, "stage_id", e.stage_id);
    request_fields(json, e);
  }

  /// Instances count up from a start that each thread has of its own, in the upper bits.
  static std::size_t slot_of(std::uint64_t id) noexcept {
    return static_cast<std::size_t>(id + 11 * (id >> 40)) % slots;
  }

  CUTRACE_INLINE const kept& find(const event& e) {
    kept& k = kept_[slot_of(e.stage_id)];
    if (CUTRACE_LIKELY(k.compared == e.requests && k.compared_in == writes_ && has_form(k, e))) return k;
    return compare(k, e);
  }
  CUTRACE_ONE_COPY const kept& compare(kept& k, const event& e) {
    const std::uint32_t readable = e.requests != nullptr ? request_limit : 0;
    if (CUTRACE_UNLIKELY(e.stage_id == 0 || e.request_count > readable)) return render_into(unkept_, e);
    if (!matches(k, e)) keep(k, e);
    k.compared = e.requests;
    k.compared_in = writes_ != 0 ? writes_ : never;
    return k;
  }

  /// Names of stages are interned. Texts of requests are not, but beside them stands their hash, which is the id.
  static bool has_form(const kept& k, const event& e) noexcept {
    return k.stage_id == e.stage_id && is_same_interned(k.stage_name, e.stage_name) &&
           k.request_total == e.request_total && k.request_count == e.request_count;
  }
  static bool matches(const kept& k, const event& e) noexcept {
    if (!has_form(k, e)) return false;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (k.requests[i].id != e.requests[i].id || !is_same_interned(k.requests[i].name, e.requests[i].name))
        return false;
    }
    return true;
  }

  const kept& render_into(kept& k, const event& e) {
    const std::string_view requests = requests_of(e);
    text_.clear();
    char* const begin = text_.room(escaped_room(e.stage_name.size) + requests.size() + decimal_room + 32);
    char* to = begin;
    if (e.stage_name.size != 0) to = put_string(put_literal(to, "\"stage\":"), view_of(e.stage_name));
    k.own_at = static_cast<std::size_t>(to - begin);
    const bool more = e.stage_id != 0 || !requests.empty();
    if (more && to != begin) {
      *to++ = ',';
      ++k.own_at;
    }
    if (e.stage_id != 0) to = put_decimal(put_literal(to, "\"stage_id\":"), e.stage_id);
    if (e.stage_id != 0 && !requests.empty()) *to++ = ',';
    to = put_text(to, requests);
    k.json.assign(begin, static_cast<std::size_t>(to - begin));
    return k;
  }

  /// What request_fields writes. All stages of one step serve one set: sets of numbers are kept.
  std::string_view requests_of(const event& e) {
    if (e.requests == nullptr || e.request_count == 0) return {};
    kept_set& k = sets_[e.requests[0].id % set_slots];
    if (k.is_of(e)) return k.json;
    scratch_.clear();
    request_fields(scratch_, e);
    if (e.request_count > set_limit) return scratch_.view();
    k.ids.clear();  // matches nothing, should memory run out below
    for (std::uint32_t i = 0; i < e.request_count; ++i)
      if (e.requests[i].name.size != 0) return scratch_.view();
    k.json = scratch_.view();
    k.total = e.request_total;
    for (std::uint32_t i = 0; i < e.request_count; ++i) k.ids.push_back(e.requests[i].id);
    return k.json;
  }

  void keep(kept& k, const event& e) {
    k.stage_id = 0;  // matches nothing, should memory run out below
    k.compared_in = never;
    render_into(k, e);
    k.requests.assign(e.requests, e.requests + e.request_count);
    k.stage_name = e.stage_name;
    k.request_total = e.request_total;
    k.request_count = e.request_count;
    k.stage_id = e.stage_id;
  }

  kept kept_[slots];
  kept unkept_;
  kept_set sets_[set_slots];
  text_buffer text_;
  json_text scratch_;
  std::string capture_;  ///< of the stage that was asked for last
  std::uint64_t captured_in_ = 0;
  std::uint64_t writes_ = 0;
};

/// Everything but type, times and name, into an open object.
inline void event_fields(json_text& json, const event& e, membership_fields& stages) {
  write_fields(json, e, host_fields);
  stages.write(json, e);
  kind_fields(json, e);
  write_fields(json, e, quality_fields);
  if (CUTRACE_UNLIKELY(e.more.size != 0)) json.raw(view_of(e.more));
}

}  // namespace detail
CUTRACE_END_NAMESPACE
