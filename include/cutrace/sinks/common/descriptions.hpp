// SPDX-License-Identifier: Apache-2.0
// Descriptions of processes, threads, devices, contexts and streams, kept in a sink's own form, so that each part of a
// trace can repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// `Form`: a description as the sink keeps it, such as a line of text or an event.
template <class Form>
class kept_descriptions {
 public:
  static bool wanted(const event& e) noexcept {
    return e.kind == event_kind::process || e.kind == event_kind::thread || e.kind == event_kind::device ||
           e.kind == event_kind::context || e.kind == event_kind::stream;
  }

  /// Keeps the form of `e`, which is a description; a later one of the same thing takes its place.
  void add(const event& e, Form form) {
    const auto known = places_.find(key_of(e));
    if (known != places_.end()) {
      kept_[known->second] = std::move(form);
    } else if (kept_.size() < limit) {
      places_.emplace(key_of(e), kept_.size());
      kept_.push_back(std::move(form));
    }
  }

  /// In the order in which they first came.
  const std::vector<Form>& all() const noexcept { return kept_; }

 private:
  static constexpr std::size_t limit = 4096;
  using key = std::tuple<event_kind, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>;
  static key key_of(const event& e) { return key(e.kind, e.process_id, e.thread_id, e.device, e.context, e.stream); }

  std::map<key, std::size_t> places_;
  std::vector<Form> kept_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
