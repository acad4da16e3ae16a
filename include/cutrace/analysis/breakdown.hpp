// SPDX-License-Identifier: Apache-2.0
// Where the wall time went. Each nanosecond of the trace has exactly one owner: of several that overlap, the one that
// comes first in a stated order. So shares never exceed the time there was, and add up to all of it.
//
// Method: union k covers the owners 0 to k, and owner k gets the length of union k less that of union k - 1. Of a trace
// that was paused, sampled or cut, only what lies in the time recorded counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/interval_set.hpp>
#include <map>
#include <set>
#include <tuple>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Owners of time, in their order. The GPU at work comes first: what the host does meanwhile costs nothing; then
/// unfinished work, whose times are not known (event::incomplete): from its call to its last possible end. Waiting
/// comes after all other calls: a thread that waits matters while no other thread is in a call. Last, the program's
/// own code inside of a stage, and what is left: no GPU work, no call, no stage.
enum class owner : std::uint8_t {
  gpu_kernel,
  gpu_transfer,
  gpu_memory,
  gpu_unfinished,
  host_init,
  host_memory,
  host_transfer,
  host_launch,
  host_other,
  host_sync,
  host_stage,
  nothing,
};
constexpr std::size_t owner_count = 12;

inline bool is_gpu(owner o) noexcept { return o < owner::host_init; }
inline owner host_owner(category c) noexcept {
  constexpr owner of[] = {owner::host_init,   owner::host_memory, owner::host_transfer,
                          owner::host_launch, owner::host_sync,   owner::host_other};
  return of[static_cast<std::size_t>(c)];
}
inline owner gpu_owner(category c) noexcept {
  return c == category::kernel ? owner::gpu_kernel : c == category::transfer ? owner::gpu_transfer : owner::gpu_memory;
}

/// Exclusive time by owner, from the trace's start to its end (`window`): `ns` adds up to `recorded_ns`, always.
struct breakdown_table {
  interval window;
  std::int64_t recorded_ns = 0;  ///< the window's length; less where the trace was paused or sampled
  std::uint64_t pieces = 0;      ///< windows of such a trace (event_kind::window); 0 of any other
  std::array<std::int64_t, owner_count> ns{};
  std::array<std::uint64_t, owner_count> count{};  ///< events of the owner, also those whose time another owner has
  bool approximate = false;                        ///< see interval_set; then off by at most `uncertain_ns`
  std::int64_t uncertain_ns = 0;

  std::int64_t time_ns(owner o) const noexcept { return ns[static_cast<std::size_t>(o)]; }
  std::uint64_t events(owner o) const noexcept { return count[static_cast<std::size_t>(o)]; }
  std::int64_t gpu_busy_ns() const noexcept { return ns[0] + ns[1] + ns[2]; }
  /// Neither measured work nor idle.
  std::int64_t gpu_unfinished_ns() const noexcept { return time_ns(owner::gpu_unfinished); }
  std::int64_t gpu_idle_ns() const noexcept { return recorded_ns - gpu_busy_ns() - gpu_unfinished_ns(); }
};

/// Union of all kernels, copies, memsets and graphs of one device, all streams. idle_gaps.hpp finds its gaps.
struct device_time {
  std::uint32_t device = 0;
  std::int64_t busy_ns = 0;
  std::int64_t kernel_ns = 0;      ///< union of all kernels
  std::int64_t unfinished_ns = 0;  ///< covered by unfinished work and by no measured work
  interval active;                 ///< first start to last end
  std::uint64_t streams = 0;       ///< that had work; at most 4,096
  bool approximate = false;        ///< a time was estimated, see interval_set
};

/// Takes events in any order, cheapest in the order of their ends. Events are cut at the window's start. The window's
/// end is a parameter of `everything` and `host`, so it need not be known before.
class breakdown {
 public:
  explicit breakdown(std::int64_t start_ns = 0, const bounds& limits = {})
      : start_ns_(time_of(start_ns)), limits_(limits) {
    for (auto& u : host_) u = interval_set(limits.intervals);
    for (auto& u : all_) u = interval_set(limits.intervals);
    recorded_ = interval_set(limits.row_intervals);
  }

  /// @param c category_of(e), which callers with many events remember by name.
  void add(const event& e, category c) {
    const interval v = clip(interval_of(e), {start_ns_, INT64_MAX});
    if (e.kind == event_kind::window) recorded_.insert(v), ++pieces_;
    if (!e.is_description() && (!v.empty() || e.start_ns == e.end_ns)) last_ns_ = std::max(last_ns_, v.end_ns);
    if (e.is_gpu_work()) {
      const std::size_t o = static_cast<std::size_t>(e.incomplete ? owner::gpu_unfinished : gpu_owner(c));
      ++count_[o];
      insert_from(all_, o, v);
      if (device_union* d = device(e.device)) {
        (e.incomplete ? d->unfinished : d->busy).insert(v);
        if (o == static_cast<std::size_t>(owner::gpu_kernel)) d->kernels.insert(v);
        d->add_stream(e);
      }
    } else if (e.kind == event_kind::api || e.kind == event_kind::jit ||
               (e.kind == event_kind::stage && (!e.stage.span || e.stage.adopted))) {
      // A span may be waiting, which is no sign of the host at work; a thread that adopted a part of it is in that
      // part.
      const std::size_t o = static_cast<std::size_t>(e.kind == event_kind::stage ? owner::host_stage : host_owner(c));
      if (e.kind != event_kind::stage || !e.stage.adopted) ++count_[o];
      insert_from(all_, o, v);
      insert_from(host_, o - first_host, v);
    }
  }
  void add(const event& e) { add(e, category_of(e)); }

  /// Last end seen, at least the window's start.
  std::int64_t last_ns() const noexcept { return last_ns_ > start_ns_ ? last_ns_ : start_ns_; }

  /// All owners; those of the GPU, all devices together, come before those of the host. @param end_ns of the window;
  /// raised to the last end seen.
  breakdown_table everything(std::int64_t end_ns) const { return table(all_, 0, end_ns); }
  /// Host alone, whatever the GPU did; the GPU's owners are 0.
  breakdown_table host(std::int64_t end_ns) const { return table(host_, first_host, end_ns); }

  /// By device number. Devices beyond the bounds are left out, see `devices_left_out`.
  CUTRACE_NOINLINE std::vector<device_time> devices() const {
    std::vector<device_time> list;
    for (const auto& d : devices_) {
      const interval_set &busy = d.second.busy, &unfinished = d.second.unfinished;
      if (busy.empty() && unfinished.empty()) continue;
      device_time t;
      t.device = d.first;
      t.busy_ns = recorded_part(busy);
      t.kernel_ns = recorded_part(d.second.kernels);
      t.streams = d.second.streams.size();
      t.approximate = is_estimated(d.second);
      if (pieces_ == 0) t.unfinished_ns = unfinished.length_ns() - busy.shared_ns(unfinished);
      for (const interval v : unfinished.kept())
        for (const interval r : recorded_.kept()) {
          const interval part = clip(v, r);
          add_ns(t.unfinished_ns, part.length_ns() - busy.measure_ns(part));
        }
      t.active = busy.empty() ? unfinished.span() : busy.span();
      if (!unfinished.empty())
        t.active = {std::min(t.active.start_ns, unfinished.span().start_ns),
                    std::max(t.active.end_ns, unfinished.span().end_ns)};
      if (pieces_ != 0) t.active = clip(t.active, recorded_.span());
      list.push_back(t);
    }
    return list;
  }
  bool devices_left_out() const noexcept { return devices_left_out_; }
  /// Whether `devices` has one that is `approximate`.
  bool devices_approximate() const noexcept {
    return std::any_of(devices_.begin(), devices_.end(), [this](const auto& d) { return is_estimated(d.second); });
  }

 private:
  static constexpr std::size_t first_host = static_cast<std::size_t>(owner::host_init);
  static constexpr std::size_t nothing = static_cast<std::size_t>(owner::nothing);
  using host_unions = std::array<interval_set, nothing - first_host>;
  using all_unions = std::array<interval_set, nothing>;

  // Union k holds all owners up to k. An interval that adds nothing to one union adds nothing to later ones.
  template <class Unions>
  static void insert_from(Unions& unions, std::size_t first, interval v) {
    for (std::size_t k = first; k < unions.size(); ++k)
      if (unions[k].insert(v) == 0 && !unions[k].folded()) return;
  }

  template <class Unions>
  breakdown_table table(const Unions& unions, std::size_t first_owner, std::int64_t end_ns) const {
    breakdown_table t;
    t.window = {start_ns_, std::max(time_of(end_ns), last_ns())};
    std::int64_t before = 0;
    for (std::size_t k = 0; k < unions.size(); ++k) {
      // Unions that folded (interval_set) at different times may disagree a little: each is taken as at least as long
      // as the one before it, and at most as long as the window.
      const std::int64_t upto = std::min(std::max(recorded_part(unions[k]), before), t.window.length_ns());
      t.ns[first_owner + k] = upto - before;
      t.uncertain_ns = std::max(t.uncertain_ns, unions[k].uncertain_ns());
      t.approximate = t.approximate || is_estimated(unions[k]);
      before = upto;
    }
    t.pieces = pieces_;
    t.recorded_ns =
        pieces_ == 0 ? t.window.length_ns() : std::max(std::min(recorded_.length_ns(), t.window.length_ns()), before);
    t.ns[nothing] = t.recorded_ns - before;
    for (std::size_t o = first_owner; o < owner_count; ++o) t.count[o] = count_[o];
    return t;
  }

  /// Length of the part of `of` inside the recorded time; the whole length where the whole trace was recorded.
  std::int64_t recorded_part(const interval_set& of) const {
    return pieces_ == 0 ? of.length_ns() : of.shared_ns(recorded_);
  }

  struct device_union {
    explicit device_union(const bounds& limits)
        : busy(limits.row_intervals), unfinished(limits.row_intervals), kernels(limits.row_intervals) {}
    interval_set busy, unfinished, kernels;
    using stream_key = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;  ///< process, context, stream
    std::set<stream_key> streams;
    stream_key last{UINT32_MAX, UINT32_MAX, UINT64_MAX};

    void add_stream(const event& e) {
      const stream_key key(e.process_id, e.context, e.stream);
      if (key == last) return;
      last = key;
      if (streams.size() < 4096) streams.insert(key);
    }
  };

  /// Only the length of the folded past is known, not which part of it lies inside the recorded time.
  bool is_estimated(const interval_set& s) const noexcept {
    return s.uncertain_ns() > 0 || (pieces_ != 0 && (s.folded() || recorded_.folded()));
  }
  bool is_estimated(const device_union& d) const noexcept {
    return is_estimated(d.busy) || is_estimated(d.kernels) || is_estimated(d.unfinished) || d.unfinished.folded();
  }

  device_union* device(std::uint32_t number) {
    const auto found = devices_.find(number);
    if (found != devices_.end()) return &found->second;
    if (limits_.devices != 0 && devices_.size() >= limits_.devices) {
      devices_left_out_ = true;
      return nullptr;
    }
    return &devices_.emplace(number, device_union(limits_)).first->second;
  }

  std::int64_t start_ns_;
  bounds limits_;
  host_unions host_;
  all_unions all_;
  std::map<std::uint32_t, device_union> devices_;
  bool devices_left_out_ = false;
  std::array<std::uint64_t, owner_count> count_{};
  interval_set recorded_;
  std::uint64_t pieces_ = 0;
  std::int64_t last_ns_ = INT64_MIN;
};

/// The host's owner with the most time. `owner::nothing` competes only where it is `allowed`, and is the result where
/// no owner has any time.
CUTRACE_NOINLINE inline owner largest_host_owner(const breakdown_table& t, bool allowed) noexcept {
  std::size_t best = owner_count - 1;
  std::int64_t best_ns = allowed ? t.ns[best] : 0;
  for (std::size_t o = static_cast<std::size_t>(owner::host_init); o + 1 < owner_count; ++o)
    if (t.ns[o] > best_ns) best_ns = t.ns[best = o];
  return static_cast<owner>(best);
}

/// The row to look at first. Where the GPU is at work for half of the time or more, its largest row; else the owner of
/// the host with the most time while the GPU was idle, which may be `nothing`. `owner::nothing` for an empty table.
CUTRACE_NOINLINE inline owner bottleneck(const breakdown_table& t) noexcept {
  const std::int64_t gpu_ns = t.gpu_busy_ns() + t.gpu_unfinished_ns();
  if (gpu_ns == 0 || 2 * gpu_ns < t.recorded_ns) return largest_host_owner(t, true);
  std::size_t best = 0;
  for (std::size_t o = 1; is_gpu(static_cast<owner>(o)); ++o)
    if (t.ns[o] > t.ns[best]) best = o;
  return static_cast<owner>(best);
}

/// Tenths of a percent by owner that add up to exactly 1000 where the window is not empty (largest remainder).
CUTRACE_NOINLINE inline std::array<std::uint32_t, owner_count> permille_of(const breakdown_table& t) noexcept {
  std::array<std::uint32_t, owner_count> share{};
  const double whole = static_cast<double>(t.recorded_ns);
  if (whole <= 0) return share;
  std::array<double, owner_count> rest{};
  std::uint32_t given = 0;
  for (std::size_t o = 0; o < owner_count; ++o) {
    const double exact = static_cast<double>(t.ns[o]) * 1000.0 / whole;
    share[o] = static_cast<std::uint32_t>(exact);
    rest[o] = exact - static_cast<double>(share[o]);
    given += share[o];
  }
  for (; given < 1000; ++given) {
    std::size_t most = 0;
    for (std::size_t o = 1; o < owner_count; ++o)
      if (rest[o] > rest[most]) most = o;
    ++share[most];
    rest[most] = -1.0;
  }
  return share;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
