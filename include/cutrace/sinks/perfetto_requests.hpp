// SPDX-License-Identifier: Apache-2.0
// Sets of requests as interned texts of a Perfetto trace: "17, 18, chat-0007". The stages of one step, and the kernels
// in them, serve the same set, so it is written once. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/detail/text_buffer.hpp>
#include <cutrace/detail/text_digits.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/perfetto_names.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

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

}  // namespace detail
CUTRACE_END_NAMESPACE
