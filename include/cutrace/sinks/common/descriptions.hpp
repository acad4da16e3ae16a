// SPDX-License-Identifier: Apache-2.0
// Descriptions of processes, threads, devices, contexts and streams, kept in a sink's own form, so that each part of a
// trace can repeat them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <deque>
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

  /// Keeps the form of `e`, which is a description; a later one of the same thing takes its place. Where there are too
  /// many, a new one takes the place of the thread that came first, since a program may start threads without end.
  void add(const event& e, Form form) {
    const key of = key_of(e);
    const auto known = places_.find(of);
    if (known != places_.end()) {
      kept_[known->second] = std::move(form);
      return;
    }
    std::size_t place = kept_.size();
    if (place < limit) {
      kept_.push_back(std::move(form));
    } else {
      if (threads_.empty()) return;
      place = threads_.front().second;
      places_.erase(threads_.front().first);
      threads_.pop_front();
      kept_[place] = std::move(form);
    }
    places_.emplace(of, place);
    // The first ones are those of the program's own beginning, which may live as long as it does.
    if (e.kind == event_kind::thread && place >= lasting) threads_.emplace_back(of, place);
  }

  /// In the order in which they first came, but for those that took the place of a thread.
  const std::vector<Form>& all() const noexcept { return kept_; }

 private:
  static constexpr std::size_t limit = 4096, lasting = 256;
  using key = std::tuple<event_kind, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>;
  static key key_of(const event& e) { return key(e.kind, e.process_id, e.thread_id, e.device, e.context, e.stream); }

  std::map<key, std::size_t> places_;
  std::deque<std::pair<key, std::size_t>> threads_;  ///< whose places may be taken, with them
  std::vector<Form> kept_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
