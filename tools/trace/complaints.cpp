// SPDX-License-Identifier: Apache-2.0
#include "trace/complaints.hpp"

#include <cutrace/output/utf8.hpp>

namespace cutrace_reading {

std::string sentence_of(const complaint& c) {
  std::string s = c.file;
  if (c.first.line != 0) s += ", line " + std::to_string(c.first.line);
  s += ", byte " + std::to_string(c.first.byte) + ": ";
  cutrace::detail::append_printable(s, c.what, 400);
  if (c.count > 1) s += " (and " + std::to_string(c.count - 1) + " more)";
  return s;
}

}  // namespace cutrace_reading
