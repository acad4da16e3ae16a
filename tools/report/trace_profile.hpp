// SPDX-License-Identifier: Apache-2.0
// The figures of a trace that `cutrace diff` compares: totals, and count and time of each stage, GPU operation, call.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/statistics.hpp"
#include "report/trace_analysis.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// Totals of a trace, in ns.
enum class total_figure : std::uint8_t {
  wall,       ///< time recorded
  gpu_busy,   ///< some device at work
  gpu_idle,   ///< wall - gpu_busy
  kernels,    ///< union of kernels on each device, summed over devices
  transfers,  ///< union of copies on each device, summed over devices
  waiting,    ///< calls that wait for the device, summed over threads
};
constexpr std::size_t total_figure_count = 6;
inline const char* name_of(total_figure f) noexcept {
  constexpr const char* names[] = {"wall", "gpu_busy", "gpu_idle", "kernels", "transfers", "waiting"};
  return names[static_cast<std::size_t>(f)];
}

/// Groups of rows by name. `stage_gpu` is the union of the GPU work of a stage and of the stages nested in it.
enum class profile_group : std::uint8_t { stages, stage_gpu, gpu_operations, calls };
constexpr std::size_t profile_group_count = 4;
inline const char* name_of(profile_group g) noexcept {
  constexpr const char* names[] = {"stages", "stage_gpu", "gpu_operations", "calls"};
  return names[static_cast<std::size_t>(g)];
}

struct profile_row {
  std::uint64_t count = 0;
  std::int64_t total_ns = 0;
  std::vector<double> sample;  ///< durations [ns], a random sample of at most `keep` of `add`
  /// [0]: events that began before half of the trace's GPU work had begun (middle_of); [1]: the later ones.
  std::array<std::uint64_t, 2> half_count{};
  std::array<std::int64_t, 2> half_ns{};

  double mean_ns() const noexcept {
    return count == 0 ? 0.0 : static_cast<double>(total_ns) / static_cast<double>(count);
  }
  /// Adds a duration. `sample` keeps at most `keep` of all, by Vitter's algorithm R.
  void add(const interval& when, std::int64_t middle_ns, std::size_t keep, small_random& random) {
    const std::int64_t ns = when.length_ns();
    const std::size_t half = when.start_ns >= middle_ns;
    ++half_count[half];
    add_ns(half_ns[half], ns);
    ++count;
    add_ns(total_ns, ns);
    if (sample.size() < keep) {
      sample.push_back(static_cast<double>(ns));
    } else if (keep > 0) {
      const std::size_t place = random.below(static_cast<std::size_t>(count));
      if (place < keep) sample[place] = static_cast<double>(ns);
    }
  }
};

struct trace_profile {
  std::array<std::int64_t, total_figure_count> totals_ns{};
  std::array<std::map<std::string, profile_row>, profile_group_count> rows;
  std::uint64_t lost = 0;
  std::string missing;  ///< what the trace lacks, in words; empty: nothing

  std::map<std::string, profile_row>& of(profile_group g) { return rows[static_cast<std::size_t>(g)]; }
  const std::map<std::string, profile_row>& of(profile_group g) const { return rows[static_cast<std::size_t>(g)]; }
};

/// The name that operation_name gives, except that a copy from host to host is "[memcpy]", too.
inline std::string name_of_work(const trace_log& log, const gpu_work& w) {
  switch (w.is) {
    case work_class::host_to_device:
      return "[memcpy HtoD]";
    case work_class::device_to_host:
      return "[memcpy DtoH]";
    case work_class::device_to_device:
      return "[memcpy DtoD]";
    case work_class::peer:
      return "[memcpy PtoP]";
    case work_class::other_copy:
      return "[memcpy]";
    case work_class::set:
      return "[memset]";
    default:
      break;
  }
  const std::string& name = log.names().name(w.name);
  return name.empty() && w.graph ? "[graph]" : name;
}

/// Time at which half of the GPU work had begun; a long trace is sampled, every n-th piece of work. Without GPU work:
/// at which half of the stages had begun.
inline std::int64_t middle_of(const trace_log& log) {
  constexpr std::size_t enough = 65536;
  std::vector<std::int64_t> starts;
  const std::size_t step = log.work().size() / enough + 1;
  for (std::size_t i = 0; i < log.work().size(); i += step) starts.push_back(log.work()[i].when.start_ns);
  if (starts.empty())
    for (const std::uint32_t n : log.stage_order()) starts.push_back(log.stages()[n].when.start_ns);
  if (starts.empty()) return 0;
  const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
  std::nth_element(starts.begin(), middle, starts.end());
  return *middle;
}

/// @param a after `finish`, whose result is `r` @param keep how many durations are kept of each row,
/// for the test of significance where each side is a single run
CUTRACE_NOINLINE inline trace_profile profile_of(const trace_analysis& a, const trace_results& r, std::size_t keep) {
  trace_profile p;
  const trace_log& log = a.log();
  const breakdown_table& all = r.time.everything;
  const auto total = [&p](total_figure f) -> std::int64_t& { return p.totals_ns[static_cast<std::size_t>(f)]; };
  total(total_figure::wall) = all.recorded_ns;
  total(total_figure::gpu_busy) = all.gpu_busy_ns();
  total(total_figure::gpu_idle) = all.gpu_idle_ns();
  for (const device_activity& d : r.devices) {
    total(total_figure::kernels) += d.kernel_ns;
    total(total_figure::transfers) += d.copy_ns;
  }
  total(total_figure::waiting) = static_cast<std::int64_t>(r.numbers.sync_ns);
  const std::int64_t middle_ns = middle_of(log);
  small_random random(1);
  // Rows by number first: a name is looked up once, not for each event.
  std::map<std::pair<work_class, std::uint32_t>, profile_row*> work_rows;
  for (std::size_t i = 0; i < log.work().size(); ++i) {
    const gpu_work& w = log.work()[i];
    if (w.is == work_class::unfinished) continue;
    profile_row*& row = work_rows[{is_kernel(w.is) ? work_class::compute : w.is, is_kernel(w.is) ? w.name : 0}];
    if (row == nullptr) row = &p.of(profile_group::gpu_operations)[name_of_work(log, w)];
    row->add(w.when, middle_ns, keep, random);
  }
  std::vector<profile_row*> call_rows(log.names().size(), nullptr);
  for (const thread_calls& t : log.threads())
    for (std::size_t i = 0; i < t.calls().size(); ++i) {
      const host_call& c = t.calls()[i];
      if (call_rows[c.name] == nullptr) call_rows[c.name] = &p.of(profile_group::calls)[log.names().name(c.name)];
      call_rows[c.name]->add(c.when, middle_ns, keep, random);
    }
  std::vector<profile_row*> stage_rows(log.names().size(), nullptr);
  for (const std::uint32_t n : log.stage_order()) {
    const stage_instance& s = log.stages()[n];
    if (stage_rows[s.name] == nullptr) stage_rows[s.name] = &p.of(profile_group::stages)[log.names().name(s.name)];
    stage_rows[s.name]->add(s.when, middle_ns, keep, random);
  }
  for (const stage_cost& s : r.stages.stages) {
    if (s.gpu_inclusive_ns == 0 || s.calls == 0) continue;
    profile_row& row = p.of(profile_group::stage_gpu)[s.name];
    row.count = s.calls;
    row.total_ns = s.gpu_inclusive_ns;
  }
  return p;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
