// SPDX-License-Identifier: Apache-2.0
// Definitions of the machine: how a work gets its times, at once or when what it waits for has ended; host functions,
// values in memory, kernels that fault or never end, and calls that wait. Included by machine.hpp only.
#pragma once

#include <cutrace/sim/machine.hpp>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

inline void machine::set_kernel_faults(std::vector<kernel_fault> all, std::uint64_t report_ns) {
  const std::lock_guard<std::mutex> hold(lock_);
  faults_.clear();
  for (kernel_fault& f : all) faults_.push_back({std::move(f), 0});
  report_ns_ = report_ns;
}

/// What this execution of a kernel is to meet, see job::misfortune.
inline std::int32_t machine::misfortune(const work& w) {
  std::int32_t code = -1;
  if (w.kind != work_kind::kernel) return code;
  for (counted_fault& f : faults_)
    if (f.what.name == w.kernel.name && ++f.seen == f.what.at) code = f.what.code;
  return code;
}

inline machine::front machine::front_of(const stream& s) const {
  front f{stream_ready(s), s.open};
  const auto add = [&](const std::vector<moment_ptr>& more) { f.open.insert(f.open.end(), more.begin(), more.end()); };
  if (s.kind == stream_kind::blocking || s.kind == stream_kind::per_thread) add(s.owner->legacy->open);
  if (s.kind != stream_kind::legacy) return f;
  for (const auto& other : s.owner->streams)
    if (other->kind != stream_kind::non_blocking) add(other->open);
  for (const context::left_over& l : s.owner->open)
    if (l.blocking) f.open.push_back(l.when);
  return f;
}

/// The next work of a stream. `ready_ns`: of a node; 0: that of a launch now.
inline machine::job machine::job_of(const stream& s, const work& w, const front& f, std::uint64_t ready_ns) {
  job j;
  j.what = w;
  j.device = s.owner->device;
  j.lost = s.owner->lost;
  j.ready_ns = ready_ns != 0 ? ready_ns : std::max(now() + options_.launch_latency_ns, f.at_ns);
  j.after = f.open;
  j.misfortune = misfortune(w);
  if (w.kind == work_kind::kernel) j.duration_ns = draw_duration_ns(options_, w.kernel, s.id, s.sequence);
  return j;
}

/// All before it has ended, or its end is known.
inline bool machine::ready(job& j) {
  const auto ended = [&](const moment_ptr& m) {
    if (!m->known()) return false;
    j.ready_ns = std::max(j.ready_ns, m->end_ns + j.latency_ns);
    if (j.spans) j.first_ns = std::min(j.first_ns, m->start_ns.load());
    return true;
  };
  j.after.erase(std::remove_if(j.after.begin(), j.after.end(), ended), j.after.end());
  return j.after.empty();
}

/// Places the work, or puts it aside. What is left in `bytes` is the caller's to move, now.
inline machine::outcome machine::run(job&& j, movement& bytes) {
  const bool now_due = ready(j);
  const bool pageable = j.what.kind == work_kind::copy && j.what.copy.source_kind == memory_kind::pageable;
  if (j.what.kind == work_kind::value || (!now_due && !pageable)) std::swap(j.bytes, bytes);
  if (now_due) return place(j);
  outcome o;
  o.open = j.when = std::make_shared<moment>();
  aside_.push_back(std::move(j));
  return o;
}

/// Everything before it will have ended by `ready_ns`.
inline machine::outcome machine::place(job& j) {
  outcome o{{j.ready_ns, j.ready_ns}, nullptr};
  const auto later = [&] { return j.when != nullptr ? j.when : j.when = std::make_shared<moment>(); };
  switch (j.what.kind) {
    case work_kind::kernel:
      o = place_kernel(j);
      break;
    case work_kind::copy:
      o.time = engines_[j.device].place_copy(j.ready_ns, j.what.copy);
      break;
    case work_kind::set:
      o.time = engines_[j.device].place_set(j.ready_ns, j.what.set);
      break;
    case work_kind::host:
      o.open = later();
      hosts_.add(j.ready_ns, [this, when = j.when, at = j.ready_ns, lost = j.lost, f = j.what.host] {
        carry_out(when, at, lost, [&] { f.function(f.user); });
      });
      break;
    case work_kind::value:
      o.open = later();
      if (j.what.value.write)
        values_.add(j.ready_ns, [this, when = j.when, at = j.ready_ns, lost = j.lost, v = j.what.value, m = j.bytes] {
          carry_out(when, at, lost, [&] { write(v, m); });
        });
      else
        values_.add(j.ready_ns, [this, when = j.when, at = j.ready_ns, lost = j.lost, v = j.what.value, m = j.bytes] {
          poll(when, at, lost, v, m);
        });
      break;
    case work_kind::empty:
      o.time.start_ns = std::min(j.first_ns, j.ready_ns);
      break;
  }
  if (o.open == nullptr && j.when != nullptr) close(*j.when, o.time);
  return o;
}

/// A kernel that faults or never ends takes no slot from other kernels: it would be only one of 128 (by default).
inline machine::outcome machine::place_kernel(job& j) {
  if (j.misfortune < 0) return {engines_[j.device].place_kernel(j.ready_ns, j.duration_ns), nullptr};
  if (j.when == nullptr) j.when = std::make_shared<moment>();
  j.when->start_ns = j.ready_ns;
  if (j.misfortune != 0 && j.ready_ns < j.lost->at_ns) {
    j.lost->code = j.misfortune;
    j.lost->report_ns = j.ready_ns + report_ns_;
    j.lost->at_ns = j.ready_ns;
    ++changes_;
    changed_.notify_all();
  }
  return {{j.ready_ns, j.ready_ns}, j.when};
}

/// Does what a stream waits for, on another thread, unless the context is lost before.
inline void machine::carry_out(const moment_ptr& when, std::uint64_t at_ns, const std::shared_ptr<loss>& lost,
                               const std::function<void()>& what) {
  if (!lost->reached(at_ns)) return;
  const std::uint64_t start = std::max(at_ns, now());
  what();
  const std::lock_guard<std::mutex> hold(lock_);
  close(*when, {start, std::max(start, now())});
  release();
}

inline void machine::write(const value_work& v, const movement& m) {
  if (v.bytes == 8)
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(m.to.data), v.value, __ATOMIC_RELEASE);
  else
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(m.to.data), static_cast<std::uint32_t>(v.value),
                     __ATOMIC_RELEASE);
}

inline bool machine::holds(const value_work& v, const movement& m) {
  const bool wide = v.bytes == 8;
  const std::uint64_t is = wide ? __atomic_load_n(reinterpret_cast<std::uint64_t*>(m.to.data), __ATOMIC_ACQUIRE)
                                : __atomic_load_n(reinterpret_cast<std::uint32_t*>(m.to.data), __ATOMIC_ACQUIRE);
  const std::uint64_t mask = wide ? ~std::uint64_t{0} : 0xffffffffu;
  switch (v.test) {
    case value_test::equal:
      return is == (v.value & mask);
    case value_test::any_bit:
      return (is & v.value) != 0;
    case value_test::nor:
      return (~(is | v.value) & mask) != 0;
    default:
      return ((is - v.value) & (wide ? std::uint64_t{1} << 63 : 0x80000000u)) == 0;
  }
}

/// The host writes values without a notification, so they are polled: each 50 us, after a while each ms.
inline void machine::poll(const moment_ptr& when, std::uint64_t since_ns, const std::shared_ptr<loss>& lost,
                          const value_work& v, const movement& m) {
  const std::uint64_t at = std::max(since_ns, now());
  if (!lost->reached(at)) return;
  if (!holds(v, m)) {
    const std::uint64_t pause = std::min<std::uint64_t>(1000000, std::max<std::uint64_t>(50000, (at - since_ns) / 8));
    values_.add(at + pause, [this, when, since_ns, lost, v, m] { poll(when, since_ns, lost, v, m); });
    return;
  }
  const std::lock_guard<std::mutex> hold(lock_);
  close(*when, {since_ns, at});
  release();
}

inline void machine::close(moment& m, interval t) {
  m.start_ns = t.start_ns;
  m.end_ns.store(t.end_ns, std::memory_order_release);
}

/// Something has become known: places what waited for it, in the order of issue.
inline void machine::release() {
  std::vector<job> all;
  all.swap(aside_);
  for (job& j : all) {
    if (!ready(j)) {
      aside_.push_back(std::move(j));
      continue;
    }
    move(j.what, j.bytes);
    place(j);
  }
  for (stream* s : live_streams_) settle(*s);
  for (const auto& c : contexts_) {
    auto& left = c.second->open;
    for (const context::left_over& l : left) {
      if (!l.when->known()) continue;
      c.second->end_ns = std::max(c.second->end_ns, l.when->end_ns.load());
      if (l.blocking) c.second->blocking_end_ns = std::max(c.second->blocking_end_ns, l.when->end_ns.load());
    }
    left.erase(std::remove_if(left.begin(), left.end(), [](const auto& l) { return l.when->known(); }), left.end());
  }
  ++changes_;
  changed_.notify_all();
}

inline void machine::settle(stream& s) {
  for (const moment_ptr& m : s.open)
    if (m->known()) advance(s, m->end_ns);
  s.open.erase(std::remove_if(s.open.begin(), s.open.end(), [](const auto& m) { return m->known(); }), s.open.end());
}

/// The stream's next work comes after this one.
inline void machine::take(stream& s, const outcome& o) {
  if (o.open == nullptr)
    advance(s, o.time.end_ns);
  else
    s.open.assign(1, o.open);
}

// Calls that wait or ask

inline std::uint64_t machine::end_of(const until& u) {
  std::uint64_t end = u.at_ns;
  for (const moment_ptr& m : u.open) end = std::max(end, m->end_ns.load(std::memory_order_acquire));
  return end;
}

inline status machine::ask(const until& u) const {
  if (u.what != status::ok) return u.what;
  const std::uint64_t at = now(), end = end_of(u);
  if (u.lost != nullptr && u.lost->reported(at)) return status::context_lost;
  return at >= end && (u.lost == nullptr || u.lost->reached(end)) ? status::ok : status::not_ready;
}

inline status machine::await(const until& u) {
  for (;;) {
    const std::uint64_t seen = changes_;
    const status s = ask(u);
    if (s != status::not_ready) return s;
    const std::uint64_t end = end_of(u);
    std::uint64_t next = u.lost == nullptr || u.lost->reached(end) ? end : never_ns;
    if (u.lost != nullptr) next = std::min(next, u.lost->report_ns.load());
    const std::uint64_t at = now();
    if (next == never_ns || next > at + 100000) {
      std::unique_lock<std::mutex> hold(lock_);
      const auto change = [&] { return changes_ != seen; };
      if (next == never_ns)
        changed_.wait(hold, change);
      else
        changed_.wait_for(hold, std::chrono::nanoseconds(next - at - 60000), change);
    } else {
      while (now() < next && changes_ == seen) std::this_thread::yield();
    }
  }
}

}  // namespace sim
CUTRACE_END_NAMESPACE
