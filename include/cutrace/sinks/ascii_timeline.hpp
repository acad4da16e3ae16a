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

/// '.' nothing, ':' less than half of the column, else the letter of the colour with the largest share.
template <class Letter>
std::string chart_text(const chart_row& row, analysis::interval window, std::size_t columns, Letter letter) {
  const std::vector<analysis::timeline_cell> cells = row.colors.cells(window, columns);
  std::string out(columns, '.');
  for (std::size_t c = 0; c < columns; ++c) {
    const std::int64_t column_ns = analysis::timeline_row::part(window, c, columns).length_ns();
    if (cells[c].ns > 0) out[c] = 2 * cells[c].ns < column_ns ? ':' : letter(cells[c].color);
  }
  return out;
}

class timeline_section {
 public:
  timeline_section(page& out, const collection& data, analysis::interval window)
      : out_(out), data_(data), window_(window), columns_(out.width() - label_width - 11) {}

  void print(const std::vector<analysis::stage_time>& stages) {
    if (empty()) return;
    const double column_ns = static_cast<double>(window_.length_ns()) / static_cast<double>(columns_);
    out_.heading(fmt::format("TIMELINE  0 .. {}, a column is {}", duration(window_.length_ns()), duration(column_ns)),
                 "% of time");
    print_host(stages);
    print_streams();
    out_.paragraph("  i init  m memory  t transfer  K kernel  s sync  o other  : under half of the column  . nothing",
                   2);
    print_stage_legend(stages);
  }

 private:
  static constexpr std::size_t label_width = 13;

  bool empty() const {
    const auto used = [](const chart_row& r) { return r.used; };
    return std::none_of(data_.stage_rows.begin(), data_.stage_rows.end(), used) &&
           std::none_of(data_.call_rows.begin(), data_.call_rows.end(), used) && data_.stream_rows.empty();
  }

  static char category_letter(std::uint32_t color) noexcept {
    return analysis::letter_of(static_cast<analysis::category>(color));
  }

  template <class Letter>
  void row(const std::string& name, const chart_row& r, Letter letter) {
    const double busy_ns = static_cast<double>(r.busy.length_ns());
    out_.line(fmt::format("  {:<{}}|{}|{:>7}", cut(name, label_width - 1), label_width - 1,
                          chart_text(r, window_, columns_, letter),
                          share_of(busy_ns, static_cast<double>(window_.length_ns()))));
  }

  void print_host(const std::vector<analysis::stage_time>& stages) {
    const stage_digits digits(stages);
    for (std::size_t d = 0; d < stage_depth_count; ++d)
      if (data_.stage_rows[d].used)
        row(fmt::format("stages {}{}", d, d + 1 == stage_depth_count ? "+" : ""), data_.stage_rows[d],
            [&](std::uint32_t n) { return digits.digit(n); });
    constexpr const char* names[call_depth_count] = {"runtime API", "driver API", "ioctl"};
    for (std::size_t d = 0; d < call_depth_count; ++d)
      if (data_.call_rows[d].used) row(names[d], data_.call_rows[d], category_letter);
  }

  void print_streams() {
    for (const auto& s : data_.stream_rows)
      row(fmt::format("GPU {}:{}", s.first.first, s.first.second), s.second, category_letter);
    if (data_.other_streams.used) row("GPU others", data_.other_streams, category_letter);
  }

  void print_stage_legend(const std::vector<analysis::stage_time>& stages) {
    const std::size_t shown = std::min<std::size_t>(stages.size(), 9);
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::string entry = fmt::format("  {} {}", i + 1, label(stages[i].name, 24));
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
