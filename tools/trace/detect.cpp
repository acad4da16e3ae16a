// SPDX-License-Identifier: Apache-2.0
#include "trace/detect.hpp"

#include <cstddef>
#include <cstdint>

namespace cutrace_reading {

namespace {

constexpr std::string_view blanks = " \t\r\n";

/// Varint at `at`, which moves behind it. @returns false where there is none
bool varint(std::string_view s, std::size_t& at, std::uint64_t& n) noexcept {
  n = 0;
  for (unsigned shift = 0; shift < 64 && at < s.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(s[at++]);
    n |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/// Trace.packet (field 1), a message in which fields follow each other up to its end, or the end of what we see.
bool begins_with_packet(std::string_view s) noexcept {
  std::size_t at = 1;
  std::uint64_t size = 0;
  if (s.empty() || s[0] != '\x0a' || !varint(s, at, size) || size == 0 || size > std::uint64_t{1} << 28) return false;
  const std::size_t end = at + size < s.size() ? at + static_cast<std::size_t>(size) : s.size();
  bool any = false;
  while (at < end) {
    std::uint64_t tag = 0, n = 0;
    if (!varint(s, at, tag) || tag >> 3 == 0 || tag >> 3 > 2000) return any && end == s.size();
    switch (tag & 7) {
      case 0:
        if (!varint(s, at, n)) return any && end == s.size();
        break;
      case 1:
        at += 8;
        break;
      case 2:
        if (!varint(s, at, n)) return any && end == s.size();
        if (n > size) return false;
        at += static_cast<std::size_t>(n);
        break;
      case 5:
        at += 4;
        break;
      default:
        return false;
    }
    if (at > end && end != s.size()) return false;
    any = true;
  }
  return any;
}

/// The first key of the object that begins here.
std::string_view first_key(std::string_view s) noexcept {
  s.remove_prefix(1);
  const std::size_t quote = s.find_first_not_of(blanks);
  if (quote == std::string_view::npos || s[quote] != '"') return {};
  const std::size_t end = s.find('"', quote + 1);
  return end == std::string_view::npos ? std::string_view() : s.substr(quote + 1, end - quote - 1);
}

bool is_jsonl_key(std::string_view key) noexcept {
  return key == "v" || key == "type" || key == "ts_ns" || key == "ts" || key == "op_id" || key == "phase";
}

}  // namespace

format detect(std::string_view s) noexcept {
  if (begins_with_packet(s)) return format::perfetto;
  const std::size_t first = s.find_first_not_of(blanks);
  if (first == std::string_view::npos) return format::unknown;
  const std::string_view text = s.substr(first);
  if (text[0] == '[') {
    const std::size_t item = text.find_first_not_of(blanks, 1);
    return item != std::string_view::npos && (text[item] == '{' || text[item] == ']') ? format::chrome
                                                                                      : format::unknown;
  }
  if (text[0] == '{') {
    const std::string_view key = first_key(text);
    if (is_jsonl_key(key)) return format::jsonl;
    if (text.find("\"traceEvents\"") != std::string_view::npos) return format::chrome;
  }
  // JSONL whose beginning is damaged.
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    const std::string_view line = text.substr(at + 1);
    if (line.size() > 1 && line[0] == '{' && is_jsonl_key(first_key(line))) return format::jsonl;
  }
  return format::unknown;
}

}  // namespace cutrace_reading
