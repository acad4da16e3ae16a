// SPDX-License-Identifier: Apache-2.0
// Protobuf messages as text, with the names of a .proto file: a small reader of such files (proto2, messages, enums and
// fields) and a decoder of its own, so that a test needs no protoc. Errors are std::runtime_error.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace protobuf_text {

struct field {
  std::string type, name;
};

class schema {
 public:
  explicit schema(const std::string& proto) {
    split(proto);
    std::string scope;
    for (std::size_t at = 0; at < words_.size();) at = statement(at, scope);
  }

  const field* find(const std::string& message, std::uint64_t number) const {
    const auto m = messages_.find(message);
    if (m == messages_.end()) return nullptr;
    const auto f = m->second.find(number);
    return f == m->second.end() ? nullptr : &f->second;
  }
  /// The full name of `type` as it is meant inside `message`; empty for what is no message.
  std::string message_named(const std::string& type, const std::string& message) const {
    return resolve(messages_, type, message);
  }
  /// The word of an enum's value; null for other types and unknown values.
  const std::string* word_of(const std::string& type, const std::string& message, std::uint64_t value) const {
    const std::string full = resolve(enums_, type, message);
    if (full.empty()) return nullptr;
    const auto& words = enums_.at(full);
    const auto w = words.find(value);
    return w == words.end() ? nullptr : &w->second;
  }

 private:
  void split(const std::string& proto) {
    for (std::size_t at = 0; at < proto.size();) {
      const char c = proto[at];
      if (proto.compare(at, 2, "//") == 0) {
        at = std::min(proto.find('\n', at), proto.size());
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at;
      } else if (std::string_view("{}=;").find(c) != std::string_view::npos) {
        words_.emplace_back(1, c);
        ++at;
      } else {
        const std::size_t end = std::min(proto.find_first_of(" \t\n{}=;", at), proto.size());
        words_.push_back(proto.substr(at, end - at));
        at = end;
      }
    }
  }
  const std::string& word(std::size_t at) const {
    if (at >= words_.size()) throw std::runtime_error("a .proto file ends within a statement");
    return words_[at];
  }
  /// @returns where the next statement begins
  std::size_t statement(std::size_t at, std::string& scope) {
    const std::string first = word(at);
    if (first == "message") {
      scope += "." + word(at + 1);
      messages_[scope];
      return at + 3;
    }
    if (first == "enum") {
      auto& words = enums_[scope + "." + word(at + 1)];
      for (at += 3; word(at) != "}"; at += 4) words[std::stoull(word(at + 2))] = word(at);
      return at + 1;
    }
    if (first == "}") {
      scope.resize(scope.rfind('.'));
      return at + 1;
    }
    if (first == "optional" || first == "repeated") {
      messages_[scope][std::stoull(word(at + 4))] = {word(at + 1), word(at + 2)};
      return at + 6;
    }
    while (word(at) != ";") ++at;  // syntax and package
    return at + 1;
  }
  template <class Map>
  static std::string resolve(const Map& known, const std::string& type, std::string scope) {
    while (true) {
      const std::string full = scope + "." + type;
      if (known.count(full) != 0) return full;
      if (scope.empty()) return {};
      scope.resize(scope.rfind('.'));
    }
  }

  std::vector<std::string> words_;
  std::map<std::string, std::map<std::uint64_t, field>> messages_;
  std::map<std::string, std::map<std::uint64_t, std::string>> enums_;
};

/// The fields of one message, one after the other.
class reader {
 public:
  explicit reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number = 0;  ///< of the field that next() found
  unsigned wire = 0;
  std::uint64_t value = 0;  ///< of varints and fixed fields
  std::string_view content;

  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    number = tag >> 3;
    wire = static_cast<unsigned>(tag & 7u);
    if (wire == 0) {
      value = varint();
    } else if (wire == 2) {
      content = take(varint());
    } else if (wire == 1 || wire == 5) {
      const std::string_view fixed = take(wire == 1 ? 8 : 4);
      value = 0;
      for (std::size_t i = fixed.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(fixed[i]);
    } else {
      throw std::runtime_error("a field of wire type " + std::to_string(wire));
    }
    return true;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t n = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto c = static_cast<unsigned char>(take(1)[0]);
      n |= std::uint64_t{c & 127u} << shift;
      if (c < 128) return n;
    }
    throw std::runtime_error("a varint of more than ten bytes");
  }
  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) throw std::runtime_error("a field ends behind its message");
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return taken;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

inline std::string quoted(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    const bool plain = c >= ' ' && c < '\x7f' && c != '"' && c != '\\';  // char has no sign on ARM
    text += plain ? std::string(1, c) : std::string(escape);
  }
  return text + "\"";
}

/// One message. Fields stand on lines of their own down to `lines` levels, and in one line below. A field that the
/// schema does not have shows as its number and its wire type.
inline std::string text_of(const schema& known, const std::string& message, std::string_view bytes, unsigned lines,
                           const std::string& indent = {}) {
  std::string text;
  for (reader r(bytes); r.next();) {
    const field* f = known.find(message, r.number);
    const std::string type = f != nullptr ? f->type : std::string();
    const std::string nested = f != nullptr ? known.message_named(type, message) : std::string();
    if (lines == 0 && !text.empty()) text += " ";
    if (lines != 0) text += indent;
    text += f != nullptr ? f->name : std::to_string(r.number) + "/" + std::to_string(r.wire);
    if (r.wire == 2 && !nested.empty()) {
      const std::string inner = text_of(known, nested, r.content, lines == 0 ? 0 : lines - 1, indent + "  ");
      text += lines > 1 ? " {\n" + inner + indent + "}" : inner.empty() ? " {}" : " { " + inner + " }";
    } else if (r.wire == 2) {
      text += ": " + quoted(r.content);
    } else if (const std::string* word = f != nullptr ? known.word_of(type, message, r.value) : nullptr) {
      text += ": " + *word;
    } else {
      const bool is_signed = type == "int32" || type == "int64";
      text += ": " + (is_signed ? std::to_string(static_cast<std::int64_t>(r.value)) : std::to_string(r.value));
    }
    if (lines != 0) text += "\n";
  }
  return text;
}

}  // namespace protobuf_text
