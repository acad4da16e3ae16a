// SPDX-License-Identifier: Apache-2.0
// The last step before the sinks: times of the raw frame become session time, stages and requests are looked up,
// arguments get their names. Late, so that what another thread told meanwhile is known. Collector's thread only.
#pragma once

#include <cutrace/detail/ingest.hpp>
#include <cutrace/detail/sink_set.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class delivery {
 public:
  delivery(ingest& from, const function_table& functions, const clock_correction& correction, sink_set& to)
      : from_(from), functions_(functions), correction_(correction), to_(to) {
    events_.reserve(slice);
  }

  void set_start(std::uint64_t monotonic_ns) noexcept { start_ns_ = monotonic_ns; }
  /// Raw time of the pass that delivers.
  void set_now(std::uint64_t raw_ns) noexcept { now_ns_ = static_cast<std::int64_t>(raw_ns); }
  std::uint64_t start_ns() const noexcept { return start_ns_; }

  /// Delivers a part of the window in slices, so that pointers into the scratch arrays stay valid in each.
  void deliver(order_window::bucket& b) {
    for (std::size_t at = 0; at < b.order.size();) {
      const std::size_t end = std::min(b.order.size(), at + slice);
      events_.clear();
      requests_.clear();
      requests_.reserve(slice);
      arguments_.clear();
      arguments_.reserve(slice * 10);
      for (; at < end; ++at) {
        // The window is larger than caches are, and its order is not that of memory.
        if (at + ahead < b.order.size()) prefetch(b.events[b.order[at + ahead].index]);
        events_.push_back(resolve(b.events[b.order[at].index], b.words));
      }
      to_.write(events_.data(), events_.size());
      delivered_ += events_.size();
    }
  }

  /// An event that is complete and does not wait for its turn.
  void deliver_now(const event& e) {
    to_.write(&e, 1);
    ++delivered_;
    ++by_kind_[static_cast<std::size_t>(e.kind)];
  }

  /// Session time of a time of the raw frame.
  std::int64_t session_ns(std::int64_t raw_ns) const noexcept {
    return static_cast<std::int64_t>(correction_.apply(static_cast<std::uint64_t>(raw_ns)) - start_ns_);
  }

  std::uint64_t delivered() const noexcept { return delivered_; }
  void fill(stats& s) const noexcept {
    s.delivered = delivered_;
    for (std::size_t i = 0; i < event_kind_count; ++i) s.by_kind[i] = by_kind_[i];
    for (std::size_t i = 0; i < 6; ++i) s.unattributed_by[i] = joined_[i];
    s.quality_of[static_cast<std::size_t>(quality::unattributed)] =
        joined_[static_cast<std::size_t>(attribution::no_callback)] +
        joined_[static_cast<std::size_t>(attribution::expired)];
    s.quality_of[static_cast<std::size_t>(quality::skew)] = skewed_;
    s.quality_of[static_cast<std::size_t>(quality::late)] = late_;
  }

 private:
  static constexpr std::size_t slice = 512;
  static constexpr std::size_t ahead = 6;  ///< events whose memory is asked for early

  static void prefetch(const pending_event& e) noexcept {
    const char* const from = reinterpret_cast<const char*>(&e);
    for (std::size_t at = 0; at < sizeof(e); at += 64) __builtin_prefetch(from + at, 1);
  }

  const event& resolve(pending_event& p, const std::vector<std::uint64_t>& words) {
    p.start_ns = session_ns(p.start_ns);
    p.end_ns = session_ns(p.end_ns);
    p.late = p.end_ns < newest_end_ns_;
    if (p.late)
      ++late_;
    else
      newest_end_ns_ = std::min(p.end_ns, session_ns(now_ns_));  // a time from the future makes nothing else late
    if (ingest::comes_from_call(p)) resolve_gpu(p);
    if (p.kind == event_kind::kernel && p.kernel.queued_ns != 0) p.kernel.queued_ns = session_ns(p.kernel.queued_ns);
    if (p.kind == event_kind::kernel && p.kernel.submitted_ns != 0)
      p.kernel.submitted_ns = session_ns(p.kernel.submitted_ns);
    if (p.kind == event_kind::api) resolve_arguments(p, words);
    if (p.kind == event_kind::system) resolve_described(p, words);
    if (p.kind == event_kind::stage)
      resolve_name(p);
    else if (p.stage_id != 0)
      resolve_stage(p);
    resolve_requests(p);
    ++by_kind_[static_cast<std::size_t>(p.kind)];
    return p;
  }

  /// Asked with the time of the launch in the raw frame: an update of the graph concerns later ones.
  void resolve_capture(pending_event& p) {
    const graph_table::capture* c = nullptr;
    switch (p.kind) {
      case event_kind::kernel:
        if (p.kernel.graph_node_id != 0) c = from_.graphs().find(p.kernel.graph_node_id, p.call_start_ns);
        break;
      case event_kind::memcpy:
        if (p.memcpy_.graph_node_id != 0) c = from_.graphs().find(p.memcpy_.graph_node_id, p.call_start_ns);
        break;
      case event_kind::memset:
        if (p.memset_.graph_node_id != 0) c = from_.graphs().find(p.memset_.graph_node_id, p.call_start_ns);
        break;
      case event_kind::graph_launch:
        c = from_.graphs().find_common(p.kernel.graph_id, p.call_start_ns);
        break;
      default:
        break;
    }
    if (c == nullptr) return;
    if (c->stage != captured_in_) {  // the table's copy of the name may go before the session does
      captured_in_ = c->stage;
      captured_name_ = from_.strings().intern(c->name.data(), c->name.size());
    }
    p.capture_stage_id = c->stage;
    p.capture_stage_name = captured_name_;
  }

  void resolve_gpu(pending_event& p) {
    if (!from_.graphs().empty()) resolve_capture(p);
    p.call_start_ns = session_ns(p.call_start_ns);
    if (p.thread_id == 0) p.thread_id = from_.thread_id_of(p.call_thread);  // its records may have come after the GPU's
    // Counted, not clipped: who reads the trace may decide what to make of it.
    const std::int64_t bound = static_cast<std::int64_t>(correction_.error_ns());
    if (p.joined <= attribution::outside_stage && p.is_gpu_work() && !p.by_events &&
        p.start_ns + bound < p.call_start_ns) {
      p.skewed = true;
      ++skewed_;
    }
    if (p.is_gpu_work() && p.joined != attribution::by_call) ++joined_[static_cast<std::size_t>(p.joined)];
  }

  void resolve_name(pending_event& p) {
    if (p.name.data == nullptr) {
      const known_stage* s = from_.stages().find(p.stage_id);
      p.name = s != nullptr ? s->name : ingest::name_lost;
    }
    p.stage_name = p.name;
  }

  void resolve_stage(pending_event& p) {
    const known_stage* s = from_.stages().find(p.stage_id);
    if (s == nullptr) {
      if (p.is_gpu_work()) {
        p.joined = attribution::stage_unknown;
        ++joined_[static_cast<std::size_t>(attribution::stage_unknown)];
      }
      return;
    }
    p.stage_name = s->name;
    if (p.form == request_form::none) {  // marks may bring their own
      p.form = s->form;
      p.request_word = s->word;
      p.request_owner = s->owner;
    }
  }

  void resolve_requests(pending_event& p) {
    if (p.form == request_form::none) return;
    if (p.form == request_form::id) {
      requests_.push_back({p.request_word, {}});
      p.requests = &requests_.back();
      p.request_count = p.request_total = 1;
      return;
    }
    const known_stage* owner = from_.stages().find(p.request_owner);
    if (owner == nullptr) {  // its record was lost: at least the number stays
      p.request_total = p.form == request_form::batch ? static_cast<std::uint32_t>(p.request_word) : 1;
      return;
    }
    p.requests = owner->requests.data();
    p.request_count = static_cast<std::uint32_t>(owner->requests.size());
    p.request_total = owner->total;
  }

  void resolve_arguments(pending_event& p, const std::vector<std::uint64_t>& words) {
    const known_function* f = functions_.find(p.api.function, p.api.runtime_api);
    const std::size_t first = arguments_.size();
    for (std::uint32_t i = 0; i < p.api.argument_count; ++i) {
      argument a;
      a.value = words[p.words_at + i];
      if (f != nullptr && i < f->parameters.size()) {
        const known_function::parameter& known = f->parameters[i];
        a.name = {known.name.data(), static_cast<std::uint32_t>(known.name.size())};
        a.kind = known.kind;
      }
      arguments_.push_back(a);
    }
    p.api.arguments = arguments_.data() + first;
  }

  void resolve_described(pending_event& p, const std::vector<std::uint64_t>& words) {
    const std::size_t first = arguments_.size();
    for (std::uint32_t i = 0; i < p.system.argument_count; ++i)
      arguments_.push_back(order_window::described(words.data() + p.words_at + 3 * i));
    p.system.arguments = arguments_.data() + first;
  }

  ingest& from_;
  const function_table& functions_;
  const clock_correction& correction_;
  sink_set& to_;
  std::uint64_t start_ns_ = 0;
  std::uint64_t captured_in_ = 0;  ///< stage of the capture that was asked for last
  text captured_name_;
  std::vector<event> events_;
  std::vector<request_ref> requests_;
  std::vector<argument> arguments_;
  std::int64_t newest_end_ns_ = INT64_MIN;
  std::int64_t now_ns_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t by_kind_[event_kind_count] = {};
  std::uint64_t joined_[6] = {};
  std::uint64_t skewed_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
