// SPDX-License-Identifier: Apache-2.0
// The timeline of the ASCII report: a row for each depth of stages and of calls, one for each stream, a letter for
// what fills most of a column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/ascii_collect.hpp>
#include <cutrace/sinks/ascii_page.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// Stages have the number of their row in the table of stages, '+' beyond the ninth.
class stage_digits {
 public:
  explicit stage_digits(const std::vector<analysis::stage_time>& rows) : rows_(rows) {}
  char digit(std::uint32_t number) const noexcept {
    for (std::size_t i = 0; i < rows_.size() && i < 9; ++i)
      if (rows_[i].number == number) return static_cast<char>('1' + i);
    return '+';
  }

 private:
  const std::vector<analysis::stage_time>& rows_;
};

/// '.' nothing, ':' less than half of the column, else the letter of the colour with the largest share: a stage where
/// there are `digits`, else a category.
CUTRACE_NOINLINE inline std::string chart_text(const chart_row& row, analysis::interval window, std::size_t columns,
                                               const stage_digits* digits) {
  const std::vector<analysis::timeline_cell> cells = row.colors.cells(window, columns);
  std::string out(columns, '.');
  for (std::size_t c = 0; c < columns; ++c) {
    const std::int64_t column_ns = analysis::timeline_row::part(window, c, columns).length_ns();
    if (cells[c].ns <= 0) continue;
    if (2 * cells[c].ns < column_ns)
      out[c] = ':';
    else
      out[c] = digits != nullptr ? digits->digit(cells[c].color)
                                 : analysis::letter_of(static_cast<analysis::category>(cells[c].color));
  }
  return out;
}

class timeline_section {
 public:
  timeline_section(page& out, const collection& data, analysis::interval window)
      : out_(out), data_(data), window_(window), columns_(out.width() - label_width - 11) {}

  CUTRACE_NOINLINE void print(const std::vector<analysis::stage_time>& stages) {
    if (empty()) return;
    const double column_ns = static_cast<double>(window_.length_ns()) / static_cast<double>(columns_);
    out_.heading({"TIMELINE  0 .. ", duration(window_.length_ns()), ", a column is ", duration(column_ns)},
                 "% of time");
    print_host(stages);
    print_streams();
    const bool categories = any_call() || !data_.stream_rows.empty();
    out_.paragraph({categories ? "  i init  m memory  t transfer  K kernel  s sync  o other" : "",
                    "  : under half of the column  . nothing"},
                   2);
    print_stage_legend(stages);
  }

 private:
  static constexpr std::size_t label_width = 13;

  bool empty() const {
    for (const chart_row& r : data_.stage_rows)
      if (r.used) return false;
    return !any_call() && data_.stream_rows.empty();
  }
  bool any_call() const {
    for (const chart_row& r : data_.call_rows)
      if (r.used) return true;
    return false;
  }

  CUTRACE_NOINLINE void row(std::string_view name, const chart_row& r, const stage_digits* digits = nullptr) {
    const double busy_ns = static_cast<double>(r.busy.length_ns());
    out_.line({"  ",
               {cut(std::string(name), label_width - 1), left(label_width - 1)},
               "|",
               chart_text(r, window_, columns_, digits),
               "|",
               {share_of(busy_ns, static_cast<double>(window_.length_ns())), 7}});
  }

  CUTRACE_NOINLINE void print_host(const std::vector<analysis::stage_time>& stages) {
    const stage_digits digits(stages);
    for (std::size_t d = 0; d < stage_depth_count; ++d)
      if (data_.stage_rows[d].used)
        row(figure("stages ").add(ascii::digits(d)).add(d + 1 == stage_depth_count ? "+" : ""), data_.stage_rows[d],
            &digits);
    constexpr const char* names[call_depth_count] = {"runtime API", "driver API", "ioctl", "system"};
    for (std::size_t d = 0; d < call_depth_count; ++d)
      if (data_.call_rows[d].used) row(names[d], data_.call_rows[d]);
  }

  CUTRACE_NOINLINE void print_streams() {
    for (const auto& s : data_.stream_rows)
      row(figure("GPU ").add(digits(s.first.first)).add(":").add(digits(s.first.second)), s.second);
    if (data_.other_streams.used) row("GPU others", data_.other_streams);
  }

  CUTRACE_NOINLINE void print_stage_legend(const std::vector<analysis::stage_time>& stages) {
    const std::size_t shown = std::min<std::size_t>(stages.size(), 9);
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::string entry = joined({"  ", digits(i + 1), " ", label(stages[i].name, 24)});
      if (text.size() + entry.size() > out_.width()) {
        out_.line(text);
        text.clear();
      }
      text += entry;
    }
    if (stages.size() > shown) text += "  + others";
    if (!text.empty()) out_.line(text);
  }

  page& out_;
  const collection& data_;
  analysis::interval window_;
  std::size_t columns_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
