// SPDX-License-Identifier: Apache-2.0
// Parses the names of memcpys and memsets as Chrome JSON and Perfetto traces spell them
// (sinks/common/kineto_names.hpp): "Memcpy HtoD (Pinned -> Device)".
#pragma once

#include <cutrace/event.hpp>
#include <string>
#include <string_view>

#include "trace/text_pool.hpp"
#include "trace/words.hpp"

namespace cutrace_reading {

struct spoken_copy {
  cutrace::copy_direction direction = cutrace::copy_direction::unknown;
  cutrace::memory_kind source = cutrace::memory_kind::unknown, destination = cutrace::memory_kind::unknown;
};

/// @returns false where the name has another form
inline bool read_copy_name(std::string_view name, spoken_copy& to) noexcept {
  constexpr std::string_view begin = "Memcpy ", arrow = " -> ";
  const std::size_t open = name.find(" ("), middle = name.find(arrow);
  if (name.substr(0, begin.size()) != begin || open == std::string_view::npos || middle == std::string_view::npos ||
      open < begin.size() || middle < open + 2 || name.back() != ')')
    return false;
  const std::size_t after = middle + arrow.size();
  return parse(name.substr(begin.size(), open - begin.size()), to.direction) &&
         parse(name.substr(open + 2, middle - open - 2), to.source) &&
         parse(name.substr(after, name.size() - 1 - after), to.destination);
}

/// "Memset (Device)"
inline bool read_set_name(std::string_view name, cutrace::memory_kind& to) noexcept {
  constexpr std::string_view begin = "Memset (";
  return name.substr(0, begin.size()) == begin && name.back() == ')' &&
         parse(name.substr(begin.size(), name.size() - 1 - begin.size()), to);
}

/// The name that the CUPTI backend gives a copy in this direction.
inline cutrace::text copy_name(cutrace::copy_direction direction, text_pool& texts) {
  if (direction == cutrace::copy_direction::unknown) return texts.intern("memcpy");
  return texts.intern(std::string("memcpy ") + cutrace::to_string(direction));
}

}  // namespace cutrace_reading
