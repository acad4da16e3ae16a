// SPDX-License-Identifier: Apache-2.0
// Requests of the event that is read: ids and names, in the feed's arrays. Consecutive events mostly serve the same
// requests, which then share one array, as sinks expect. Requests of an event beyond `limit` are only counted.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>
#include <string_view>
#include <vector>

#include "trace/feed.hpp"

namespace cutrace_reading {

class request_list {
 public:
  /// More than a marker records of the requests of one stage (request_limit in marker/stage_write.hpp).
  static constexpr std::size_t limit = 4096;

  explicit request_list(feed& to) : to_(to) {}
  void clear() noexcept {
    now_.clear();
    left_out_ = 0;
  }
  void add(std::uint64_t id) {
    if (is_full()) return;
    cutrace::request_ref r;
    r.id = id;
    now_.push_back(r);
  }
  void add(std::string_view name) {
    if (is_full()) return;
    cutrace::request_ref r;
    r.id = hash(name);
    r.name = to_.texts().intern(name);
    now_.push_back(r);
  }
  std::size_t size() const noexcept { return now_.size(); }
  const std::vector<cutrace::request_ref>& all() const noexcept { return now_; }
  /// Number of requests beyond `limit`, which were not added.
  std::uint64_t left_out() const noexcept { return left_out_; }

  /// The requests added since `clear`; valid until the batch is delivered. nullptr: none.
  const cutrace::request_ref* finish() {
    if (now_.empty()) return nullptr;
    if (batch_ != to_.batch() || !same()) {
      cutrace::request_ref* const copy = to_.requests(now_.size());
      for (std::size_t i = 0; i < now_.size(); ++i) copy[i] = now_[i];
      last_ = copy;
      last_size_ = now_.size();
      batch_ = to_.batch();
    }
    return last_;
  }

  /// Replaces the list by `all`. @returns what `finish` returns then
  const cutrace::request_ref* place(const cutrace::request_ref* all, std::size_t count) {
    now_.assign(all, all + count);
    return finish();
  }

  /// FNV-1a, as markers make the id of a request from its name (hash_text in marker/record.hpp).
  static std::uint64_t hash(std::string_view s) noexcept {
    std::uint64_t h = 14695981039346656037u;
    for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return h;
  }

 private:
  bool is_full() noexcept {
    if (now_.size() < limit) return false;
    ++left_out_;
    return true;
  }
  bool same() const noexcept {
    if (last_size_ != now_.size()) return false;
    for (std::size_t i = 0; i < last_size_; ++i)
      if (last_[i].id != now_[i].id || last_[i].name.data != now_[i].name.data) return false;
    return true;
  }
  feed& to_;
  std::vector<cutrace::request_ref> now_;
  const cutrace::request_ref* last_ = nullptr;
  std::size_t last_size_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint64_t batch_ = 0;
};

}  // namespace cutrace_reading
