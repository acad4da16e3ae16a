// SPDX-License-Identifier: Apache-2.0
// Changes inputs of read_fuzz as somebody would who knows the formats: fields of a Perfetto trace's messages, whose
// lengths stay right; numbers, names and objects of JSON; and pieces that are repeated, thousands of times, in a file
// that gzip makes small again. Bytes are changed by libFuzzer, or by the driver that takes its place.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

inline std::size_t content_limit = std::size_t{1} << 20;  ///< after decompression

inline bool is_gzip(const std::string& s) { return s.size() > 2 && s[0] == '\x1f' && s[1] == '\x8b'; }

/// As much of it as is good.
inline std::string unzipped(const std::string& s) {
  z_stream z{};
  std::string out;
  if (inflateInit2(&z, 15 + 16) != Z_OK) return s;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(s.data()));
  z.avail_in = static_cast<uInt>(s.size());
  char piece[65536];
  int state = Z_OK;
  do {
    z.next_out = reinterpret_cast<Bytef*>(piece);
    z.avail_out = sizeof(piece);
    state = inflate(&z, Z_NO_FLUSH);
    out.append(piece, std::min(sizeof(piece) - z.avail_out, content_limit - out.size()));
  } while (state == Z_OK && z.avail_out == 0 && out.size() < content_limit);
  inflateEnd(&z);
  return out;
}

inline std::string zipped(const std::string& s) {
  z_stream z{};
  if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return s;
  std::string out(deflateBound(&z, s.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(s.data()));
  z.avail_in = static_cast<uInt>(s.size());
  z.next_out = reinterpret_cast<Bytef*>(&out[0]);
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(out.size() - z.avail_out);
  deflateEnd(&z);
  return out;
}

using random = std::mt19937_64;
inline std::size_t below(random& r, std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(r() % n); }
/// A number of repetitions: mostly below 16, at times up to a sixteenth of content_limit.
inline std::size_t many(random& r) {
  std::size_t powers = 1;
  while (content_limit >> (powers + 4) != 0) ++powers;
  return std::size_t{1} << below(r, below(r, 3) == 0 ? powers : 4);
}

inline std::uint64_t edge(random& r) {
  static constexpr std::uint64_t edges[] = {0,
                                            1,
                                            2,
                                            3,
                                            127,
                                            4095,
                                            65535,
                                            (1u << 18) - 1,
                                            1u << 18,
                                            (1u << 20) - 1,
                                            INT32_MAX,
                                            UINT32_MAX,
                                            INT64_MAX - 1,
                                            INT64_MAX,
                                            std::uint64_t{1} << 63,
                                            ~std::uint64_t{0}};
  return below(r, 4) == 0 ? r() >> below(r, 64) : edges[below(r, std::size(edges))];
}

/// `piece` so many times in a row at `at`, as far as there is room.
inline void repeat(std::string& s, std::size_t at, const std::string& piece, std::size_t times) {
  if (piece.empty() || s.size() >= content_limit) return;
  std::string all;
  for (times = std::min(times, (content_limit - s.size()) / piece.size()); times != 0; --times) all += piece;
  s.insert(at, all);
}

// Protobuf: fields of a message, as they stand.

struct proto_field {
  std::size_t begin = 0, value = 0, end = 0;  ///< in the message
  unsigned wire = 0;
};

inline bool read_varint(std::string_view s, std::size_t& at, std::uint64_t& n) {
  n = 0;
  for (unsigned shift = 0; shift < 64 && at < s.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(s[at++]);
    n |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}
inline std::string varint(std::uint64_t n) {
  std::string s;
  for (; n > 0x7f; n >>= 7) s += static_cast<char>(n | 0x80);
  return s += static_cast<char>(n);
}

/// As far as it can be read; empty: this is no message.
inline std::vector<proto_field> fields_of(std::string_view s) {
  std::vector<proto_field> all;
  std::size_t at = 0;
  while (at < s.size()) {
    proto_field f;
    f.begin = at;
    std::uint64_t tag = 0, n = 0;
    if (!read_varint(s, at, tag) || tag >> 3 == 0 || tag >> 3 > 5000) break;
    f.wire = tag & 7;
    f.value = at;
    if (f.wire == 0 && !read_varint(s, at, n)) break;
    if (f.wire == 1) at += 8;
    if (f.wire == 5) at += 4;
    if (f.wire == 2) {
      if (!read_varint(s, at, n) || n > s.size() - at) break;
      f.value = at;
      at += static_cast<std::size_t>(n);
    }
    if ((f.wire != 0 && f.wire != 1 && f.wire != 2 && f.wire != 5) || at > s.size()) break;
    f.end = at;
    all.push_back(f);
  }
  return all;
}

/// A field with another value of another length: tag, length, value.
inline std::string with_value(std::string_view s, const proto_field& f, const std::string& value) {
  std::size_t at = f.begin;
  std::uint64_t tag = 0;
  read_varint(s, at, tag);
  return varint(tag) + varint(value.size()) + value;
}

/// A field, by its index in each of the messages that it lies in, from the outermost on.
using place = std::vector<std::size_t>;
/// Up to 16 places of each kind of field, a kind being the tags from the outermost message down to the field. A trace
/// has few descriptions and many events; choosing by kind meets the descriptions often, which fill the reader's tables.
using kinds = std::map<std::string, std::vector<place>>;

inline void list_kinds(random& r, std::string_view s, std::string& tags, place& at, kinds& all) {
  const std::vector<proto_field> fields = fields_of(s);
  if (fields.empty() || (!at.empty() && fields.back().end != s.size()) || at.size() == 8) return;  // a text
  const std::size_t length = tags.size();
  at.push_back(0);
  for (const proto_field& f : fields) {
    std::size_t tag_end = f.begin;
    std::uint64_t tag = 0;
    read_varint(s, tag_end, tag);
    tags += s.substr(f.begin, tag_end - f.begin);
    std::vector<place>& known = all[tags];
    if (known.size() < 16)
      known.push_back(at);
    else if (below(r, 8) == 0)
      known[below(r, 16)] = at;
    if (f.wire == 2) list_kinds(r, s.substr(f.value, f.end - f.value), tags, at, all);
    tags.resize(length);
    ++at.back();
  }
  at.pop_back();
}

/// The places of one kind, which is drawn with equal chances. Empty: there is none.
inline std::vector<place> any_kind(random& r, const std::string& s) {
  kinds all;
  std::string tags;
  place at;
  list_kinds(r, s, tags, at, all);
  if (all.empty()) return {};
  return std::next(all.begin(), static_cast<std::ptrdiff_t>(below(r, all.size())))->second;
}
inline place any_place(random& r, const std::string& s) {
  const std::vector<place> of_kind = any_kind(r, s);
  return of_kind.empty() ? place() : of_kind[below(r, of_kind.size())];
}

/// `change(message, its fields, one of them)`; the lengths of the messages around it stay right.
template <class Change>
void change_at(std::string& s, const place& at, std::size_t level, Change&& change) {
  const std::vector<proto_field> all = fields_of(s);
  if (at[level] >= all.size()) return;
  const proto_field f = all[at[level]];
  if (level + 1 == at.size()) return change(s, all, f);
  std::string value = s.substr(f.value, f.end - f.value);
  change_at(value, at, level + 1, change);
  s.replace(f.begin, f.end - f.begin, with_value(s, f, value));
}

inline void change_field(random& r, std::string& s, const std::vector<proto_field>& all, const proto_field& f) {
  const std::string whole = s.substr(f.begin, f.end - f.begin);
  const proto_field& other = all[below(r, all.size())];
  switch (below(r, 6)) {
    case 0:
      return repeat(s, f.end, whole, many(r));
    case 1:
      s.erase(f.begin, whole.size());
      return;
    case 2:
      return repeat(s, other.begin, whole, 1);
    case 3: {  // several in a row, again and again
      const std::size_t from = std::min(f.begin, other.begin), to = std::max(f.end, other.end);
      return repeat(s, to, s.substr(from, to - from), many(r));
    }
    default:
      if (f.wire == 0) s.replace(f.value, f.end - f.value, varint(edge(r)));
      if (f.wire == 2) {  // a text
        std::string value = s.substr(f.value, f.end - f.value);
        repeat(value, below(r, value.size() + 1), below(r, 2) == 0 ? "1, " : "a", many(r));
        s.replace(f.begin, whole.size(), with_value(s, f, value));
      }
  }
}

inline void change_message(random& r, std::string& s) {
  const place at = any_place(r, s);
  if (at.empty()) return;
  change_at(s, at, 0, [&r](std::string& message, const std::vector<proto_field>& all, const proto_field& f) {
    change_field(r, message, all, f);
  });
  if (below(r, 4) != 0) return;
  const std::vector<proto_field> packets = fields_of(s);
  if (at[0] >= packets.size()) return;
  const proto_field p = packets[at[0]];
  repeat(s, p.end, s.substr(p.begin, p.end - p.begin), many(r));  // what is long now, many times
}

/// The same number at all known places of one kind of field: in each sequence, in each entry of a table.
inline void change_kind(random& r, std::string& s) {
  const std::string number = varint(edge(r));
  for (const place& at : any_kind(r, s))
    change_at(s, at, 0, [&number](std::string& message, const std::vector<proto_field>&, const proto_field& f) {
      if (f.wire == 0) message.replace(f.value, f.end - f.value, number);
    });
}

/// Copies of a packet in which one number counts up, so that each makes a new entry of a table or a new sequence.
inline void count_up(random& r, std::string& s) {
  const place at = any_place(r, s);
  const std::vector<proto_field> packets = fields_of(s);
  if (at.empty() || at[0] >= packets.size()) return;
  const proto_field p = packets[at[0]];
  std::string packet = s.substr(p.value, p.end - p.value), all;
  const std::vector<proto_field> fields = fields_of(packet);
  const std::size_t numbered = below(r, fields.size());
  if (fields.empty() || fields[numbered].wire != 0) return;
  std::uint64_t n = below(r, 2) == 0 ? 1 : edge(r);
  for (std::size_t times = many(r); times != 0 && all.size() + s.size() < content_limit; --times, ++n) {
    std::string one = packet;
    one.replace(fields[numbered].value, fields[numbered].end - fields[numbered].value, varint(n));
    all += with_value(s, p, one);
  }
  s.insert(p.end, all);
}

// JSON: pieces between the marks that it is made of.

inline std::size_t mark_at(random& r, const std::string& s, const char* marks) {
  const std::size_t from = below(r, s.size()), at = s.find_first_of(marks, from);
  return at == std::string::npos ? from : at;
}

/// Wraps an object in many objects with the same field in front; mostly with their closing braces, else torn off.
inline void nest(random& r, std::string& s) {
  const std::size_t at = s.find('{', below(r, s.size()));
  if (at == std::string::npos || at == 0) return;
  const std::size_t from = s.find_last_of(",{\n", at - 1);
  const std::string front = from == std::string::npos ? "[" : "{" + s.substr(from + 1, at - from - 1);
  const std::size_t times = std::min(many(r), content_limit / (front.size() + 1));
  const std::size_t end = s.find('}', at);
  if (end != std::string::npos && below(r, 4) != 0) repeat(s, end, front.size() == 1 ? "]" : "}", times);
  repeat(s, at, front, times);
}

/// Copies of a line in which a number counts up: other operations, other ids, other names.
inline void count_up_json(random& r, std::string& s) {
  const std::size_t at = mark_at(r, s, "0123456789");
  const std::size_t end = std::min(s.find_first_not_of("0123456789", at), s.size());
  const std::size_t line = at == 0 ? 0 : s.rfind('\n', at - 1) + 1, next = std::min(s.find('\n', at), s.size());
  const std::string front = s.substr(line, at - line), behind = s.substr(end, next - end) + "\n";
  std::string all;
  std::uint64_t n = below(r, 2) == 0 ? 1 : edge(r);
  for (std::size_t times = many(r); times != 0 && all.size() + s.size() < content_limit; --times)
    all.append(front).append(std::to_string(n++)).append(behind);
  s.insert(line, all);
}

inline void change_json(random& r, std::string& s) {
  if (s.empty()) return;
  switch (below(r, 8)) {
    case 0: {  // a number
      const std::size_t at = mark_at(r, s, "0123456789");
      const std::size_t end = std::min(s.find_first_not_of("0123456789.", at), s.size());
      const std::string n = std::to_string(edge(r));
      s.replace(at, end - at, below(r, 3) == 0 ? "-" + n : n);
      return;
    }
    case 1: {  // a field, a line or an element, again and again
      const std::size_t at = mark_at(r, s, ",\n{["), end = std::min(s.find_first_of(",\n}]", at + 1), s.size());
      return repeat(s, end, s.substr(at, end - at), many(r));
    }
    case 2: {  // whole lines
      const std::size_t at = mark_at(r, s, "\n"), end = std::min(s.find('\n', at + 1), s.size());
      return repeat(s, end, s.substr(at, end - at), many(r));
    }
    case 3:
      return nest(r, s);
    case 4: {                                                   // an element of a list, such as that of the requests
      const std::size_t at = s.rfind('[', below(r, s.size()));  // a long one is met more often
      const std::size_t end = at == std::string::npos ? at : s.find_first_of(",]\n", at + 1);
      if (end == std::string::npos) return;
      return repeat(s, at + 1, (below(r, 2) == 0 ? "1" : s.substr(at + 1, end - at - 1)) + ',', many(r));
    }
    case 5:
      return count_up_json(r, s);
    case 6:  // a long text
      return repeat(s, mark_at(r, s, "\""), below(r, 2) == 0 ? "a" : "\\u0000", many(r));
    default: {  // a field from elsewhere
      const std::size_t at = mark_at(r, s, ",{"), end = std::min(s.find_first_of(",}\n", at + 1), s.size());
      return repeat(s, mark_at(r, s, ",}"), s.substr(at, end - at), 1);
    }
  }
}

/// @param bytes changes single bytes: libFuzzer's function, or the driver's in its place
template <class Bytes>
std::size_t mutate(bool is_json, std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                   Bytes bytes) {
  random r(seed);
  if (size < 2 || below(r, 8) == 0) return bytes(data, size, max_size);
  std::string content(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool was_zipped = is_gzip(content);
  if (was_zipped) content = unzipped(content);
  // An input that costs the reader too much may take several changes, of which the first alone reaches no new code, so
  // that a fuzzer would not keep it: at times many at once.
  for (std::size_t n = 1 + below(r, below(r, 8) == 0 ? 16 : 3); n != 0 && content.size() < content_limit; --n) {
    if (is_json)
      change_json(r, content);
    else if (const std::size_t how = below(r, 6); how == 0)
      count_up(r, content);
    else if (how == 1)
      change_kind(r, content);
    else
      change_message(r, content);
  }
  if (content.size() >= max_size || (was_zipped ? below(r, 8) != 0 : below(r, 16) == 0)) content = zipped(content);
  if (content.empty() || content.size() >= max_size) return bytes(data, size, max_size);
  if (below(r, 8) == 0) data[0] = static_cast<std::uint8_t>(r());
  std::copy(content.begin(), content.end(), data + 1);
  return content.size() + 1;
}

}  // namespace fuzz
