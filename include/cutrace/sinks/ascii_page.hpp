// SPDX-License-Identifier: Apache-2.0
// The page that the ASCII report is written on: lines of limited width, headings, colour where it was asked for.
#pragma once

#include <cstddef>
#include <cutrace/sinks/ascii_text.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

enum class tone : unsigned char { plain, heading, alarm };

class page {
 public:
  page(std::size_t width, bool color) : width_(width), color_(color) {}

  std::size_t width() const noexcept { return width_; }

  /// One line, cut at the width; trailing spaces vanish.
  CUTRACE_NOINLINE void line(std::string_view text = {}, tone t = tone::plain) {
    text = text.substr(0, width_);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    const char* begin = !color_ || t == tone::plain ? "" : t == tone::heading ? "\x1b[1m" : "\x1b[1;31m";
    text_ += begin;
    text_ += text;
    if (*begin != '\0') text_ += "\x1b[0m";
    text_ += '\n';
  }

  CUTRACE_NOINLINE void line(std::initializer_list<piece> pieces, tone t = tone::plain) {
    line(std::string_view(joined(pieces)), t);
  }

  /// A paragraph, broken at spaces. The text must be printable already.
  CUTRACE_NOINLINE void paragraph(std::string_view text, std::size_t indent, tone t = tone::plain) {
    const std::string whole = wrapped(text, width_, indent);
    std::string_view rest = whole;
    for (std::size_t at; (at = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(at + 1))
      line(rest.substr(0, at), t);
    line(rest, t);
  }

  CUTRACE_NOINLINE void paragraph(std::initializer_list<piece> pieces, std::size_t indent, tone t = tone::plain) {
    paragraph(std::string_view(joined(pieces)), indent, t);
  }

  /// Empty line, then the heading: a title on the left, what its columns mean on the right.
  CUTRACE_NOINLINE void heading(std::string_view title, std::string_view columns = {}) {
    line();
    std::string text(title);
    if (title.size() + columns.size() + 1 <= width_) text.append(width_ - title.size() - columns.size(), ' ');
    text += columns;
    line(text, tone::heading);
  }

  CUTRACE_NOINLINE void heading(std::initializer_list<piece> title, std::string_view columns) {
    heading(std::string_view(joined(title)), columns);
  }
  CUTRACE_NOINLINE void heading(const char* title, std::initializer_list<piece> columns) {
    heading(std::string_view(title), std::string_view(joined(columns)));
  }

  const std::string& text() const noexcept { return text_; }

 private:
  std::size_t width_;
  bool color_;
  std::string text_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
