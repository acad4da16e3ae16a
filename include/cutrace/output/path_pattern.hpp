// SPDX-License-Identifier: Apache-2.0
// Names of output files: one pattern serves all processes of all machines.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cutrace/base/process_info.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <memory>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Whether the pattern holds %u, and so makes a different name of each attempt.
inline bool is_unique_pattern(std::string_view pattern) noexcept {
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i)
    if (pattern[i] == '%' && pattern[++i] == 'u') return true;
  return false;
}

/// The pattern that means this very path.
inline std::string pattern_of_path(std::string_view path) {
  std::string pattern;
  for (const char c : path) pattern.append(c == '%' ? 2 : 1, c);
  return pattern;
}

/// Replaces %p by the process id, %h by the host's name, %r by the rank that a launcher gave (rank.hpp) and %% by a
/// percent sign. Without a rank, %r is nothing, and a '.', '-' or '_' before it goes with it. %u is nothing in the
/// first `attempt` and -2, -3 and so on in later ones: who opens the file takes the first name that is free. @throws
/// config_error
CUTRACE_NOINLINE inline std::string expand_path(std::string_view pattern, unsigned attempt = 1) {
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
      path += std::to_string(traced_process_id());
    } else if (what == 'h') {
      char host[256] = "";
      if (::gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') path += "localhost";
      for (const char* c = host; *c != '\0'; ++c) path += *c == '/' ? '_' : *c;
    } else if (what == 'r') {
      const std::int32_t rank = process_rank();
      if (rank >= 0)
        path += std::to_string(rank);
      else if (!path.empty() && std::string_view(".-_").find(path.back()) != std::string_view::npos)
        path.pop_back();
    } else if (what == 'u') {
      if (attempt > 1) path += '-' + std::to_string(attempt);
    } else if (what == '%') {
      path += '%';
    } else {
      throw config_error(("\"" + std::string(pattern) +
                          "\": after % comes p (process id), h (host name), r (rank), u (a number where the file "
                          "exists) or another %")
                             .c_str());
    }
  }
  return path;
}

/// The path from the root. The program may change its working directory, and files are renamed, replaced and removed by
/// name long after they were opened. Where that directory has been removed, the path as it is.
CUTRACE_NOINLINE inline std::string absolute_path(std::string path) {
  if (path.empty() || path[0] == '/') return path;
  char* const folder = ::getcwd(nullptr, 0);
  if (folder == nullptr) return path;
  const std::unique_ptr<char, void (*)(void*)> owner(folder, &std::free);
  return std::string(folder) + (folder[1] == '\0' ? "" : "/") + path;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
