// SPDX-License-Identifier: Apache-2.0
// Names of output files: one pattern serves all processes of all machines.
#pragma once

#include <unistd.h>

#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Replaces %p by the process id, %h by the host's name and %% by a percent sign. @throws config_error
inline std::string expand_path(std::string_view pattern) {
  if (pattern.empty()) throw config_error("the name of an output file is empty");
  if (pattern.find('\0') != std::string_view::npos) throw config_error("the name of an output file holds a zero byte");
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    const char what = i + 1 < pattern.size() ? pattern[++i] : '\0';
    if (what == 'p') {
      path += std::to_string(::getpid());
    } else if (what == 'h') {
      char host[256] = "";
      if (::gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') path += "localhost";
      for (const char* c = host; *c != '\0'; ++c) path += *c == '/' ? '_' : *c;
    } else if (what == '%') {
      path += '%';
    } else {
      throw config_error(
          ("\"" + std::string(pattern) + "\": after % comes p (process id), h (host name) or another %").c_str());
    }
  }
  return path;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
