// SPDX-License-Identifier: Apache-2.0
// The tables of a report as CSV (RFC 4180): a head of column names, CR LF behind each record, quotes around fields that
// need them. UTF-8; wrong UTF-8 and control characters become U+FFFD, since RFC 4180 does not allow them. Tab and line
// breaks stay, since readers accept them. A text that begins with = + - @, tab or CR and is no number gets a ' in
// front, so that no spreadsheet runs it as a formula.
#pragma once

#include <cstddef>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/output/utf8.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "report/pages/tables.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

inline bool is_decimal(std::string_view s) noexcept {
  std::size_t digits = 0, dots = 0;
  for (std::size_t i = !s.empty() && (s[0] == '-' || s[0] == '+') ? 1 : 0; i < s.size(); ++i) {
    if (s[i] == '.')
      ++dots;
    else if (s[i] >= '0' && s[i] <= '9')
      ++digits;
    else
      return false;
  }
  return digits != 0 && dots <= 1;
}

CUTRACE_NOINLINE inline void append_csv(std::string& out, std::string_view s) {
  std::string text;
  if (!s.empty() && std::string_view("=+-@\t\r").find(s[0]) != std::string_view::npos && !is_decimal(s)) text = "'";
  bool quoted = false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(s.data());
  for (std::size_t at = 0; at < s.size();) {
    const detail::utf8_step step = detail::next_utf8(bytes + at, s.size() - at);
    const unsigned char c = bytes[at];
    const bool breaks = c == '\n' || c == '\r';
    if (!step.valid || c == 0x7f || (c < 0x20 && c != '\t' && !breaks)) {
      text += "\xEF\xBF\xBD";
    } else {
      if (c == '"') text += '"';
      text.append(s, at, step.size);
      quoted = quoted || breaks || c == '"' || c == ',';
    }
    at += step.size;
  }
  // Readers drop spaces at the ends of fields that stand without quotes.
  quoted = quoted || (!text.empty() && (text.front() == ' ' || text.back() == ' '));
  if (quoted) out += '"';
  out += text;
  if (quoted) out += '"';
}

/// Makes the text of each table; a table without rows still has its head of column names.
class csv_out {
 public:
  struct file {
    std::string name;  ///< of the table
    std::string text;
  };

  template <class Fill>
  void object(const char* name, Fill&& fill) {
    const std::vector<int> one(1);
    table(name, one, [&](auto& row, int) { fill(row); });
  }
  template <class Item, class Fill>
  void table(const char* name, const std::vector<Item>& list, Fill&& fill) {
    file f{name, {}};
    csv_row head{f.text, true, false};
    fill(head, Item{});
    f.text += "\r\n";
    for (const Item& item : list) {
      csv_row row{f.text, false, false};
      fill(row, item);
      f.text += "\r\n";
    }
    files_.push_back(std::move(f));
  }
  /// The column `finding` numbers the findings from 1 on, in the tables findings, evidence and meanwhile.
  template <class Finding, class Fill, class FillProof, class FillCompany>
  void findings(const std::vector<Finding>& found, Fill&& fill, FillProof&& fill_proof, FillCompany&& fill_company) {
    std::size_t n = 0;
    bool head = true;  // the first row has the column names
    table("findings", found, [&](auto& row, const Finding& f) {
      row("finding", head ? std::size_t{0} : ++n);
      head = false;
      fill(row, f);
    });
    of_findings(
        "evidence", found, [](const Finding& f) -> const auto& { return f.proof; }, fill_proof);
    of_findings(
        "meanwhile", found, [](const Finding& f) -> const auto& { return f.meanwhile; }, fill_company);
  }

  const std::vector<file>& files() const noexcept { return files_; }

 private:
  template <class Finding, class List, class Fill>
  void of_findings(const char* name, const std::vector<Finding>& found, List&& list_of, Fill&& fill) {
    using item = typename std::decay<decltype(list_of(found.front()).front())>::type;
    std::vector<std::pair<std::size_t, item>> all;
    for (std::size_t i = 0; i < found.size(); ++i)
      for (const item& e : list_of(found[i])) all.emplace_back(i + 1, e);
    table(name, all, [&](auto& row, const std::pair<std::size_t, item>& e) {
      row("finding", e.first);
      fill(row, e.second);
    });
  }

  struct csv_row {
    std::string& text;
    bool head;
    bool comma;

    template <class Value>
    void operator()(const char* name, const Value& value) {
      if (comma) text += ',';
      comma = true;
      if (head)
        text += name;
      else
        put(value);
    }
    void put(bool b) { text += b ? "true" : "false"; }
    void put(double d) {
      char digits[detail::double_room];
      const char* end = detail::put_double(digits, d);
      text.append(digits, static_cast<std::size_t>(end - digits));
    }
    void put(std::string_view s) { append_csv(text, s); }
    void put(const std::string& s) { append_csv(text, s); }
    void put(const char* s) { append_csv(text, s); }
    template <class Integer, std::enable_if_t<std::is_integral<Integer>::value, int> = 0>
    void put(Integer n) {
      text += std::to_string(n);
    }
  };
  std::vector<file> files_;
};

}  // namespace tables

/// A file for each table, in the order of the report.
CUTRACE_NOINLINE inline std::vector<tables::csv_out::file> report_csv(const tables::report& in) {
  tables::csv_out out;
  tables::write_all(out, in);
  return out.files();
}

CUTRACE_END_NAMESPACE
