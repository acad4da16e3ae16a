// SPDX-License-Identifier: Apache-2.0
// How text for a terminal is to look: columns, colour, rows of tables.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "report/pages/text.hpp"

namespace cutrace_tool {

/// @param width, top as the user has them, 0: not said. Without a width, columns are those of the terminal on standard
/// output, at most 100, since longer lines are hard to read; without a terminal 100.
inline cutrace::report_options terminal_options(unsigned width, unsigned top) {
  cutrace::report_options options;
  winsize size{};
  if (width != 0)
    options.width = width;
  else if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 && size.ws_col < 100)
    options.width = size.ws_col;
  options.color = ::isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  options.utf8 = ::isatty(STDOUT_FILENO) != 0 && cutrace::ascii::terminal_takes_utf8();
  if (top != 0) options.top = top;
  return options;
}

}  // namespace cutrace_tool
