// SPDX-License-Identifier: Apache-2.0
// Two texts as a short unified diff: what a failing test prints of a golden file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace golden {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (end == text.size()) lines.back() += "  (no newline at the end)";
    at = end + 1;
  }
  return lines;
}

class unified_diff {
 public:
  unified_diff(const std::string& golden_text, const std::string& now_text)
      : golden_(lines_of(golden_text)), now_(lines_of(now_text)) {
    std::size_t head = 0, tail = 0;
    const std::size_t shorter = std::min(golden_.size(), now_.size());
    while (head < shorter && golden_[head] == now_[head]) ++head;
    while (tail < shorter - head && golden_[golden_.size() - 1 - tail] == now_[now_.size() - 1 - tail]) ++tail;
    for (std::size_t i = 0; i < head; ++i) steps_.push_back({' ', i, i});
    compare(head, golden_.size() - tail, now_.size() - tail);
    for (std::size_t i = tail; i > 0; --i) steps_.push_back({' ', golden_.size() - i, now_.size() - i});
  }

  std::string text() const {
    std::string out;
    std::size_t printed = 0;
    for (std::size_t at = 0; at < steps_.size();) {
      while (at < steps_.size() && steps_[at].mark == ' ') ++at;
      if (at == steps_.size()) break;
      if (printed >= most_lines) return out + "... and more\n";
      const std::size_t begin = at > around ? at - around : 0;
      std::size_t end = at, equal = 0;
      for (; end < steps_.size() && equal <= 2 * around; ++end) equal = steps_[end].mark == ' ' ? equal + 1 : 0;
      end -= equal > around ? equal - around : 0;
      out += "@@ golden line " + std::to_string(steps_[begin].golden + 1) + ", now line " +
             std::to_string(steps_[begin].now + 1) + " @@\n";
      for (std::size_t i = begin; i < end && printed < most_lines; ++i, ++printed) out += line(i);
      at = end;
    }
    return out;
  }

 private:
  static constexpr std::size_t around = 2, most_lines = 40, most_columns = 200;

  struct step {
    char mark;  ///< ' ' in both, '-' in the golden file alone, '+' in the new one alone
    std::size_t golden, now;
  };

  /// The longest common subsequence of the lines between `head` and the ends; of very long ones nothing is common.
  void compare(std::size_t head, std::size_t golden_end, std::size_t now_end) {
    const std::size_t rows = golden_end - head, columns = now_end - head;
    const bool too_long = rows * columns > 4000000;
    std::vector<std::uint32_t> common(too_long ? 0 : (rows + 1) * (columns + 1));
    const auto at = [&](std::size_t row, std::size_t column) -> std::uint32_t& {
      return common[row * (columns + 1) + column];
    };
    for (std::size_t i = too_long ? 0 : rows; i-- > 0;)
      for (std::size_t k = columns; k-- > 0;)
        at(i, k) = golden_[head + i] == now_[head + k] ? at(i + 1, k + 1) + 1 : std::max(at(i + 1, k), at(i, k + 1));
    for (std::size_t i = 0, k = 0; i < rows || k < columns;) {
      if (!too_long && i < rows && k < columns && golden_[head + i] == now_[head + k])
        steps_.push_back({' ', head + i++, head + k++});
      else if (i < rows && (too_long || k == columns || at(i + 1, k) >= at(i, k + 1)))
        steps_.push_back({'-', head + i++, head + k});
      else
        steps_.push_back({'+', head + i, head + k++});
    }
  }

  /// One line, of a long one that part in which it first differs from its counterpart.
  std::string line(std::size_t i) const {
    const step& s = steps_[i];
    const std::string& content = s.mark == '+' ? now_[s.now] : golden_[s.golden];
    std::size_t begin = 0;
    if (s.mark != ' ' && content.size() > most_columns) {
      const std::string& other = s.mark == '+' ? counterpart(golden_, i) : counterpart(now_, i);
      while (begin < std::min(content.size(), other.size()) && content[begin] == other[begin]) ++begin;
      begin = std::min(begin > most_columns / 4 ? begin - most_columns / 4 : 0, content.size());
    }
    std::string out = std::string(1, s.mark) + (begin != 0 ? "..." : "") + content.substr(begin, most_columns);
    return out + (begin + most_columns < content.size() ? "...\n" : "\n");
  }
  /// The counterpart of a changed line: the line of the other text at the same distance from the changed block's begin.
  const std::string& counterpart(const std::vector<std::string>& other, std::size_t i) const {
    static const std::string none;
    const char mark = steps_[i].mark;
    std::size_t first = i, block = i;
    while (first > 0 && steps_[first - 1].mark == mark) --first;
    for (block = first; block > 0 && steps_[block - 1].mark != ' ';) --block;
    const std::size_t base = mark == '+' ? steps_[block].golden : steps_[block].now;
    const std::size_t line = base + (i - first);
    return line < other.size() ? other[line] : none;
  }

  std::vector<std::string> golden_, now_;
  std::vector<step> steps_;
};

inline std::string difference(const std::string& name, const std::string& golden_text, const std::string& now_text) {
  return "--- golden/" + name + "\n+++ now/" + name + "\n" + unified_diff(golden_text, now_text).text();
}

}  // namespace golden
