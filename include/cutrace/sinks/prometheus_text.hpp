// SPDX-License-Identifier: Apache-2.0
// Prometheus's text format, version 0.0.4: families with HELP and TYPE, samples with escaped labels, histograms with
// cumulative buckets. https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_digits.hpp>
#include <cutrace/detail/text_utf8.hpp>
#include <cutrace/sinks/prometheus_histogram.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

/// Longest name kept as a label, in bytes; names that agree up to here share their series.
inline constexpr std::size_t longest_label = 128;

/// Any bytes as the value of a label, not escaped yet: valid UTF-8, no control characters, cut at a character's end.
/// What cannot stay becomes U+FFFD.
CUTRACE_NOINLINE inline std::string label_value(std::string_view name) {
  std::string value;
  for (std::size_t at = 0; at < name.size();) {
    const unsigned char* s = reinterpret_cast<const unsigned char*>(name.data()) + at;
    const detail::utf8_step step = detail::next_utf8(s, name.size() - at);
    const bool control = s[0] < 0x20 || s[0] == 0x7F || (s[0] == 0xC2 && step.size == 2 && s[1] < 0xA0);
    const std::string_view piece = step.valid && !control ? name.substr(at, step.size) : "\xEF\xBF\xBD";
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
