// SPDX-License-Identifier: Apache-2.0
#include "trace/ordered_traces.hpp"

#include <algorithm>
#include <exception>
#include <queue>
#include <utility>

namespace cutrace_reading {

using cutrace::event;

namespace {

std::string text_of(const char* s) { return s != nullptr ? s : ""; }

}  // namespace

/// Takes the events of one reader for `deliver`: `write` waits until the batch has been taken, `close` until `release`.
class ordered_traces::source : public cutrace::sink {
 public:
  struct given_up {};

  source(std::mutex& lock, std::condition_variable& changed) : lock_(lock), changed_(changed) {}
  const char* name() const noexcept override { return "ordered"; }

  // The reader's thread.
  void open(const cutrace::trace_info& i) override {
    std::unique_lock<std::mutex> held(lock_);
    facts.process_id = i.process_id;
    facts.process_name = text_of(i.process_name);
    facts.command_line = text_of(i.command_line);
    facts.host_name = text_of(i.host_name);
    facts.boot_id = text_of(i.boot_id);
    facts.backend = text_of(i.backend);
    facts.backend_detail = text_of(i.backend_detail);
    facts.clock = text_of(i.clock);
    facts.rank = i.rank;
    facts.world_size = i.world_size;
    facts.start = i.start;
    opened = true;
    changed_.notify_all();
  }
  void write(cutrace::event_view events) override {
    if (events.size == 0) return;
    std::unique_lock<std::mutex> held(lock_);
    view = events;
    ready = true;
    changed_.notify_all();
    wait(held, [this] { return !ready; });
  }
  void close(const cutrace::trace_summary& s) override {
    std::unique_lock<std::mutex> held(lock_);
    totals.totals = s.totals;
    totals.stop = s.stop;
    totals.missing = text_of(s.missing);
    for (std::uint32_t n = 0; n < s.note_count; ++n) totals.notes.push_back(text_of(s.notes[n]));
    ended = true;
    changed_.notify_all();
    wait(held, [this] { return released; });
  }

  // Under the lock.
  trace_facts facts;
  trace_totals totals;
  cutrace::event_view view;
  outcome result;
  std::exception_ptr failure;
  bool opened = false, ready = false, ended = false, released = false, abandoned = false;

 private:
  template <class Done>
  void wait(std::unique_lock<std::mutex>& held, Done done) {
    changed_.wait(held, [&] { return done() || abandoned; });
    if (abandoned) throw given_up();
  }
  std::mutex& lock_;
  std::condition_variable& changed_;
};

ordered_traces::ordered_traces(const std::vector<std::string>& files) : files_(files) {
  for (std::size_t i = 0; i < files.size(); ++i) sources_.push_back(std::make_unique<source>(lock_, changed_));
}

ordered_traces::~ordered_traces() {
  {
    const std::lock_guard<std::mutex> held(lock_);
    for (auto& s : sources_) s->abandoned = !s->released;
    changed_.notify_all();
  }
  for (std::thread& t : threads_) t.join();
}

const trace_facts& ordered_traces::facts(std::size_t i) const { return sources_[i]->facts; }
const trace_totals& ordered_traces::totals(std::size_t i) const { return sources_[i]->totals; }

void ordered_traces::open() {
  for (std::size_t i = 0; i < files_.size(); ++i) threads_.emplace_back([this, i] { read_one(i); });
  std::unique_lock<std::mutex> held(lock_);
  changed_.wait(held, [&] {
    return std::all_of(sources_.begin(), sources_.end(), [](const auto& s) { return s->opened; }) ||
           std::any_of(sources_.begin(), sources_.end(), [](const auto& s) { return s->failure != nullptr; });
  });
  for (const auto& s : sources_)
    if (s->failure != nullptr) std::rethrow_exception(s->failure);
}

void ordered_traces::read_one(std::size_t i) {
  source& s = *sources_[i];
  try {
    outcome o = read({files_[i]}, s);
    const std::lock_guard<std::mutex> held(lock_);
    s.result = std::move(o);
  } catch (const source::given_up&) {
  } catch (...) {
    const std::lock_guard<std::mutex> held(lock_);
    s.failure = std::current_exception();
    changed_.notify_all();
  }
}

std::int64_t ordered_traces::deliver(const std::vector<clock_place>& places, cutrace::sink& to,
                                     const std::function<bool(std::size_t, event&)>& adjust) {
  constexpr std::size_t batch_limit = 2048;
  std::vector<event> batch;
  std::int64_t newest_of_all = 0;
  const auto flush = [&] {
    if (batch.empty()) return;
    to.write({batch.data(), batch.size()});
    batch.clear();
  };
  std::vector<std::size_t> at(sources_.size(), 0);
  std::vector<std::int64_t> newest(sources_.size(), INT64_MIN);
  using head = std::pair<std::int64_t, std::size_t>;  // end of the next event, its source
  std::priority_queue<head, std::vector<head>, std::greater<head>> heads;
  // Queues a source's next event by its end. Late events and descriptions keep the source's last end: they come next.
  const auto push = [&](std::size_t i) {
    {
      std::unique_lock<std::mutex> held(lock_);
      source& s = *sources_[i];
      changed_.wait(held, [&] { return s.ready || s.ended || s.failure != nullptr; });
      if (s.failure != nullptr) std::rethrow_exception(s.failure);
      if (!s.ready) return;
    }
    const event& e = sources_[i]->view.data[at[i]];
    if (!e.late && !e.is_description()) {
      std::int64_t end_ns = 0;
      if (__builtin_add_overflow(e.end_ns, places[i].offset_ns, &end_ns)) end_ns = newest[i];
      newest[i] = std::max(newest[i], end_ns);
    }
    heads.push({newest[i], i});
  };
  for (std::size_t i = 0; i < sources_.size(); ++i) push(i);
  while (!heads.empty()) {
    const std::size_t i = heads.top().second;
    heads.pop();
    source& s = *sources_[i];
    batch.push_back(s.view.data[at[i]]);
    shift_times(batch.back(), places[i].offset_ns);
    if (adjust(i, batch.back())) {
      newest_of_all = std::max(newest_of_all, batch.back().end_ns);
      if (batch.size() >= batch_limit) flush();
    } else {
      batch.pop_back();
    }
    if (++at[i] == s.view.size) {
      flush();  // the view, and arrays that its events refer to, are valid only until the reader goes on
      at[i] = 0;
      const std::lock_guard<std::mutex> held(lock_);
      s.ready = false;
      changed_.notify_all();
    }
    push(i);
  }
  flush();
  return newest_of_all;
}

std::vector<outcome> ordered_traces::release() {
  {
    const std::lock_guard<std::mutex> held(lock_);
    for (auto& s : sources_) s->released = true;
    changed_.notify_all();
  }
  for (std::thread& t : threads_) t.join();
  threads_.clear();
  std::vector<outcome> all;
  for (auto& s : sources_) all.push_back(std::move(s->result));
  return all;
}

void add_counts(cutrace::stats& sum, const cutrace::stats& more) {
  sum.produced += more.produced;
  sum.delivered += more.delivered;
  sum.pending += more.pending;
  const auto add = [](auto& sums, const auto& others) {
    for (std::size_t k = 0; k < sizeof(sums) / sizeof(sums[0]); ++k) sums[k] += others[k];
  };
  add(sum.lost, more.lost);
  add(sum.quality_of, more.quality_of);
  add(sum.unattributed_by, more.unattributed_by);
  add(sum.by_kind, more.by_kind);
  sum.memory_bytes += more.memory_bytes;
  sum.memory_limit_bytes += more.memory_limit_bytes;
  sum.gpu_records_seen += more.gpu_records_seen;
  sum.lacking += more.lacking;
  sum.collector_cpu_ns += more.collector_cpu_ns;
}

void close_at(cutrace::sink& to, const cutrace::clock_anchor& start, std::int64_t stop_ns, const cutrace::stats& totals,
              const std::vector<std::string>& notes, const std::string& missing) {
  cutrace::trace_summary summary{};
  if (!missing.empty()) summary.missing = missing.c_str();
  summary.totals = totals;
  summary.stop = start;
  summary.stop.trace_ns = stop_ns;
  const auto passed = static_cast<std::uint64_t>(stop_ns);
  summary.stop.realtime_ns += passed;
  if (start.monotonic_ns != 0) summary.stop.monotonic_ns += passed;
  if (start.boottime_ns != 0) summary.stop.boottime_ns += passed;
  std::vector<const char*> texts;
  for (const std::string& n : notes) texts.push_back(n.c_str());
  summary.notes = texts.data();
  summary.note_count = static_cast<std::uint32_t>(texts.size());
  to.close(summary);
}

}  // namespace cutrace_reading
