// SPDX-License-Identifier: Apache-2.0
#include "trace/json_fields.hpp"

#include <array>
#include <cutrace/event_fields.hpp>
#include <tuple>
#include <type_traits>

#include "trace/json_arguments.hpp"
#include "trace/json_facts.hpp"
#include "trace/words.hpp"

namespace cutrace_reading {

using cutrace::event;
using cutrace::event_kind;
using cutrace::field_form;

namespace {

void complain_of_word(const field_target& to, std::string_view word) {
  to.problems.add("unknown word \"" + std::string(word.substr(0, 64)) + "\"", to.at);
}

template <class T>
value_state read_number(json_value& v, T& to) noexcept {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return read_signed(v, to);
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return read_signed32(v, to);
  else
    return read_unsigned(v, to);
}

template <class T>
value_state read_hex_number(json_value& v, T& to) noexcept {
  std::uint64_t wide = 0;
  value_state state = read_hex(v, wide);
  if (state == value_state::good && wide > static_cast<T>(~T{0})) state = value_state::out_of_range;
  if (state == value_state::good) to = static_cast<T>(wide);
  return state;
}

template <class Field>
value_state read_described(const readable_field& f, json_value& v, const field_target& to) {
  auto& member = Field::of(to.e);
  value_state state = value_state::good;
  if constexpr (Field::form == field_form::number || Field::form == field_form::time) {
    state = read_number(v, member);
  } else if constexpr (Field::form == field_form::hex) {
    state = read_hex_number(v, member);
  } else if constexpr (Field::form == field_form::flag) {
    state = read_bool(v, member);
  } else if constexpr (Field::form == field_form::triple) {
    state = read_triple(v, member);
  } else if constexpr (Field::form == field_form::uuid) {
    state = read_uuid(v, member);
  } else if constexpr (Field::form == field_form::arguments) {
    field_watch watch(to.problems, to.at);
    read_arguments(f.name, v, to.texts, to.e.kind != event_kind::api, to.arguments, watch);
  } else if constexpr (Field::form == field_form::payload) {
    cutrace::argument a;
    state = read_argument(v, nullptr, a);
    if (state == value_state::good) member.payload = a.value, member.payload_kind = a.kind;
  } else {
    std::string_view s;
    state = read_text(v, s);
    if (state != value_state::good) return state;
    if constexpr (Field::form == field_form::text) {
      member = to.texts.intern(s);
    } else if constexpr (Field::form == field_form::word) {
      if (!parse(s, member)) complain_of_word(to, s);
    } else {
      member = s == f.words[1];
      if (s != f.words[0] && s != f.words[1]) complain_of_word(to, s);
    }
  }
  if (state == value_state::good) Field::was_read(to.e);
  return state;
}

/// Adds each field that it is called with.
struct table {
  std::vector<readable_field> all;
  template <class... Field>
  void operator()(const Field&... field) {
    (all.push_back({field.name, &read_described<Field>, {field.words[0], field.words[1]}}), ...);
  }
};

template <class Make>
std::array<std::vector<readable_field>, cutrace::event_kind_count> tables(Make make) {
  std::array<std::vector<readable_field>, cutrace::event_kind_count> all;
  for (std::size_t k = 0; k < all.size(); ++k) {
    table t;
    make(static_cast<event_kind>(k), t);
    all[k] = std::move(t.all);
  }
  return all;
}

}  // namespace

const std::vector<readable_field>& readable_fields(event_kind kind) {
  static const auto all = tables([](event_kind k, table& t) {
    std::apply(t, cutrace::detail::host_fields);
    std::apply(t, cutrace::detail::belonging_fields);
    cutrace::with_fields(k, t);
    std::apply(t, cutrace::detail::quality_fields);
  });
  return all[static_cast<std::size_t>(kind)];
}

const std::vector<readable_field>& readable_fields_of_kind(event_kind kind) {
  static const auto all = tables([](event_kind k, table& t) { cutrace::with_fields(k, t); });
  return all[static_cast<std::size_t>(kind)];
}

}  // namespace cutrace_reading
