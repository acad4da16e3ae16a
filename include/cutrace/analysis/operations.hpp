// SPDX-License-Identifier: Apache-2.0
// Count, total, shortest and longest by name: which kernels, copies and calls took the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// One row of a table by name. Durations are summed over streams and threads, so a total may exceed the wall time.
struct operation_totals {
  category is = category::other;
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t shortest_ns = UINT64_MAX;
  std::uint64_t longest_ns = 0;
  std::uint64_t failed = 0;  ///< calls with a result other than success or "not ready"
  double mean_ns() const noexcept {
    return count == 0 ? 0.0 : static_cast<double>(total_ns) / static_cast<double>(count);
  }
};
struct operation : operation_totals {
  std::string name;
  bool percentiles = false;  ///< whether the table kept percentiles of this name
  std::uint64_t p50_ns = 0, p90_ns = 0, p99_ns = 0;
};

constexpr std::size_t copy_direction_count = 6;

/// The name of an event's row in the tables: copies by direction, everything else by its own name.
inline text operation_name(const event& e) noexcept {
  const auto literal = [](const char* s) {
    text t;
    t.data = s;
    t.size = static_cast<std::uint32_t>(std::char_traits<char>::length(s));
    return t;
  };
  if (e.kind == event_kind::memcpy) {
    constexpr const char* names[] = {"[memcpy]",      "[memcpy HtoD]", "[memcpy DtoH]",
                                     "[memcpy DtoD]", "[memcpy HtoH]", "[memcpy PtoP]"};
    return literal(names[static_cast<std::size_t>(e.memcpy_.direction) % copy_direction_count]);
  }
  if (e.kind == event_kind::memset) return literal("[memset]");
  if (e.kind == event_kind::graph_launch && e.name.size == 0) return literal("[graph]");
  return e.name;
}

class operation_table {
 public:
  explicit operation_table(const bounds& limits = {})
      : names_(limits.names, limits.name_bytes),
        histogram_limit_(limits.histograms == 0 ? UINT32_MAX : limits.histograms) {}

  /// Counts `e` and returns its category, remembered by name. GPU work without times (event::incomplete) is not
  /// counted. For calls (by function) or GPU work (by kernel; copies by direction); not both in one table.
  category add(const event& e) {
    const text name = operation_name(e);
    const std::uint32_t n = names_.number(name);
    if (n >= rows_.size()) rows_.resize(names_.size());
    operation_totals& o = rows_[n];
    // Names that share the number `others` may have different categories.
    const category is = n == name_table::others ? category_of(e) : o.count == 0 ? (o.is = category_of(e)) : o.is;
    if (CUTRACE_UNLIKELY(e.incomplete)) return is;
    const std::uint64_t ns = static_cast<std::uint64_t>(interval_of(e).length_ns());
    ++o.count;
    o.total_ns += ns;
    o.shortest_ns = std::min(o.shortest_ns, ns);
    o.longest_ns = std::max(o.longest_ns, ns);
    if (n < histogram_limit_) add_percentile(n, ns);
    if (e.kind == event_kind::api && call_failed(e)) ++o.failed;
    ++total_count_;
    total_ns_ += ns;
    return is;
  }

  std::uint64_t total_count() const noexcept { return total_count_; }
  /// Sum of all durations.
  std::uint64_t total_ns() const noexcept { return total_ns_; }
  std::size_t size() const noexcept {
    std::size_t n = 0;
    for (const operation_totals& o : rows_) n += o.count > 0;
    return n;
  }
  bool names_left_out() const noexcept { return names_.refused() > 0; }

  /// The `n` rows with the largest total.
  CUTRACE_NOINLINE std::vector<operation> top(std::size_t n) const {
    constexpr std::uint64_t limit = INT64_MAX;
    std::vector<ranked> order;
    for (std::uint32_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].count > 0) order.push_back({static_cast<std::int64_t>(std::min(rows_[i].total_ns, limit)), 0, i});
    rank(order);
    std::vector<operation> list(std::min(n, order.size()));
    for (std::size_t i = 0; i < list.size(); ++i) {
      static_cast<operation_totals&>(list[i]) = rows_[order[i].index];
      list[i].name = names_.name(order[i].index);
      list[i].percentiles = order[i].index < histograms_.size();
      if (!list[i].percentiles) continue;
      const duration_histogram& times = histograms_[order[i].index];
      list[i].p50_ns = times.percentile_ns(50);
      list[i].p90_ns = times.percentile_ns(90);
      list[i].p99_ns = times.percentile_ns(99);
    }
    return list;
  }

 private:
  CUTRACE_ONE_COPY void add_percentile(std::uint32_t number, std::uint64_t ns) {
    if (number >= histograms_.size()) histograms_.resize(std::min<std::size_t>(names_.size(), histogram_limit_));
    histograms_[number].add(ns);
  }

  name_table names_;
  std::size_t histogram_limit_;                 ///< names that have a histogram, a hundred bytes and more each
  std::vector<duration_histogram> histograms_;  ///< by number
  std::vector<operation_totals> rows_;          ///< by number
  std::uint64_t total_count_ = 0;
  std::uint64_t total_ns_ = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
