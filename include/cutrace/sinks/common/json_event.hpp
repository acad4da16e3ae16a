// SPDX-License-Identifier: Apache-2.0
// The fields of one event in the canonical JSON form (docs/jsonl.md): a field has one name and one type in all kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/event_fields.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline void optional_field(json_text& json, std::string_view key, std::uint64_t number) {
  if (number != 0) json.field(key, number);
}
inline void optional_field(json_text& json, std::string_view key, text t) {
  if (t.size != 0) json.field(key, t);
}
inline void flag(json_text& json, std::string_view key, bool set) {
  if (set) json.field(key, true);
}
inline void triple(json_text& json, std::string_view key, const std::uint32_t (&v)[3]) {
  json.key(key);
  json.begin_array();
  for (const std::uint32_t n : v) json.value(n);
  json.end_array();
}

/// Differences of 64-bit times without undefined overflow; end before start gives a negative number.
inline std::int64_t difference_ns(std::int64_t end, std::int64_t start) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(start));
}

/// Numbers as numbers, texts as texts; an address, a handle, what the call wrote and what is unknown as "0x...".
inline char* put_argument_value(char* to, const argument& a) noexcept {
  switch (a.kind) {
    case argument_kind::integer:
      return put_integer(to, static_cast<std::int64_t>(a.value));
    case argument_kind::unsigned_integer:
    case argument_kind::bytes:
      return put_decimal(to, a.value);
    case argument_kind::floating: {
      double d = 0;
      std::memcpy(&d, &a.value, sizeof(d));
      return put_double(to, d);
    }
    case argument_kind::string:
      return put_string(to, a.string_value());
    case argument_kind::word:
    case argument_kind::pointer:
    case argument_kind::stream:
    case argument_kind::handle:
    case argument_kind::output:
      break;
  }
  return put_hex(to, a.value);
}

/// Room for `put_arguments`.
inline std::size_t arguments_room(const argument* arguments, std::uint32_t count) noexcept {
  std::size_t room = 16;
  for (std::uint32_t i = 0; arguments != nullptr && i < count; ++i) {
    room += escaped_room(arguments[i].name.size) + 64;
    if (arguments[i].kind == argument_kind::string) room += escaped_room(std::strlen(arguments[i].string_value()));
  }
  return room;
}

/// "bytesize":4000000; arguments without a name are arg0, arg1, ... by position.
inline char* put_argument(char* to, const argument& a, std::uint32_t position) {
  if (a.name.size != 0) {
    to = put_string(to, view_of(a.name));
  } else {
    to = put_decimal(put_literal(to, "\"arg"), position);
    *to++ = '"';
  }
  *to++ = ':';
  return put_argument_value(to, a);
}
/// {"dptr":"0x7f32a4000000","bytesize":4000000}
inline char* put_arguments(char* to, const argument* arguments, std::uint32_t count) {
  *to++ = '{';
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i != 0) *to++ = ',';
    to = put_argument(to, arguments[i], i);
  }
  *to++ = '}';
  return to;
}
inline void arguments_object(json_text& json, const argument* arguments, std::uint32_t count) {
  json.end_raw(put_arguments(json.begin_raw(arguments_room(arguments, count)), arguments, count));
}

/// `requests` holds ids, `request_names` texts; `request_total` is written where the marker named more requests than
/// the event holds, and where only their number is known.
inline void request_fields(json_text& json, const event& e) {
  bool ids = false;
  bool names = false;
  for (std::uint32_t i = 0; i < e.request_count && e.requests != nullptr; ++i)
    (e.requests[i].name.size != 0 ? names : ids) = true;
  if (ids) {
    json.key("requests");
    char* to = json.begin_raw((decimal_room + 1) * e.request_count + 2);
    *to++ = '[';
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (e.requests[i].name.size != 0) continue;
      to = put_decimal(to, e.requests[i].id);
      *to++ = ',';
    }
    to[-1] = ']';  // in place of the last comma: there is one id at least
    json.end_raw(to);
  }
  if (names) {
    json.key("request_names");
    json.begin_array();
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (e.requests[i].name.size != 0) json.value(e.requests[i].name);
    }
    json.end_array();
  }
  if (e.request_total > e.request_count) json.field("request_total", e.request_total);
}

inline void append_uuid(std::string& out, const std::uint8_t (&uuid)[16]) {
  static const char hex[] = "0123456789abcdef";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += hex[uuid[i] >> 4];
    out += hex[uuid[i] & 15u];
  }
}

/// The word for the event's type; for a type that this version does not know, the word in the file that was read.
inline std::string_view type_word(const event& e) noexcept {
  return e.kind == event_kind::other && e.other.type.size != 0 ? view_of(e.other.type) : to_string(e.kind);
}

inline void put_payload(json_text& json, const stage_data& s) {
  json.end_raw(put_argument_value(json.begin_raw(64), argument{{}, s.payload_kind, s.payload}));
}

/// @param arguments_key  the field's name for the arguments of a call or probe: "args" in JSONL, "arguments" in Chrome
/// JSON, where "args" is the object that holds the fields of a slice
template <class Field>
inline void write_field(json_text& json, const event& e, const Field& field, std::string_view arguments_key) {
  if (!field.is_there(e)) return;
  const auto& v = field.of(e);
  if constexpr (Field::form == field_form::word) {
    json.field(field.name, to_string(v));
  } else if constexpr (Field::form == field_form::choice) {
    json.field(field.name, field.words[v ? 1 : 0]);
  } else if constexpr (Field::form == field_form::triple) {
    triple(json, field.name, v);
  } else if constexpr (Field::form == field_form::hex) {
    json.key(field.name);
    json.hex(v);
  } else if constexpr (Field::form == field_form::uuid) {
    std::string uuid;
    append_uuid(uuid, v);
    json.field(field.name, uuid);
  } else if constexpr (Field::form == field_form::arguments) {
    json.key(arguments_key);
    arguments_object(json, v.arguments, v.argument_count);
  } else if constexpr (Field::form == field_form::payload) {
    json.key(field.name);
    put_payload(json, v);
  } else {
    json.field(field.name, v);
  }
}
template <class List>
inline void write_fields(json_text& json, const event& e, const List& list, std::string_view arguments_key = "args") {
  std::apply([&](const auto&... field) { (write_field(json, e, field, arguments_key), ...); }, list);
}

/// Fields of the kind of `e`, beside those that every kind has.
inline void kind_fields(json_text& json, const event& e) {
  with_field_list(e.kind, [&](const auto& list) { write_fields(json, e, list); });
}

}  // namespace detail
CUTRACE_END_NAMESPACE
