// SPDX-License-Identifier: Apache-2.0
// Prometheus's text format, version 0.0.4: families with HELP and TYPE, samples with escaped labels, histograms with
// cumulative buckets. https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/output/utf8.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

// A histogram of durations as Prometheus counts them. All of them share one row of bounds, 1-2-5 from 1 us to 50 s:
// launch delays are microseconds, times to the first token seconds, and histograms with equal bounds can be added up.

struct bound {
  std::int64_t ns;  ///< a duration of exactly this length is still inside, as `le` says
  const char* seconds;
};
inline constexpr bound bounds[] = {
    {1000, "0.000001"}, {2000, "0.000002"},  {5000, "0.000005"},  {10000, "0.00001"},  {20000, "0.00002"},
    {50000, "0.00005"}, {100000, "0.0001"},  {200000, "0.0002"},  {500000, "0.0005"},  {1000000, "0.001"},
    {2000000, "0.002"}, {5000000, "0.005"},  {10000000, "0.01"},  {20000000, "0.02"},  {50000000, "0.05"},
    {100000000, "0.1"}, {200000000, "0.2"},  {500000000, "0.5"},  {1000000000, "1"},   {2000000000, "2"},
    {5000000000, "5"},  {10000000000, "10"}, {20000000000, "20"}, {50000000000, "50"},
};
inline constexpr std::size_t bound_count = sizeof(bounds) / sizeof(bounds[0]);

/// a + b, or the largest number: a counter that wrapped would look like a restart of the program.
inline std::uint64_t saturated_sum(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

struct histogram {
  std::uint64_t counts[bound_count + 1] = {};  ///< not cumulative; the last one is beyond all bounds
  std::uint64_t sum_ns = 0;

  void observe(std::int64_t ns) noexcept {
    ns = std::max<std::int64_t>(ns, 0);
    const bound* at =
        std::lower_bound(bounds, bounds + bound_count, ns, [](const bound& b, std::int64_t v) { return b.ns < v; });
    ++counts[at - bounds];
    sum_ns = saturated_sum(sum_ns, static_cast<std::uint64_t>(ns));
  }
  bool empty() const noexcept {
    return std::all_of(counts, counts + bound_count + 1, [](std::uint64_t n) { return n == 0; });
  }
};

/// Longest name kept as a label, in bytes; names that agree up to here share their series.
inline constexpr std::size_t longest_label = 128;

/// Any bytes as the value of a label, not escaped yet: valid UTF-8, no control characters and none that turn text,
/// cut at a character's end. What cannot stay becomes U+FFFD.
CUTRACE_NOINLINE inline std::string label_value(std::string_view name) {
  std::string value;
  for (std::size_t at = 0; at < name.size();) {
    const unsigned char* s = reinterpret_cast<const unsigned char*>(name.data()) + at;
    const detail::utf8_step step = detail::next_utf8(s, name.size() - at);
    const bool control = s[0] < 0x20 || s[0] == 0x7F || (s[0] == 0xC2 && step.size == 2 && s[1] < 0xA0);
    const std::string_view piece =
        step.valid && !control && !detail::turns_text(s, step.size) ? name.substr(at, step.size) : "\xEF\xBF\xBD";
    if (value.size() + piece.size() > longest_label) break;
    value += piece;
    at += step.size;
  }
  return value;
}

struct label {
  const char* name;
  std::string_view value;  ///< as label_value makes it
};

class page {
 public:
  using labels = std::initializer_list<label>;

  /// Begins a family; its samples follow. `type`: counter, gauge or histogram. `name` must live until the next one.
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    out_.append("# HELP ").append(name).append(" ").append(help);
    out_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }

  void sample(labels of, std::uint64_t value) {
    begin("", of, nullptr);
    number(value);
  }
  void sample_signed(labels of, std::int64_t value) {
    begin("", of, nullptr);
    char digits[detail::decimal_room];
    end_line(digits, detail::put_integer(digits, value));
  }
  void sample_seconds(labels of, std::uint64_t ns) {
    begin("", of, nullptr);
    seconds(ns);
  }
  void sample(labels of, const histogram& h) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i <= bound_count; ++i) {
      total += h.counts[i];
      begin("_bucket", of, i < bound_count ? bounds[i].seconds : "+Inf");
      number(total);
    }
    begin("_sum", of, nullptr);
    seconds(h.sum_ns);
    begin("_count", of, nullptr);
    number(total);
  }

  std::string take() { return std::move(out_); }

 private:
  void begin(const char* suffix, labels of, const char* le) {
    out_.append(name_).append(suffix);
    char before = '{';
    for (const label& l : of) {
      out_ += before;
      before = ',';
      out_.append(l.name).append("=\"");
      for (const char c : l.value) {
        if (c == '"' || c == '\\') out_ += '\\';
        out_ += c;  // line ends were replaced by label_value
      }
      out_ += '"';
    }
    if (le != nullptr) {
      out_ += before;
      before = ',';
      out_.append("le=\"").append(le).append("\"");
    }
    out_.append(before == ',' ? "} " : " ");
  }
  void number(std::uint64_t n) {
    char digits[detail::decimal_room];
    end_line(digits, detail::put_decimal(digits, n));
  }
  /// Exact: all nine decimals, from integers.
  void seconds(std::uint64_t ns) {
    char digits[2 * detail::decimal_room];
    char* to = detail::put_decimal(digits, ns / 1000000000);
    std::uint64_t rest = ns % 1000000000;
    *to = '.';
    for (int i = 9; i > 0; --i, rest /= 10) to[i] = static_cast<char>('0' + rest % 10);
    end_line(digits, to + 10);
  }
  void end_line(const char* from, const char* to) {
    out_.append(from, static_cast<std::size_t>(to - from));
    out_ += '\n';
  }

  std::string out_;
  const char* name_ = "";
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
