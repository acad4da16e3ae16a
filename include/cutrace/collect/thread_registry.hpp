// SPDX-License-Identifier: Apache-2.0
// States of the threads that have passed a marker or made a call. A state goes to another thread only when the kernel
// says that the earlier thread is gone: markers in late thread-local destructors still find their thread's state.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cutrace/collect/chunk_pool.hpp>
#include <cutrace/collect/string_table.hpp>
#include <cutrace/marker/table.hpp>
#include <mutex>
#include <string>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What cutrace's runtime keeps of a thread besides what markers touch. Aligned: each marker touches the first cache
/// line, to which the collector does not write; a call touches the next one, too, to which the collector writes when
/// the thread begins and ends.
struct alignas(64) traced_thread : thread_state {
  /// The call of the driver that the thread is in: function << 52 | low bits of the ticks of its begin, 0: none.
  /// The owning thread and forget_calls write it, the owning thread alone `in_stage`; the collector reads both.
  std::atomic<std::uint64_t> in_call{0};
  std::atomic<std::uint64_t> in_stage{0};  ///< innermost stage of that call, 0: none
  traced_thread* next_known = nullptr;     ///< list of all states ever made
  chunk* current = nullptr;                ///< owning thread's
  std::uint64_t chunks_taken = 0;          ///< owning thread's
  std::atomic<chunk*> first{nullptr};      ///< where the collector begins to read, set once in each use
  std::atomic<std::uint32_t> state{0};     ///< 0 free, 1 in use, 2 thread has ended
  bool attached = false;                   ///< collector's: it has seen the thread and described it to the sinks
  chunk* reading = nullptr;                ///< collector's
  std::uint32_t read = 0;                  ///< collector's: records of `reading` that are done
  std::uint64_t lost_seen = 0;             ///< collector's
  std::uint64_t named_at_ns = 0;           ///< collector's
  const char* name = nullptr;              ///< collector's, interned
  std::uint64_t alarmed_call = 0;          ///< collector's: the `in_call` that was reported as hanging

  static constexpr unsigned call_shift = 52;
  CUTRACE_INLINE void enter_call(std::uint32_t function, std::uint64_t begin_ticks, std::uint64_t stage) noexcept {
    in_stage.store(stage, std::memory_order_relaxed);
    in_call.store(std::uint64_t{function} << call_shift | (begin_ticks & ((std::uint64_t{1} << call_shift) - 1)),
                  std::memory_order_relaxed);
  }
  CUTRACE_INLINE void leave_call() noexcept { in_call.store(0, std::memory_order_relaxed); }
  static std::uint32_t function_in(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> call_shift);
  }
  /// Ticks of the begin, which lie within 2^52 before `now`.
  static std::uint64_t begin_in(std::uint64_t word, std::uint64_t now) noexcept {
    constexpr std::uint64_t mask = (std::uint64_t{1} << call_shift) - 1;
    return now - ((now - word) & mask);
  }
};

class thread_registry {
 public:
  enum use : std::uint32_t { unused = 0, in_use = 1, ended = 2 };

  /// A trace begins: stages announced so far were announced to an earlier trace. To be called before the gate opens.
  void begin_trace() noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    trace_number_ = trace_number_ == 0xffff ? 1 : static_cast<std::uint16_t>(trace_number_ + 1);
    for (traced_thread* t = head_.load(std::memory_order_relaxed); t != nullptr; t = t->next_known)
      t->trace_number.store(trace_number_, std::memory_order_relaxed);
    forget_calls();
  }
  /// Marks all threads as in no call: the ends of calls under way will not be recorded.
  void forget_calls() noexcept {
    for (traced_thread* t = head_.load(std::memory_order_acquire); t != nullptr; t = t->next_known) t->leave_call();
  }

  /// State for the calling thread; nullptr when memory ran out.
  traced_thread* attach(const table* owner, bool use_counter) noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    traced_thread* t = nullptr;
    for (traced_thread* i = head_.load(std::memory_order_relaxed); i != nullptr && t == nullptr; i = i->next_known)
      if (i->state.load(std::memory_order_acquire) == unused) t = i;
    const bool fresh = t == nullptr;
    if (fresh) t = new (std::nothrow) traced_thread();
    if (t == nullptr) return nullptr;
    static record nowhere[2];  // no room, but an address that may be computed with
    t->cursor = t->limit = nowhere;
    t->committed = nullptr;
    t->count = 0;
    t->use_counter = use_counter;
    t->plain = use_counter;
    t->trace_number.store(trace_number_, std::memory_order_relaxed);
    t->top = nullptr;
    t->owner = owner;
    t->index = next_index_;
    next_index_ = next_index_ == 0xffffff ? 1 : next_index_ + 1;
    t->next_stage = (std::uint64_t{t->index} << 40) + 1;
    t->thread_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
    t->lost.store(0, std::memory_order_relaxed);
    t->current = nullptr;
    t->chunks_taken = 0;
    t->leave_call();
    t->first.store(nullptr, std::memory_order_relaxed);
    t->state.store(in_use, std::memory_order_release);
    if (fresh) {
      t->next_known = head_.load(std::memory_order_relaxed);
      head_.store(t, std::memory_order_release);
      made_.fetch_add(1, std::memory_order_relaxed);
    }
    return t;
  }

  /// Called by the thread's own exit. Markers may still come in other destructors of this thread, so the state is only
  /// marked; the collector recycles it once `is_gone`.
  static void mark_ended(traced_thread* t) noexcept { t->state.store(ended, std::memory_order_release); }

  /// As mark_ended, for a thread that came to its first marker in the last round of its destructors: its exit notifies
  /// nobody.
  static void mark_if_gone(traced_thread* t) noexcept {
    if (t->state.load(std::memory_order_acquire) == in_use && is_gone(t)) mark_ended(t);
  }

  /// True when the kernel no longer knows the thread.
  static bool is_gone(const traced_thread* t) noexcept {
    // Any other error (a sandbox that forbids the call) leaves the state with its thread.
    return syscall(SYS_tgkill, getpid(), static_cast<pid_t>(t->thread_id), 0) != 0 && errno == ESRCH;
  }

  static void recycle(traced_thread* t) noexcept {
    t->attached = false;
    t->reading = nullptr;
    t->read = 0;
    t->lost_seen = 0;
    t->named_at_ns = 0;
    t->name = nullptr;
    t->state.store(unused, std::memory_order_release);
  }

  /// Calls `visit(traced_thread&)` for every state in use or ended. Collector's thread.
  template <class Visit>
  void for_each(Visit visit) {
    for (traced_thread* t = head_.load(std::memory_order_acquire); t != nullptr; t = t->next_known)
      if (t->state.load(std::memory_order_acquire) != unused) visit(*t);
  }

  std::uint64_t bytes() const noexcept { return made_.load(std::memory_order_relaxed) * sizeof(traced_thread); }

 private:
  std::mutex mutex_;
  std::atomic<traced_thread*> head_{nullptr};
  std::atomic<std::uint64_t> made_{0};
  std::uint16_t trace_number_ = 0;
  std::uint32_t next_index_ = 1;
};

// Names of threads: those that the program gave through NVTX, else the kernel's, which the collector reads, so that the
// threads pay nothing.

/// Names that were given (table::name_thread), by the kernel's number of the thread. Any thread.
class given_thread_names {
 public:
  void set(std::uint32_t thread_id, const char* name) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (names_.size() >= limit && names_.count(thread_id) == 0) return;
    names_[thread_id].assign(name, strnlen(name, longest));
    changes_.fetch_add(1, std::memory_order_release);
  }
  /// Forgets a thread's name: the kernel may give its number to another thread.
  void forget(std::uint32_t thread_id) {
    if (changes() == 0) return;
    std::lock_guard<std::mutex> hold(mutex_);
    names_.erase(thread_id);
  }
  /// Empty where none was given.
  std::string of(std::uint32_t thread_id) const {
    if (changes() == 0) return {};
    std::lock_guard<std::mutex> hold(mutex_);
    const auto found = names_.find(thread_id);
    return found != names_.end() ? found->second : std::string();
  }
  /// Whether a name was given since the last call with this variable.
  bool changed_since(std::uint32_t& seen) const noexcept {
    const std::uint32_t before = seen;
    seen = changes();
    return seen != before;
  }

 private:
  /// How often a name was given.
  std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }

  static constexpr std::size_t limit = 4096, longest = 256;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::string> names_;
  std::atomic<std::uint32_t> changes_{0};
};

/// True when the thread's name is new or has changed; `name` is that name. Reads the kernel's name at most once a
/// second.
inline bool thread_name_changed(traced_thread& t, const given_thread_names& names, std::uint64_t now_ns,
                                string_table& strings, text& name) {
  const bool first = t.named_at_ns == 0;
  const std::string given = names.of(t.thread_id);
  if (!given.empty()) {
    if (first) t.named_at_ns = now_ns;
    name = strings.intern_dynamic(given.data(), given.size());
    const bool new_name = name.data != t.name;
    t.name = name.data;
    return new_name;
  }
  if (!first && now_ns - t.named_at_ns < 1000000000u) return false;
  t.named_at_ns = now_ns;
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%u/comm", t.thread_id);
  char buffer[64] = {};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, buffer, sizeof(buffer) - 1) : -1;
  if (fd >= 0) close(fd);
  if (n > 0 && buffer[n - 1] == '\n') --n;
  if (n <= 0) {
    if (!first) return false;
    n = std::snprintf(buffer, sizeof(buffer), "thread %u", t.thread_id);
  }
  name = strings.intern_dynamic(buffer, static_cast<std::size_t>(n), {"thread", 6});
  const bool changed = first || name.data != t.name;
  t.name = name.data;
  return changed;
}

// What a thread committed before a trace began belongs to no trace.

/// Passes over all records of `t`, gives its finished chunks back, and has it named anew. Collector's side.
CUTRACE_NOINLINE inline void skip_records(traced_thread& t, chunk_pool& pool) {
  if (t.reading == nullptr) t.reading = t.first.load(std::memory_order_acquire);
  while (t.reading != nullptr) {
    const std::uint32_t next = t.reading->next.load(std::memory_order_acquire);
    t.read = t.reading->committed.load(std::memory_order_acquire);
    t.reading->consumed.store(t.read, std::memory_order_release);
    if (next == 0) break;
    chunk* done = t.reading;
    t.reading = pool.at(next - 1);
    pool.give(done);
  }
  t.lost_seen = t.lost.load(std::memory_order_relaxed);
  t.attached = false;
  t.named_at_ns = 0;
  t.name = nullptr;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
