// SPDX-License-Identifier: Apache-2.0
// An fmt that is a user's own: a header with names that the real one has, too, and nothing to link.
#pragma once

#include <string>

namespace fmt {
inline namespace v9 {
class string_view {};
class format_args {};
inline std::string vformat(string_view, format_args) { return "the user's own"; }
}  // namespace v9
}  // namespace fmt
