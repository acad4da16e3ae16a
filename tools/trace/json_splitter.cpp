// SPDX-License-Identifier: Apache-2.0
#include "trace/json_splitter.hpp"

#include <algorithm>
#include <cstring>

namespace cutrace_reading {

namespace {

/// Whether one object may follow another: nothing but a comma, if that, and blanks between two braces.
bool has_several(std::string_view line) noexcept {
  constexpr std::string_view blanks = " \t\r";
  for (std::size_t at = line.find('}'); at != std::string_view::npos; at = line.find('}', at + 1)) {
    const std::size_t comma = line.find_first_not_of(blanks, at + 1);
    if (comma == std::string_view::npos) return false;
    const std::size_t next = line[comma] == ',' ? line.find_first_not_of(blanks, comma + 1) : comma;
    if (next != std::string_view::npos && line[next] == '{') return true;
  }
  return false;
}

}  // namespace

/// @returns false where the input ends before
bool json_splitter::fill(std::size_t wanted) {
  while (from_.size() < wanted) {
    if (!from_.more()) return false;
  }
  return true;
}

void json_splitter::drop(std::size_t n) {
  const char* at = from_.data();
  const char* const end = at + n;
  while (at != end &&
         (at = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)))) != nullptr) {
    ++line_;
    ++at;
  }
  from_.drop(n);
}

/// The first character that is none of `skipped`, at the front of the window; 0 at the end.
char json_splitter::first_of(const char* skipped) {
  while (true) {
    std::size_t n = 0;
    while (n < from_.size() && from_.data()[n] != '\0' && std::strchr(skipped, from_.data()[n]) != nullptr) ++n;
    const bool found = n < from_.size();
    drop(n);
    if (found) return from_.data()[0] != '\0' ? from_.data()[0] : '\x01';
    if (!from_.more()) return '\0';
  }
}

/// The key and its colon. @returns false where there is none
bool json_splitter::read_key() {
  std::size_t n = 1;
  while (fill(n + 1) && from_.data()[n] != '"' && from_.data()[n] != '\n' && n < 4096)
    n += from_.data()[n] == '\\' ? 2 : 1;
  if (!fill(n + 1) || from_.data()[n] != '"') return false;
  key_.assign(from_.data() + 1, n - 1);
  drop(n + 1);
  if (first_of(" \t\r\n") != ':') return false;
  drop(1);
  return first_of(" \t\r\n") != '\0';
}

/// Most writers give each element a line of its own, which is found much quicker than its brackets are counted.
bool json_splitter::delimit_line(std::size_t& size) {
  const std::uint64_t here = from_.offset();
  if (here < several_until_ || from_.data()[0] != '{') return false;
  std::size_t looked_at = no_newline_before_ > here ? static_cast<std::size_t>(no_newline_before_ - here) : 0;
  const char* newline = nullptr;
  while ((newline = static_cast<const char*>(std::memchr(from_.data() + looked_at, '\n', from_.size() - looked_at))) ==
         nullptr) {
    looked_at = from_.size();
    no_newline_before_ = here + looked_at;
    if (looked_at > piece_limit || !from_.more()) return false;
  }
  size = static_cast<std::size_t>(newline - from_.data());
  no_newline_before_ = here + size;
  while (size != 0 && std::strchr(" \t\r,", from_.data()[size - 1]) != nullptr && from_.data()[size - 1] != '\0')
    --size;
  // No brace at the end: the element goes on in the next line. This line is not searched again, or time would be
  // quadratic.
  if (size < 2 || from_.data()[size - 1] != '}') {
    several_until_ = no_newline_before_;
    return false;
  }
  // A line that begins and ends with a brace may still have several elements: look for the end of one inside it.
  if (!has_several(std::string_view(from_.data(), size))) return true;
  several_until_ = no_newline_before_;
  return false;
}

/// Size of the value at the front, by its brackets. @returns false where it does not end, or has a line break in a
/// text; `size` is then the number of bytes looked through
bool json_splitter::delimit(std::size_t& size) {
  std::size_t at = 0, depth = 0;
  bool in_text = false;
  while (true) {
    const char* const data = from_.data();
    const std::size_t n = from_.size();
    for (; at < n; ++at) {
      const char c = data[at];
      if (in_text) {
        if (c == '"') {
          in_text = false;
          if (depth == 0) return size = at + 1, true;
        } else if (c == '\\') {
          ++at;
        } else if (c == '\n') {
          return size = at, false;
        }
        continue;
      }
      switch (c) {
        case '"':
          in_text = true;
          break;
        case '{':
        case '[':
          ++depth;
          break;
        case '}':
        case ']':
          if (depth == 0) return size = at, at != 0;
          if (--depth == 0) return size = at + 1, true;
          break;
        case ',':
        case ' ':
        case '\r':
        case '\t':
          if (depth == 0) return size = at, at != 0;
          break;
        case '\n':
          if (depth == 0) return size = at, at != 0;
          // The next element begins: this one has lost its end.
          if (at + 6 < n && std::memcmp(data + at + 1, "{\"ph\"", 5) == 0) return size = at, false;
          break;
        default:
          break;
      }
    }
    if (n > piece_limit || !from_.more()) return size = n, false;
  }
}

/// Goes on behind an element whose end was not found in `looked_at` bytes: at its next line, which may be good. Once
/// such searches took more than 8 times the bytes so far (and 16 MiB), all of `looked_at` is dropped, or time would be
/// quadratic.
bool json_splitter::pass_over(std::size_t looked_at) {
  in_vain_ += looked_at;
  if (in_vain_ > piece_limit + 8 * from_.offset()) drop(std::min(looked_at, from_.size()));
  return recover();
}

/// Goes on behind a broken element: at the next line that begins with a brace or ends the array.
bool json_splitter::recover() {
  while (true) {
    const auto* newline = static_cast<const char*>(std::memchr(from_.data(), '\n', from_.size()));
    if (newline == nullptr) {
      drop(from_.size());
      if (!from_.more()) return false;
      continue;
    }
    drop(static_cast<std::size_t>(newline - from_.data()) + 1);
    const char c = first_of(" \t\r,");
    if (c == '{' || c == ']') return true;
    if (c == '\0') return false;
  }
}

json_splitter::piece json_splitter::fail(const char* what) {
  problems_.add(what, at_);
  state_ = state::broken;
  return piece::end;
}

json_splitter::piece json_splitter::element() {
  while (true) {
    const char c = first_of(" \t\r\n,");
    at_ = {from_.offset(), line_};
    if (c == '\0') return bare_ ? (state_ = state::ended, piece::end) : fail("the document is cut");
    if (c == ']') {
      drop(1);
      if (bare_) return state_ = state::ended, piece::end;
      state_ = state::fields;
      return next();
    }
    std::size_t size = 0;
    if (delimit_line(size) || delimit(size)) {
      text_ = std::string_view(from_.data(), size);
      taken_ = size;
      return piece::element;
    }
    const bool long_one = from_.size() > piece_limit;
    problems_.add(long_one ? "an event of more than 16 MiB is passed over" : "an event that is cut or no JSON", at_);
    if (!pass_over(size)) {
      at_ = {from_.offset(), line_};
      return fail("the document is cut");
    }
  }
}

json_splitter::piece json_splitter::next() {
  drop(taken_);
  taken_ = 0;
  if (state_ == state::begin) {
    const char c = first_of(" \t\r\n");
    at_ = {from_.offset(), line_};
    if (c == '\0') return fail("the document is cut");
    drop(1);
    bare_ = c == '[';
    state_ = bare_ ? state::elements : state::fields;
  }
  if (state_ == state::elements) return element();
  if (state_ != state::fields) return piece::end;
  const char c = first_of(" \t\r\n,");
  at_ = {from_.offset(), line_};
  if (c == '\0') return fail("the document is cut");
  if (c == '}') {
    state_ = state::ended;
    return piece::end;
  }
  if (c != '"' || !read_key()) return fail("the document is cut, or no JSON from here on");
  at_ = {from_.offset(), line_};
  if (key_ == "traceEvents" && from_.size() != 0 && from_.data()[0] == '[') {
    drop(1);
    state_ = state::elements;
    return element();
  }
  std::size_t size = 0;
  if (!delimit(size)) return fail("the document is cut, or no JSON from here on");
  text_ = std::string_view(from_.data(), size);
  taken_ = size;
  return piece::field;
}

}  // namespace cutrace_reading
