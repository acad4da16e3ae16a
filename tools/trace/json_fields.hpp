// SPDX-License-Identifier: Apache-2.0
// Fields of events from JSON, by their description (cutrace/event_fields.hpp): the inverse of what the sinks write.
#pragma once

#include <cstddef>
#include <cutrace/event.hpp>
#include <string_view>
#include <vector>

#include "trace/complaints.hpp"
#include "trace/json_value.hpp"
#include "trace/text_pool.hpp"

namespace cutrace_reading {

/// Where the values that are read are stored.
struct field_target {
  cutrace::event& e;
  std::vector<cutrace::argument>& arguments;  ///< of a call or probe, until the feed copies them
  text_pool& texts;
  complaints& problems;
  place at;
};

struct readable_field {
  std::string_view name;
  value_state (*read)(const readable_field& f, json_value& v, const field_target& to);
  const char* words[2];
};

/// All fields that events of a kind have, in the order in which they are written.
const std::vector<readable_field>& readable_fields(cutrace::event_kind kind);
/// Fields that only events of this kind have.
const std::vector<readable_field>& readable_fields_of_kind(cutrace::event_kind kind);

/// The field of that name; nullptr: there is none. @param next index where the search begins; set to the index after
/// the field found, since fields mostly come in order
inline const readable_field* find_field(const std::vector<readable_field>& all, std::string_view name,
                                        std::size_t& next) noexcept {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t at = next + i < all.size() ? next + i : next + i - all.size();
    if (all[at].name != name) continue;
    next = at + 1 < all.size() ? at + 1 : 0;
    return &all[at];
  }
  return nullptr;
}

}  // namespace cutrace_reading
