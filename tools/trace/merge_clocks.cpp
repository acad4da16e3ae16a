// SPDX-License-Identifier: Apache-2.0
#include "trace/merge_clocks.hpp"

#include <utility>

namespace cutrace_reading {

namespace {

/// Wraps instead of overflowing, since a hostile file may have any clocks.
std::int64_t difference(std::uint64_t a, std::uint64_t b) noexcept { return static_cast<std::int64_t>(a - b); }

bool has_monotonic(const trace_facts& t) noexcept { return !t.boot_id.empty() && t.start.monotonic_ns != 0; }
bool same_boot(const trace_facts& a, const trace_facts& b) noexcept {
  return has_monotonic(a) && has_monotonic(b) && a.boot_id == b.boot_id;
}

/// Did `a` begin before `b`? By the best clock that they share.
bool began_before(const trace_facts& a, const trace_facts& b) noexcept {
  return same_boot(a, b) ? a.start.monotonic_ns < b.start.monotonic_ns : a.start.realtime_ns < b.start.realtime_ns;
}

}  // namespace

clock_plan plan_clocks(const std::vector<trace_facts>& traces, const std::vector<std::string>& names) {
  clock_plan plan;
  plan.places.resize(traces.size());
  bool one_boot = true;
  for (const trace_facts& t : traces) one_boot = one_boot && same_boot(t, traces[0]);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (!one_boot && traces[i].start.realtime_ns == 0)
      throw reading_error("\"" + names[i] +
                          "\" does not say what CLOCK_REALTIME was when it began, so it has no place among traces of "
                          "other boots or hosts");
    clock_place& p = plan.places[i];
    p.representative = i;
    // The one that began first, of several the one that is named first.
    const auto began = [&](std::size_t n) { return std::make_pair(traces[n].start.monotonic_ns, n); };
    for (std::size_t k = 0; k < traces.size(); ++k)
      if (same_boot(traces[k], traces[i]) && began(k) < began(p.representative)) p.representative = k;
  }
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (began_before(traces[plan.places[i].representative], traces[plan.first]))
      plan.first = plan.places[i].representative;
  plan.first = plan.places[plan.first].representative;
  const trace_facts& first = traces[plan.first];
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const trace_facts& t = traces[i];
    clock_place& p = plan.places[i];
    const trace_facts& r = traces[p.representative];
    p.by_monotonic = same_boot(t, first);
    p.offset_ns = difference(0, static_cast<std::uint64_t>(t.start.trace_ns));
    if (p.representative != i)
      p.offset_ns = shifted(p.offset_ns, difference(t.start.monotonic_ns, r.start.monotonic_ns));
    if (!p.by_monotonic) p.offset_ns = shifted(p.offset_ns, difference(r.start.realtime_ns, first.start.realtime_ns));
    if (i != plan.first) p.error_ns = t.start.error_ns + first.start.error_ns;
    if (!p.by_monotonic && p.representative != i) p.error_ns += r.start.error_ns;
  }
  return plan;
}

}  // namespace cutrace_reading
