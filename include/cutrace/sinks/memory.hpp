// SPDX-License-Identifier: Apache-2.0
// Keeps events in memory, for tests and for programs that look at their own trace. Everything an event points to is
// copied, so snapshots outlive the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event_fields.hpp>
#include <cutrace/sink.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

CUTRACE_BEGIN_NAMESPACE

class memory_sink : public sink {
 public:
  /// Beyond `limit_bytes` (events, texts, requests and arguments together) events are counted and not kept.
  explicit memory_sink(std::size_t limit_bytes = std::size_t{64} << 20) : limit_(limit_bytes) {}

  const char* name() const noexcept override { return "memory"; }

  void write(event_view events) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const event& e : events) {
      if (bytes_ + cost(e) > limit_) {
        ++not_kept_;
      } else {
        keep(e);
      }
    }
  }

  std::uint64_t left_out() const noexcept override { return not_kept(); }
  const char* left_out_because() const noexcept override { return "the memory sink's limit is reached"; }

  void close(const trace_summary& summary) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    totals_ = summary.totals;
    for (std::uint32_t i = 0; i < summary.note_count; ++i) notes_.emplace_back(summary.notes[i]);
    closed_ = true;
  }

  /// Copy of all events kept so far, in the order of delivery. Any thread. Texts and arrays that the events point to
  /// live as long as the sink.
  std::vector<event> events() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::vector<event>(events_.begin(), events_.end());
  }
  /// Events beyond the limit. Any thread.
  std::uint64_t not_kept() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return not_kept_;
  }
  /// Bytes held, an estimate that never exceeds the limit. Any thread.
  std::size_t bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }
  bool closed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_;
  }
  /// Totals and notes of the session, zero and empty before the sink was closed.
  stats totals() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return totals_;
  }
  std::vector<std::string> notes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return notes_;
  }

 private:
  static constexpr std::size_t text_overhead = 64;  // node of the set and block of the string

  std::size_t text_cost(text t) const {
    return t.size == 0 || texts_.count(std::string(t.data, t.size)) != 0 ? 0 : t.size + text_overhead;
  }
  /// Upper bound of what `keep` takes: texts that occur twice in one event count twice here.
  std::size_t cost(const event& e) const {
    std::size_t n = sizeof(event) + text_cost(e.name) + text_cost(e.stage_name) + text_cost(e.capture_stage_name) +
                    text_cost(e.more);
    n += e.request_count * sizeof(request_ref);
    for (std::uint32_t i = 0; i < e.request_count; ++i) n += text_cost(e.requests[i].name);
    if (e.kind == event_kind::other) n += text_cost(e.other.type);
    const auto add = [&](const auto& field) {
      using field_type = std::decay_t<decltype(field)>;
      const auto& v = field.of(e);
      if constexpr (field_type::form == field_form::text) n += text_cost(v);
      if constexpr (field_type::form == field_form::arguments) n += arguments_cost(v.arguments, v.argument_count);
    };
    with_fields(e.kind, [&](const auto&... field) { (add(field), ...); });
    return n;
  }
  std::size_t arguments_cost(const argument* arguments, std::uint32_t count) const {
    std::size_t n = count * sizeof(argument);
    for (std::uint32_t i = 0; i < count; ++i) {
      n += text_cost(arguments[i].name);
      if (arguments[i].kind == argument_kind::string) n += std::strlen(arguments[i].string_value()) + text_overhead;
    }
    return n;
  }

  void keep(const event& from) {
    event e = from;
    e.name = own(e.name);
    e.stage_name = own(e.stage_name);
    e.call_name = own(e.call_name);
    e.capture_stage_name = own(e.capture_stage_name);
    e.more = own(e.more);
    if (e.kind == event_kind::other) e.other.type = own(e.other.type);
    e.requests = own_array(requests_, e.requests, e.request_count);
    const auto keep_field = [&](const auto& field) {
      using field_type = std::decay_t<decltype(field)>;
      auto& v = field.of(e);
      if constexpr (field_type::form == field_form::text) v = own(v);
      if constexpr (field_type::form == field_form::arguments)
        v.arguments = own_arguments(v.arguments, v.argument_count);
    };
    with_fields(e.kind, [&](const auto&... field) { (keep_field(field), ...); });
    events_.push_back(e);
    bytes_ += sizeof(event);
  }

  /// One copy of each distinct text; nodes of the set do not move.
  text own(text t) {
    text copy;
    if (t.size == 0) return copy;
    const auto at = texts_.emplace(t.data, t.size);
    if (at.second) bytes_ += t.size + text_overhead;
    copy.data = at.first->c_str();
    copy.size = t.size;
    return copy;
  }

  const argument* own_arguments(const argument* from, std::uint32_t n) {
    const argument* const kept = own_array(arguments_, from, n);
    for (std::uint32_t i = 0; kept != nullptr && i < n; ++i) {
      argument& a = arguments_.back()[i];
      if (a.kind != argument_kind::string) continue;
      const char* const s = a.string_value();
      a.value = argument::word_of(own({s, static_cast<std::uint32_t>(std::strlen(s))}).data);
    }
    return kept;
  }

  template <class T>
  const T* own_array(std::deque<std::unique_ptr<T[]>>& store, const T* from, std::uint32_t n) {
    if (from == nullptr || n == 0) return nullptr;
    store.emplace_back(new T[n]);
    T* to = store.back().get();
    for (std::uint32_t i = 0; i < n; ++i) {
      to[i] = from[i];
      to[i].name = own(from[i].name);
    }
    bytes_ += n * sizeof(T);
    return to;
  }

  mutable std::mutex mutex_;
  std::size_t limit_;
  std::size_t bytes_ = 0;
  std::uint64_t not_kept_ = 0;
  bool closed_ = false;
  std::deque<event> events_;
  std::unordered_set<std::string> texts_;
  std::deque<std::unique_ptr<request_ref[]>> requests_;
  std::deque<std::unique_ptr<argument[]>> arguments_;
  stats totals_{};
  std::vector<std::string> notes_;
};

CUTRACE_END_NAMESPACE
