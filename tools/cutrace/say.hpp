// SPDX-License-Identifier: Apache-2.0
// The command's lines on stderr. They quote names of files, processes and threads, which others chose: nothing of them
// may steer the terminal.
#pragma once

#include <cstdio>
#include <cutrace/base/write_all.hpp>
#include <string>

namespace cutrace_tool {

/// For a terminal: without control characters but for line breaks.
inline std::string harmless(std::string text) {
  cutrace::detail::mask_controls(&text[0], text.size());
  return text;
}

/// One line, or several.
inline void say(const std::string& text) { std::fputs((harmless(text) + "\n").c_str(), stderr); }

}  // namespace cutrace_tool
