// SPDX-License-Identifier: Apache-2.0
// The calls on each stream, in the order in which they were issued, and how many of them are known to be done. This is
// needed only when something hangs or has faulted, so calls are noted as they come, and put in order later.
//
// The order is that of correlation ids, which count up through the process. A stream works in order, so whatever stands
// before something that is done is done. A call that leaves no GPU record (waits, host functions, recorded events,
// written values) is done when a later call on its stream is done, or when a wait of the host that covers it has
// succeeded. A stream's wait for an event is also done when all before that event is done. Times are of the raw frame
// (clock.hpp). Collector's thread only.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cutrace/collect/function_table.hpp>
#include <cutrace/collect/memory_blocks.hpp>
#include <cutrace/collect/watch/unfinished_work.hpp>
#include <cutrace/event.hpp>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// A call that put something on a stream.
struct issued_call {
  using role = stream_use::role;
  static constexpr std::uint32_t no_stream = ~std::uint32_t{0};

  std::uint32_t correlation = 0;
  std::uint32_t stream = no_stream;  ///< index in stream_order
  std::uint32_t thread = 0;          ///< index of the thread
  std::uint16_t function = 0;
  role what = role::none;
  bool succeeded : 1;
  bool holds_stage : 1;  ///< see stage_table::hold
  bool waits : 1;        ///< see stream_use
  std::uint64_t stage = 0;
  std::int64_t begin_ns = 0;  ///< raw frame
  std::uint64_t handle = 0;   ///< the event; wait_value: the address
  std::uint64_t value = 0;    ///< wait_value: awaited value; wait_event: id of the event's record call
  std::uint32_t stage_place = 0;
  std::uint32_t flags = 0;  ///< wait_value, stream_created: flags; event_wait, event_gone, context_wait: the context
  std::uint32_t awaited = no_stream;  ///< wait_event: the stream on which the event was recorded
  std::uint32_t awaited_use = 0;      ///< which one, see known_stream::use

  issued_call() noexcept : succeeded(true), holds_stage(false), waits(false) {}
  bool leaves_record() const noexcept { return what == role::work || what == role::graph; }
  /// Whether the call holds up nothing itself: it is done as soon as all before it on its stream is.
  bool follows_at_once() const noexcept { return what == role::event_record || what == role::write_value; }
};

static_assert(sizeof(issued_call) == 64, "one cache line");

/// One stream of a context, from its first call until nothing of it is left.
struct known_stream {
  std::uint64_t handle = 0;               ///< 1: the legacy default stream, 2: a thread's default stream
  std::uint32_t context = 0, thread = 0;  ///< `thread`: of a thread's default stream
  bool identified = false;                ///< device, gpu_context and id are known
  std::uint32_t device = 0, gpu_context = 0;
  std::uint64_t id = 0;  ///< CUPTI's, as in events
  bool legacy = false;
  bool blocking = true;       ///< this stream and the legacy stream wait for each other
  bool gone = false;          ///< destroyed
  bool free = false;          ///< destroyed, and no calls left: the place is free
  std::uint32_t use = 0;      ///< counts the streams that had this place
  std::uint32_t capture = 0;  ///< number of the capture that it is part of, 0: none
  std::uint32_t asked = 0;    ///< calls whose records would identify it
  std::int64_t asked_ns = 0;  ///< when the last of these calls was noted
  fifo<issued_call> calls;    ///< not known to be done, in order
  std::uint64_t more = 0;     ///< number of calls behind `calls`, beyond the limit
  std::uint32_t proved = 0;   ///< all with lower ids are done, by a wait of the host
  bool any_proved = false;
  std::uint32_t proved_thread = 0;  ///< that waited, or recorded the event; its own earlier calls had returned by then
  std::int64_t proved_ns = 0;       ///< when that wait was read, raw frame
  std::int64_t progress_ns = 0;     ///< when work or a wait last ended, as far as was seen, or came; raw frame
  bool suspected = false;           ///< of hanging: set by work_watch::is_suspicious, cleared by work_watch::of_hang
  std::uint32_t alarmed = 0;        ///< correlation id of the head that was reported last, 0: none
  /// When a flush last lost the times of unfinished work, 0: never; raw frame. From then until later ends are seen, the
  /// stream may take as long as the bound of the watchdog, and as long again for each such piece of work.
  std::int64_t patient_since_ns = 0;

  /// Whether one of `calls` does.
  bool leaves_records() const noexcept {
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (calls[i].leaves_record()) return true;
    return false;
  }
};

/// What a GPU was last seen to finish on a stream.
struct finished_work {
  bool any = false;
  bool old = false;  ///< so many calls ago that `correlation` cannot be compared with a new one
  std::uint32_t correlation = 0;
  std::int64_t end_ns = 0;  ///< raw frame
  text name{};
  event_kind kind = event_kind::kernel;
  std::uint32_t device = 0;
  std::uint64_t graph_node_id = 0;
};

/// Calls that leave GPU records, and whose first record has not come: a slot for each of the newest ids, and a list of
/// the older ones.
class calls_without_record {
 public:
  /// What is beyond `bytes` is forgotten. Before the first call.
  void set_limit(std::size_t bytes) {
    std::size_t slots = 64;
    while (2 * slots * (sizeof(slot) + node_bytes / 4) <= bytes) slots *= 2;
    slots_.assign(slots, {});
  }
  void made(std::uint32_t id) {
    slot& s = slot_of(id);
    if (s.id == id) return;  // its record came first
    if (is_before(id, s.id) && s.id != 0) return keep(id);
    if (s.waits) keep(s.id);
    s = {id, true};
  }
  void came(std::uint32_t id) {
    slot& s = slot_of(id);
    if (s.id == id) {
      s.waits = false;
    } else if (is_before(id, s.id) && s.id != 0) {
      if (CUTRACE_UNLIKELY(!older_.empty())) older_.erase(id);
    } else {
      if (s.waits) keep(s.id);
      s = {id, false};
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (const std::uint32_t id : older_) visit(id);
    for (const slot& s : slots_)
      if (s.waits) visit(s.id);
  }
  std::size_t bytes() const noexcept { return slots_.size() * sizeof(slot) + older_.size() * node_bytes; }

 private:
  struct slot {
    std::uint32_t id = 0;
    bool waits = false;
  };
  static constexpr std::size_t node_bytes = 48;
  slot& slot_of(std::uint32_t id) noexcept { return slots_[id & (slots_.size() - 1)]; }
  CUTRACE_NOINLINE void keep(std::uint32_t id) {
    if (older_.size() < slots_.size() / 4) older_.insert(id);
  }

  std::vector<slot> slots_ = std::vector<slot>(64);
  std::unordered_set<std::uint32_t> older_;
};

class stream_order {
 public:
  using role = stream_use::role;

  /// `limit_bytes`: for calls that are not known to be done; beyond it, a stream that has such calls only counts
  /// further ones. Calls without a record may take as much again. Before the first call.
  void set_limit(std::size_t limit_bytes) {
    limit_ = limit_bytes / sizeof(issued_call);
    without_record_.set_limit(limit_bytes);
  }
  /// Raw frame.
  void set_now(std::int64_t now_ns) noexcept { now_ns_ = now_ns; }

  /// A call has returned: the caller fills it in where it stays, and then calls `take`; nothing in between may throw.
  /// (A copy of what was just written in smaller pieces waits for the processor's store buffer.)
  issued_call& add() {
    log_.emplace_back();
    return log_.back();
  }
  /// Takes the call that was added last. `handle`: of its stream, as the program gave it.
  void take(std::uint64_t handle, std::uint32_t context, bool per_thread) {
    issued_call& c = log_.back();
    bool stays = false;
    try {
      stays = find_its_stream(c, handle, context, per_thread);
    } catch (...) {
      log_.pop_back();
      throw;
    }
    if (!stays) return log_.pop_back();
    if (CUTRACE_UNLIKELY(c.correlation - newest_ >= comparable / 2)) take_leap(c);
    in_order_ = in_order_ && (log_.size() == 1 || is_before((&c)[-1].correlation, c.correlation));
    if (log_.size() >= log_limit) settle();  // which goes over all streams
  }

  /// A GPU record with its times came, or the record of a wait.
  CUTRACE_INLINE void ended(const event& e) {
    if (CUTRACE_UNLIKELY(!awaited_.empty())) identify(e);
    if (!e.is_gpu_work()) return;
    finished_names_.set(place_of_name(e.name));
    newest_end_ns_ = std::max(newest_end_ns_, e.end_ns);
    const std::uint32_t id = static_cast<std::uint32_t>(e.correlation_id);
    without_record_.came(id);
    if (CUTRACE_UNLIKELY(is_old(id))) return;
    finished_work& f = finished(e.context, e.stream);
    if (!f.any || f.old || !is_before(id, f.correlation)) f.correlation = id;
    f.old = false;
    if (!f.any || e.end_ns >= f.end_ns) {
      f.end_ns = e.end_ns;
      f.name = e.name;
      f.kind = e.kind;
      f.device = e.device;
      f.graph_node_id = e.kind == event_kind::kernel ? e.kernel.graph_node_id : 0;
    }
    f.any = true;
  }
  /// A GPU record without times came: it identifies its stream.
  void unfinished(const event& e) {
    without_record_.came(static_cast<std::uint32_t>(e.correlation_id));
    if (!awaited_.empty()) identify(e);
  }
  const calls_without_record& without_record() const noexcept { return without_record_; }
  /// All records of calls before `upto` have been handed over: a call that leaves records is done, with all before it,
  /// unless it is in `unfinished_ids` (sorted: ids of work whose record had no times) or stands behind one that is.
  void all_recorded(std::uint32_t upto, const std::vector<std::uint32_t>& unfinished_ids) {
    settle();
    for (known_stream& s : streams_) {
      std::size_t n = 0;
      for (std::size_t i = 0; i < s.calls.size() && is_before(s.calls[i].correlation, upto); ++i) {
        if (!s.calls[i].leaves_record()) continue;
        // What stands behind it and has no record is of a kind that is not traced, or of 0 bytes.
        if (std::binary_search(unfinished_ids.begin(), unfinished_ids.end(), s.calls[i].correlation)) break;
        n = i + 1;
      }
      drop(s, n);
    }
    settle();
  }

  /// Calls `release(place, stage)` for the stages of calls with `holds_stage` that are of no interest any more.
  template <class Release>
  void take_released(Release release) {
    for (const held_stage& h : released_) release(h.place, h.stage);
    released_.clear();
  }

  /// Puts the noted calls in order, and forgets calls that are done.
  void settle() {
    if (!in_order_)
      std::stable_sort(log_.begin(), log_.end(), [](const issued_call& a, const issued_call& b) {
        return is_before(a.correlation, b.correlation);
      });
    in_order_ = true;
    for (issued_call& c : log_) {
      if (!place(c)) let_go(c);
      c.what = role::none;  // should memory run out at a later one
    }
    log_.clear();
    if (newest_ - aged_ >= comparable / 2) forget_old();
    for (bool again = true; again;) {  // what a wait was for may be done now
      again = false;
      for (known_stream& s : streams_) again = prune(s) || again;
    }
    std::size_t lingering = 0;
    for (known_stream& s : streams_) {
      if (s.gone && !s.free && s.calls.empty()) forget(s);
      lingering += s.gone && !s.free;
    }
    if (lingering > gone_limit) forget_lingering(lingering);
    last_finished_ = nullptr;
    if (queue_bytes() <= limit_ * sizeof(issued_call)) return;
    for (known_stream& s : streams_) s.calls.shrink();  // which had kept the memory of its longest queue
  }

  std::vector<known_stream>& streams() noexcept { return streams_; }
  const std::vector<known_stream>& streams() const noexcept { return streams_; }
  /// What a stream of the GPU finished last; `any` is false where nothing was seen.
  finished_work last_finished(std::uint32_t context, std::uint64_t stream) const {
    const auto found = finished_.find({context, stream});
    return found != finished_.end() ? found->second : finished_work{};
  }
  /// Index of the stream with that id, issued_call::no_stream where no call named it.
  std::uint32_t find_id(std::uint32_t context, std::uint64_t stream) const noexcept {
    for (std::size_t i = 0; i < streams_.size(); ++i)
      if (streams_[i].identified && !streams_[i].free && streams_[i].gpu_context == context && streams_[i].id == stream)
        return static_cast<std::uint32_t>(i);
    return issued_call::no_stream;
  }
  /// The stream that the head of `s` waits for by an event, nullptr where it waits for none.
  const known_stream* awaited_by(const known_stream& s) const noexcept {
    if (s.calls.empty() || s.calls.front().what != role::wait_event) return nullptr;
    return find_use(s.calls.front().awaited, s.calls.front().awaited_use);
  }
  /// The stream whose head must end before the head of `s` can begin, though no call says so: the legacy default
  /// stream and blocking ones wait for one another. no_stream: there is none.
  std::uint32_t implied_wait(std::uint32_t s) const noexcept {
    const known_stream& own = streams_[s];
    if (own.calls.empty() || !own.blocking) return issued_call::no_stream;
    const std::uint32_t head = own.calls.front().correlation;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const known_stream& other = streams_[i];
      if (i == s || other.calls.empty() || other.context != own.context || other.legacy == own.legacy) continue;
      if ((own.legacy ? other.blocking : other.legacy) && is_before(other.calls.front().correlation, head))
        return static_cast<std::uint32_t>(i);
    }
    return issued_call::no_stream;
  }

  /// Calls `visit(context, stream, finished_work)` for each stream of which something was seen to end.
  template <class Visit>
  void for_each_finished(Visit visit) const {
    for (const auto& f : finished_)
      if (f.second.any) visit(f.first.context, f.first.stream, f.second);
  }
  /// False: no work of that name was seen to end. True may be by chance: for n names seen, with probability n / 8192.
  bool has_finished(text name) const noexcept { return finished_names_.test(place_of_name(name)); }

  /// The context of what a call that failed was for: its stream, or that of its event. Else that of its thread.
  std::uint32_t context_of_failed(std::uint32_t correlation, std::uint32_t of_thread) const noexcept {
    for (const failed_call& f : failed_)
      if (f.correlation == correlation && f.context != 0) return f.context;
    return of_thread;
  }

  std::uint32_t newest() const noexcept { return newest_; }
  /// Latest end of all GPU work, raw frame.
  std::int64_t newest_end_ns() const noexcept { return newest_end_ns_; }

  std::size_t bytes() const noexcept {
    return without_record_.bytes() + log_.capacity() * sizeof(issued_call) + queue_bytes() +
           streams_.capacity() * sizeof(known_stream) +
           (by_handle_.size() + awaited_.size() + events_.size() + finished_.size()) * node_bytes;
  }

 private:
  /// Calls fit into a cache: with 4,096 an event costs the collector 155 ns instead of 143 (bench/sink_cost, null).
  static constexpr std::size_t log_limit = 1024;
  static constexpr std::size_t event_limit = 65536, gone_limit = 1024, node_bytes = 96;
  static constexpr std::uint32_t comparable = 1u << 30;  ///< ids that are closer than that are compared
  /// A thread may be held up for so long between getting its call's id and reading the time.
  static constexpr std::int64_t disorder_ns = 1000000000;

  struct stream_key {
    std::uint64_t handle;
    std::uint64_t scope;  ///< context, and thread in the lower half
    bool operator==(const stream_key& o) const noexcept { return handle == o.handle && scope == o.scope; }
  };
  struct hash {
    std::size_t operator()(const stream_key& k) const noexcept {
      return static_cast<std::size_t>((k.handle ^ k.scope << 32 ^ k.scope >> 16) * 0x9E3779B97F4A7C15u);
    }
  };
  struct recorded_event {
    std::uint32_t stream, use, correlation, capture, thread;
  };
  struct failed_call {
    std::uint32_t correlation, context;
  };
  struct place_of_stream {
    std::uint32_t stream, use;
    bool of_graph;  ///< nodes of a graph may run in other contexts than that of its stream
  };
  struct held_stage {
    std::uint32_t place;
    std::uint64_t stage;
  };

  /// Whether other calls since `id` are so many that ids from then cannot be compared with new ones.
  bool is_old(std::uint32_t id) const noexcept { return newest_ - id - comparable < 2 * comparable; }
  /// Ids that lie 2^31 or more apart seem to be in the other order: what is known of streams that have been idle for
  /// so long would hide their next calls.
  CUTRACE_NOINLINE void forget_old() {
    aged_ = newest_;
    for (auto& f : finished_) f.second.old = f.second.old || is_old(f.second.correlation);
    for (known_stream& s : streams_) s.any_proved = s.any_proved && !is_old(s.proved);
    for (auto e = events_.begin(); e != events_.end();)
      e = is_old(e->second.correlation) ? events_.erase(e) : std::next(e);
  }

  /// `c` stands before `newest_`, or far behind it: so many calls were made meanwhile that are not seen here (a thread
  /// polls, say). Where it began later and yet seems to stand before, ids of earlier calls are not comparable any more.
  CUTRACE_NOINLINE void take_leap(const issued_call& c) {
    if (!is_before(newest_, c.correlation)) {
      if (c.begin_ns - newest_ns_ <= disorder_ns) return;
      for (auto& f : finished_) f.second.old = true;
      for (known_stream& s : streams_) {
        s.any_proved = false;
        drop(s, s.calls.size());
      }
      events_.clear();
      aged_ = c.correlation;
    }
    newest_ = c.correlation;
    newest_ns_ = c.begin_ns;
  }

  static std::size_t place_of_name(text name) noexcept {  // one address for one text
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(name.data) * 0x9E3779B97F4A7C15u >> 51);
  }

  /// All threads' default streams have one handle, and all contexts' legacy streams: the key adds context and thread.
  static stream_key key_of(std::uint64_t handle, std::uint32_t context, std::uint32_t thread,
                           bool per_thread) noexcept {
    if (handle == 0) handle = per_thread ? 2 : 1;
    if (handle > 2) return {handle, 0};
    return {handle, std::uint64_t{context} << 32 | (handle == 2 ? thread : 0)};
  }
  std::size_t queue_bytes() const noexcept {
    std::size_t bytes = 0;
    for (const known_stream& s : streams_) bytes += s.calls.bytes();
    return bytes;
  }

  /// False where nothing is left to do for the call.
  CUTRACE_INLINE bool find_its_stream(issued_call& c, std::uint64_t handle, std::uint32_t context, bool per_thread) {
    if (c.what == role::event_wait || c.what == role::event_gone || c.what == role::context_wait) {
      c.flags = context;  // that of the call
      return true;
    }
    if (c.what == role::stream_created) {
      if (c.succeeded) created(handle, context, (c.flags & 1u) == 0);
      return false;
    }
    c.stream = find_stream(handle, context, c.thread, per_thread);
    if (c.what == role::stream_gone) {
      if (c.succeeded) forget_handle(c.stream);
      return false;
    }
    if (c.succeeded && !streams_[c.stream].identified) await(c);
    return true;
  }
  std::uint32_t find_stream(std::uint64_t handle, std::uint32_t context, std::uint32_t thread, bool per_thread) {
    const stream_key key = key_of(handle, context, thread, per_thread);
    if (last_stream_ < streams_.size() && key == last_key_) return last_stream_;
    const auto found = by_handle_.find(key);
    last_stream_ = found != by_handle_.end() ? found->second : add_stream(key, context);
    last_key_ = key;
    return last_stream_;
  }
  std::uint32_t add_stream(const stream_key& key, std::uint32_t context) {
    std::uint32_t at = 0;
    while (at < streams_.size() && !streams_[at].free) ++at;
    if (at == streams_.size()) streams_.emplace_back();
    known_stream& s = streams_[at];
    const std::uint32_t uses = s.use;
    s = known_stream{};
    s.use = uses + 1;
    s.handle = key.handle;
    s.context = context;
    s.thread = static_cast<std::uint32_t>(key.scope);
    s.legacy = key.handle == 1;
    s.progress_ns = now_ns_;
    by_handle_[key] = at;
    return at;
  }
  void created(std::uint64_t handle, std::uint32_t context, bool blocking) {
    if (handle <= 2) return;
    const stream_key key = key_of(handle, context, 0, false);
    const auto old = by_handle_.find(key);
    if (old != by_handle_.end()) forget_handle(old->second);  // its destruction was not seen
    streams_[add_stream(key, context)].blocking = blocking;
    last_stream_ = issued_call::no_stream;
  }
  /// The stream was destroyed; the calls on it go on.
  void forget_handle(std::uint32_t stream) {
    known_stream& s = streams_[stream];
    by_handle_.erase(key_of(s.handle, s.context, s.thread, false));
    s.gone = true;
    last_stream_ = issued_call::no_stream;
  }
  void forget(known_stream& s) {
    if (s.identified) finished_.erase({s.gpu_context, s.id});
    s.free = true;
  }
  /// Where the last call on a destroyed stream leaves no record, nothing may ever show that it is done: of too many
  /// such streams the older half is forgotten.
  CUTRACE_NOINLINE void forget_lingering(std::size_t count) {
    std::vector<known_stream*> all;
    all.reserve(count);
    for (known_stream& s : streams_)
      if (s.gone && !s.free) all.push_back(&s);
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(all.begin(), middle, all.end(), [](const known_stream* x, const known_stream* y) {
      return is_before(x->calls.front().correlation, y->calls.front().correlation);
    });
    for (auto s = all.begin(); s != middle; ++s) {
      drop(**s, (*s)->calls.size());
      forget(**s);
    }
  }
  /// The stream with this index and use, nullptr where it is no more.
  const known_stream* find_use(std::uint32_t stream, std::uint32_t use) const noexcept {
    return stream < streams_.size() && !streams_[stream].free && streams_[stream].use == use ? &streams_[stream]
                                                                                             : nullptr;
  }

  /// The record of one of a stream's first calls identifies the stream. Records of captured calls never come, so later
  /// calls are tried, too.
  void await(const issued_call& c) {
    known_stream& s = streams_[c.stream];
    // CUPTI's own record of a thread's wait for its default stream names the legacy one (docs/cupti.md, 49).
    const bool has_record =
        c.leaves_record() || c.what == role::wait_event || (c.what == role::stream_wait && s.handle != 2);
    if (!has_record) return;
    if (s.asked >= (c.leaves_record() ? 6 : 2)) {
      if (now_ns_ - s.asked_ns < 2000000000) return;
      stop_asking(c.stream);
    }
    awaited_[c.correlation] = {c.stream, s.use, c.what == role::graph};
    ++s.asked;
    s.asked_ns = now_ns_;
  }
  void stop_asking(std::uint32_t stream) {
    for (auto a = awaited_.begin(); a != awaited_.end();)
      a = a->second.stream == stream ? awaited_.erase(a) : std::next(a);
    streams_[stream].asked = 0;
  }
  CUTRACE_NOINLINE void identify(const event& e) {
    const auto found = awaited_.find(static_cast<std::uint32_t>(e.correlation_id));
    if (found == awaited_.end()) return;
    const place_of_stream of = found->second;
    known_stream& s = streams_[of.stream];
    const bool there = find_use(of.stream, of.use) != nullptr;
    if (there && of.of_graph && s.context != 0 && s.context != (e.context & 0xffff)) return;  // see place_of_stream
    awaited_.erase(found);
    if (e.kind == event_kind::sync && e.stream == 0) return;  // CUPTI could not name it: see waits.hpp
    if (!there || s.identified) return;
    s.identified = true;
    s.device = e.device;
    s.gpu_context = e.context;
    s.id = e.stream;
    stop_asking(of.stream);
  }
  CUTRACE_INLINE finished_work& finished(std::uint32_t context, std::uint64_t stream) {
    const gpu_stream key{context, stream};
    if (CUTRACE_LIKELY(last_finished_ != nullptr && last_id_ == key)) return *last_finished_;
    if (CUTRACE_UNLIKELY(finished_.size() >= event_limit)) finished_.clear();
    last_id_ = key;
    return *(last_finished_ = &finished_[key]);  // addresses of a map's nodes stay
  }

  /// Puts a call on its stream. False where the call does not stay there.
  bool place(issued_call& c) {
    if (is_before(newest_, c.correlation) || newest_ == 0) {
      newest_ = c.correlation;
      newest_ns_ = c.begin_ns;
    }
    if (CUTRACE_UNLIKELY(!c.succeeded && c.what != role::none)) note_failed(c);
    switch (c.what) {
      case role::none:
        return true;  // has been placed
      case role::event_gone:
        events_.erase(c.handle);
        return false;
      case role::begins_capture:
        if (c.succeeded) streams_[c.stream].capture = ++captures_;
        return false;
      case role::ends_capture:
        end_capture(streams_[c.stream].capture);
        return false;
      case role::stream_wait:
        if (c.succeeded) prove(streams_[c.stream], c.correlation, c.thread);
        return false;
      case role::context_wait:
        for (known_stream& s : streams_)
          if (c.succeeded && s.context == c.flags) prove(s, c.correlation, c.thread);
        return false;
      case role::event_wait: {
        const auto found = events_.find(c.handle);
        if (c.succeeded && found != events_.end() && find_use(found->second.stream, found->second.use) != nullptr)
          prove(streams_[found->second.stream], found->second.correlation, found->second.thread);
        return false;
      }
      default:
        return c.succeeded && place_on_stream(c);
    }
  }
  CUTRACE_NOINLINE void note_failed(const issued_call& c) {
    const auto event = c.what == role::event_wait ? events_.find(c.handle) : events_.end();
    const std::uint32_t on = event != events_.end() ? event->second.stream : c.stream;
    failed_[next_failed_++ % failed_.size()] = {c.correlation, on < streams_.size() ? streams_[on].context : 0};
  }
  bool place_on_stream(issued_call& c) {
    known_stream& s = streams_[c.stream];
    if (c.what == role::event_record) {
      if (events_.size() >= event_limit) events_.clear();
      events_[c.handle] = {c.stream, s.use, c.correlation, s.capture, c.thread};
    }
    if (c.what == role::wait_event) {
      const auto found = events_.find(c.handle);
      if (found == events_.end()) return false;                                             // never recorded: no wait
      if (found->second.capture != 0 && s.capture == 0) s.capture = found->second.capture;  // joins it
      c.awaited = found->second.stream;
      c.awaited_use = found->second.use;
      c.value = found->second.correlation;
    }
    if (s.capture != 0) return false;
    if (c.waits) prove(s, c.correlation + 1, c.thread);
    if (c.leaves_record()) without_record_.made(c.correlation);
    // A call that is done, but stands behind others that are not, is kept and dropped together with them.
    if ((s.calls.empty() || is_before(c.correlation, s.calls.front().correlation)) && is_done(s, c)) return false;
    if (waiting_ >= limit_ && !s.calls.empty()) {
      ++s.more;
      return false;
    }
    if (s.calls.empty()) s.progress_ns = std::max(s.progress_ns, c.begin_ns);
    // Another thread's call may be read later than one that came after it.
    s.calls.add() = c;
    for (std::size_t i = s.calls.size() - 1; i > 0 && is_before(c.correlation, s.calls[i - 1].correlation); --i)
      std::swap(s.calls[i], s.calls[i - 1]);
    ++waiting_;
    return true;
  }
  void end_capture(std::uint32_t capture) {
    for (known_stream& s : streams_)
      if (capture != 0 && s.capture == capture) s.capture = 0;
  }
  void prove(known_stream& s, std::uint32_t correlation, std::uint32_t thread) const noexcept {
    if (s.any_proved && !is_before(s.proved, correlation)) return;
    s.proved = correlation;
    s.proved_ns = now_ns_;
    s.proved_thread = thread;
    s.any_proved = true;
  }

  bool is_done(const known_stream& s, const issued_call& c) const {
    if (s.any_proved && is_before(c.correlation, s.proved)) return true;
    if (is_done_by(last_finished(s), c)) return true;
    if (c.what != role::wait_event) return false;
    const known_stream* const on = find_use(c.awaited, c.awaited_use);
    return on == nullptr || on->calls.empty() ||
           !is_before(on->calls.front().correlation, static_cast<std::uint32_t>(c.value));
  }
  /// All nodes of a graph launch share one id: when one has ended, others may still be at work.
  static bool is_done_by(const finished_work* f, const issued_call& c) noexcept {
    if (f == nullptr || !f->any || f->old) return false;
    return is_before(c.correlation, f->correlation) || (c.what == role::work && c.correlation == f->correlation);
  }
  const finished_work* last_finished(const known_stream& s) const {
    if (!s.identified) return nullptr;
    const auto f = finished_.find({s.gpu_context, s.id});
    return f != finished_.end() ? &f->second : nullptr;
  }
  bool prune(known_stream& s) {
    if (s.calls.empty()) return false;
    const finished_work* const f = last_finished(s);
    std::size_t n = 0;
    for (; n < s.calls.size(); ++n) {
      const issued_call& c = s.calls[n];
      if (s.any_proved && is_before(c.correlation, s.proved))
        s.progress_ns = now_ns_;
      else if (is_done_by(f, c))
        s.progress_ns = std::max(s.progress_ns, f->end_ns);
      else if (c.what == role::wait_event && is_done(s, c))
        s.progress_ns = now_ns_;  // what stands behind the wait could not begin before
      else if (!c.follows_at_once())
        break;
    }
    return drop(s, n);
  }
  void let_go(const issued_call& c) {
    if (c.holds_stage) released_.push_back({c.stage_place, c.stage});
  }
  bool drop(known_stream& s, std::size_t n) {
    if (n == 0) return false;
    for (std::size_t i = 0; i < n; ++i) let_go(s.calls[i]);
    s.calls.pop_front(n);
    waiting_ -= n;
    if (s.calls.empty())
      s.more = 0;
    else  // the head has had no time before its call
      s.progress_ns = std::max(s.progress_ns, s.calls.front().begin_ns);
    s.alarmed = 0;
    if (s.progress_ns > s.patient_since_ns) s.patient_since_ns = 0;
    return true;
  }

  calls_without_record without_record_;
  std::vector<issued_call> log_;
  std::vector<held_stage> released_;
  bool in_order_ = true;
  std::vector<known_stream> streams_;
  std::unordered_map<stream_key, std::uint32_t, hash> by_handle_;
  std::unordered_map<std::uint64_t, recorded_event> events_;
  std::unordered_map<std::uint32_t, place_of_stream> awaited_;  ///< by correlation id
  std::unordered_map<gpu_stream, finished_work, gpu_stream::hash> finished_;
  std::bitset<8192> finished_names_;
  std::array<failed_call, 64> failed_{};  ///< the last ones
  std::size_t next_failed_ = 0;
  stream_key last_key_{};
  std::uint32_t last_stream_ = issued_call::no_stream;
  gpu_stream last_id_{};
  finished_work* last_finished_ = nullptr;
  std::size_t waiting_ = 0, limit_ = 8192;
  std::uint32_t captures_ = 0, newest_ = 0, aged_ = 0;  ///< aged_: `newest_` at the last forget_old
  std::int64_t newest_ns_ = 0;                          ///< begin of the call `newest_`
  std::int64_t now_ns_ = 0, newest_end_ns_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
