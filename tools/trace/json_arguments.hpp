// SPDX-License-Identifier: Apache-2.0
// Arguments of calls and requests of stages, which JSONL and Chrome JSON write alike.
#pragma once

#include <cutrace/event.hpp>
#include <limits>
#include <string>
#include <vector>

#include "trace/json_facts.hpp"
#include "trace/json_value.hpp"
#include "trace/request_list.hpp"
#include "trace/text_pool.hpp"
#include "trace/words.hpp"

namespace cutrace_reading {

/// Numbers are numbers; JSON's null is a floating-point value that is not finite, "0x..." a 64-bit word. `texts`
/// keeps other texts; where it is nullptr, they are values of the wrong type.
inline value_state read_argument(json_value& v, text_pool* texts, cutrace::argument& a) {
  const std::string_view token = v.raw_json_token();
  if (!token.empty() && token[0] == '"') {
    std::string_view s;
    value_state state = read_text(v, s);
    if (state != value_state::good) return state;
    a.kind = cutrace::argument_kind::word;
    state = parse_hex(s, a.value);
    if (state == value_state::good || texts == nullptr) return state;
    a.kind = cutrace::argument_kind::string;
    a.value = cutrace::argument::word_of(texts->intern(s).data);
    return value_state::good;
  }
  whole_number n;
  if (parse_whole(token, n) == value_state::good && !(n.bits == 0 && token[0] == '-')) {
    a.kind = n.negative ? cutrace::argument_kind::integer : cutrace::argument_kind::unsigned_integer;
    a.value = n.bits;
    return value_state::good;
  }
  double d = std::numeric_limits<double>::quiet_NaN();
  bool null = false;
  if (v.is_null().get(null) != simdjson::SUCCESS) return value_state::broken;
  if (!null) {
    const value_state state = state_of(v.get_double().get(d));
    if (state != value_state::good) return state;
  }
  a.kind = cutrace::argument_kind::floating;
  std::memcpy(&a.value, &d, sizeof(d));
  return value_state::good;
}

/// The object of a call's arguments; "arg0", "arg1", ... by position are those without a name. `has_texts`: values
/// may be texts, as those of events that a probe recorded.
inline void read_arguments(std::string_view key, json_value& v, text_pool& texts, bool has_texts,
                           std::vector<cutrace::argument>& to, field_watch& watch) {
  json_object object;
  const value_state state = state_of(v.get_object().get(object));
  if (state != value_state::good) return watch.wrong(key, state);
  for (auto result : object) {
    simdjson::ondemand::field one;
    if (std::move(result).get(one) != simdjson::SUCCESS) return watch.wrong(key, value_state::broken);
    std::string_view name;
    if (one.unescaped_key().get(name) != simdjson::SUCCESS) return watch.wrong(key, value_state::broken);
    cutrace::argument a;
    const bool positional = name.substr(0, 3) == "arg" && name == "arg" + std::to_string(to.size());
    if (!positional) a.name = texts.intern(name);
    const value_state read = read_argument(one.value(), has_texts ? &texts : nullptr, a);
    if (read != value_state::good) {
      watch.wrong(name, read);
    } else {
      to.push_back(a);
    }
  }
}

/// An array of ids, or of names.
inline void read_requests(std::string_view key, json_value& v, bool names, request_list& to, field_watch& watch) {
  json_array array;
  const value_state state = state_of(v.get_array().get(array));
  if (state != value_state::good) return watch.wrong(key, state);
  for (auto result : array) {
    json_value item;
    if (std::move(result).get(item) != simdjson::SUCCESS) return watch.wrong(key, value_state::broken);
    std::uint64_t id = 0;
    std::string_view name;
    const value_state one = names ? read_text(item, name) : read_unsigned(item, id);
    if (one != value_state::good) {
      watch.wrong(key, one);
    } else if (names) {
      to.add(name);
    } else {
      to.add(id);
    }
  }
}

/// Three whole numbers.
inline value_state read_triple(json_value& v, std::uint32_t (&to)[3]) {
  json_array array;
  value_state state = state_of(v.get_array().get(array));
  std::size_t n = 0;
  if (state != value_state::good) return state;
  for (auto result : array) {
    json_value item;
    if (std::move(result).get(item) != simdjson::SUCCESS) return value_state::broken;
    const value_state one = n < 3 ? read_unsigned(item, to[n]) : value_state::wrong_type;
    if (one != value_state::good) state = one;
    ++n;
  }
  return n == 3 ? state : value_state::wrong_type;
}

/// "63757472-6163-652d-7369-6d2d67707500"
inline value_state read_uuid(json_value& v, std::uint8_t (&to)[16]) {
  std::string_view s;
  const value_state state = read_text(v, s);
  std::size_t digits = 0;
  for (const char c : s) {
    if (c == '-') continue;
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0 || digits == 32) return value_state::wrong_type;
    std::uint8_t& byte = to[digits++ / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | digit);
  }
  return state;
}

}  // namespace cutrace_reading
