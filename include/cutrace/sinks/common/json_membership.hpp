// SPDX-License-Identifier: Apache-2.0
// The stage of an event and the requests it serves, as JSON fields. Calls and kernels of one stage come in crowds and
// have the same fields, so the text of recent stages is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// "stage", "stage_id" and what request_fields writes, without braces; may be empty. Valid until the next call.
  std::string_view fields(const event& e) { return find(e).json; }
  /// The same without "stage", for the stage's own event: its name stands elsewhere.
  std::string_view fields_of_stage(const event& e) {
    const rendered& r = find(e);
    return std::string_view(r.json).substr(r.behind_name);
  }

  /// "capture_stage" and "capture_stage_id" of a graph's work, without braces; may be empty. Valid until the next call.
  std::string_view capture(const event& e) {
    scratch_.clear();
    if (e.capture_stage_id == 0) return {};
    optional_field(scratch_, "capture_stage", e.capture_stage_name);
    scratch_.field("capture_stage_id", e.capture_stage_id);
    return scratch_.view();
  }

  /// `fields` and `capture`, into the open object.
  void write(json_text& json, const event& e) {
    for (const std::string_view text : {fields(e), capture(e)})
      if (!text.empty()) json.raw(text);
  }

  static void render(json_text& json, const event& e) {
    optional_field(json, "stage", e.stage_name);
    render_without_name(json, e);
  }

 private:
  struct rendered {
    std::uint64_t stage_id = 0;  ///< 0: the slot is empty
    text stage_name;
    std::uint32_t request_total = 0;
    std::vector<request_ref> requests;
    std::string json;
    std::size_t behind_name = 0;

    /// Names of stages are interned. Texts of requests are not, but the id of such a request is the hash of its text.
    bool is_of(const event& e) const noexcept {
      const auto same = [](text a, text b) { return a.data == b.data && a.size == b.size; };
      if (stage_id != e.stage_id || !same(stage_name, e.stage_name) || request_total != e.request_total ||
          requests.size() != e.request_count)
        return false;
      for (std::size_t i = 0; i < requests.size(); ++i)
        if (requests[i].id != e.requests[i].id || !same(requests[i].name, e.requests[i].name)) return false;
      return true;
    }
  };
  static constexpr std::size_t slots = 32;
  static constexpr std::uint32_t request_limit = 256;  // of one stage: all slots together stay below 400 KiB

  static void render_without_name(json_text& json, const event& e) {
    optional_field(json, "stage_id", e.stage_id);
    request_fields(json, e);
  }

  const rendered& find(const event& e) {
    if (e.stage_id == 0 || e.request_count > (e.requests != nullptr ? request_limit : 0)) return render_into(other_, e);
    rendered& r = stages_[(e.stage_id ^ e.stage_id >> 40) % slots];  // each thread counts ids up from its own start
    if (r.is_of(e)) return r;
    r.stage_id = 0;  // empty, should memory run out below
    render_into(r, e);
    r.requests.assign(e.requests, e.requests + e.request_count);
    r.stage_name = e.stage_name;
    r.request_total = e.request_total;
    r.stage_id = e.stage_id;
    return r;
  }
  const rendered& render_into(rendered& r, const event& e) {
    scratch_.clear();
    optional_field(scratch_, "stage", e.stage_name);
    const std::size_t name_end = scratch_.view().size();
    render_without_name(scratch_, e);
    r.json = scratch_.view();
    r.behind_name = name_end + (name_end != 0 && r.json.size() > name_end ? 1 : 0);  // and behind the comma
    return r;
  }

  rendered stages_[slots];
  rendered other_;
  json_text scratch_;
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
