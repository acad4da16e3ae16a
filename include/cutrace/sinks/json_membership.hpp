// SPDX-License-Identifier: Apache-2.0
// The stage of an event and the requests it serves, as JSON fields. Calls and kernels of one stage come in crowds and
// say the same, digit by digit: the text of the last few stages is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/json_event.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class membership_fields {
 public:
  /// "stage", "stage_id" and what request_fields writes, into the open object.
  void write(json_text& json, const event& e) {
    const std::uint32_t readable = e.requests != nullptr ? request_limit : 0;
    if (e.stage_id == 0 || e.request_count > readable) return render(json, e);
    kept& k = kept_[slot_of(e.stage_id)];
    if (!matches(k, e)) keep(k, e);
    json.raw(k.json);
  }

  static void render(json_text& json, const event& e) {
    optional_field(json, "stage", e.stage_name);
    optional_field(json, "stage_id", e.stage_id);
    request_fields(json, e);
  }

 private:
  struct kept {
    std::uint64_t stage_id = 0;
    text stage_name;
    std::uint32_t request_total = 0;
    std::vector<request_ref> requests;
    std::string json;
  };
  static constexpr std::size_t slots = 32;
  static constexpr std::uint32_t request_limit = 256;  // of one stage: all slots together stay below 400 KiB

  /// Instances count up from a start that each thread has of its own, in the upper bits.
  static std::size_t slot_of(std::uint64_t id) noexcept {
    return static_cast<std::size_t>(id + 11 * (id >> 40)) % slots;
  }

  /// Texts are interned: equal addresses are equal texts.
  static bool same(text a, text b) noexcept { return a.data == b.data && a.size == b.size; }
  static bool matches(const kept& k, const event& e) noexcept {
    if (k.stage_id != e.stage_id || !same(k.stage_name, e.stage_name) || k.request_total != e.request_total ||
        k.requests.size() != e.request_count)
      return false;
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (k.requests[i].id != e.requests[i].id || !same(k.requests[i].name, e.requests[i].name)) return false;
    }
    return true;
  }

  void keep(kept& k, const event& e) {
    k.stage_id = 0;  // matches nothing, should memory run out below
    scratch_.clear();
    render(scratch_, e);
    k.json = scratch_.view();
    k.requests.assign(e.requests, e.requests + e.request_count);
    k.stage_name = e.stage_name;
    k.request_total = e.request_total;
    k.stage_id = e.stage_id;
  }

  kept kept_[slots];
  json_text scratch_;
};

/// Everything but type, times and name, into an open object.
inline void event_fields(json_text& json, const event& e, membership_fields& stages) {
  json.field("pid", e.process_id);
  optional_field(json, "tid", e.thread_id);
  optional_field(json, "correlation", e.correlation_id);
  stages.write(json, e);
  kind_fields(json, e);
  flag(json, "late", e.late);
  flag(json, "skewed", e.skewed);
}

}  // namespace detail
CUTRACE_END_NAMESPACE
