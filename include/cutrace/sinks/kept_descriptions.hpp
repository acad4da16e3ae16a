// SPDX-License-Identifier: Apache-2.0
// Lines that describe processes, threads, devices, contexts and streams, so that each part of a trace can repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class kept_descriptions {
 public:
  static bool wanted(const event& e) noexcept {
    return e.kind == event_kind::process || e.kind == event_kind::thread || e.kind == event_kind::device ||
           e.kind == event_kind::context || e.kind == event_kind::stream;
  }

  /// Keeps `text`, of `lines` lines, if it is a description; a later one of the same thing takes its place.
  void add(const event& e, std::string_view text, std::uint64_t lines) {
    if (!wanted(e)) return;
    const auto known = places_.find(key_of(e));
    if (known != places_.end()) {
      kept_[known->second] = {std::string(text), lines};
    } else if (kept_.size() < limit) {
      places_.emplace(key_of(e), kept_.size());
      kept_.push_back({std::string(text), lines});
    }
  }

  /// Each, in the order in which they first came, to `write(const std::string& text, std::uint64_t lines)`.
  template <class Write>
  void each(Write write) const {
    for (const entry& k : kept_) write(k.text, k.lines);
  }

 private:
  struct entry {
    std::string text;
    std::uint64_t lines;
  };
  static constexpr std::size_t limit = 4096;
  using key = std::tuple<event_kind, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>;
  static key key_of(const event& e) { return key(e.kind, e.process_id, e.thread_id, e.device, e.context, e.stream); }

  std::map<key, std::size_t> places_;
  std::vector<entry> kept_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
