// SPDX-License-Identifier: Apache-2.0
// Formatted text at the end of a string. fmt::format_to would compile the whole formatter into this program, and a copy
// of its buffer's growth into each place that calls it; this way a place is a list of arguments and a call.
#pragma once

#include <fmt/core.h>

#include <cutrace/config.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

CUTRACE_ONE_COPY inline void append_formatted(std::string& out, fmt::string_view form, fmt::format_args values) {
  out += fmt::vformat(form, values);
}

/// As fmt::format; the form is checked where it is compiled.
template <class... Values>
inline void append_format(std::string& out, fmt::format_string<const Values&...> form, const Values&... values) {
  append_formatted(out, form, fmt::make_format_args(values...));
}

}  // namespace detail
CUTRACE_END_NAMESPACE
