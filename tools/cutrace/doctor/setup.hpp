// SPDX-License-Identifier: Apache-2.0
// What doctor was asked, and how it reads the machine: every file of /proc, /sys and /dev below one root, so that tests
// can build machines that they do not have.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace cutrace_tool::doctor {

struct setup {
  std::string root;  ///< before each path of /proc, /sys and /dev; empty: this machine
  std::string out = "cutrace-out";
  std::string program;        ///< to be traced; empty: none was named
  int patience_seconds = 30;  ///< for what the driver is asked: a machine of eight GPUs takes ten to start one
  bool try_it = false;

  bool this_machine() const noexcept { return root.empty(); }
};

/// A small file of the machine, or why it cannot be read.
struct machine_file {
  std::string path;  ///< without the root
  std::string text;
  int error = 0;  ///< errno; 0: it was read

  bool read() const noexcept { return error == 0; }
  bool absent() const noexcept { return error == ENOENT || error == ENOTDIR; }
  /// "PATH cannot be read: reason".
  std::string why() const { return path + " cannot be read: " + std::strerror(error); }
};

inline machine_file read_file(const setup& s, const std::string& path) {
  machine_file f;
  f.path = path;
  const int fd = ::open((s.root + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    f.error = errno;
    return f;
  }
  char part[4096];
  ssize_t n = 0;
  while (f.text.size() < (1u << 20) && (n = ::read(fd, part, sizeof(part))) > 0)
    f.text.append(part, static_cast<std::size_t>(n));
  if (n < 0) f.error = errno;
  ::close(fd);
  while (!f.text.empty() && (f.text.back() == '\n' || f.text.back() == '\0')) f.text.pop_back();
  return f;
}

inline bool exists(const setup& s, const std::string& path) { return ::access((s.root + path).c_str(), F_OK) == 0; }

/// Names in a folder of the machine, in order; none where it cannot be read.
inline std::vector<std::string> list(const setup& s, const std::string& folder) {
  std::vector<std::string> names;
  DIR* d = ::opendir((s.root + folder).c_str());
  if (d == nullptr) return names;
  while (const dirent* e = ::readdir(d))
    if (e->d_name[0] != '.') names.emplace_back(e->d_name);
  ::closedir(d);
  std::sort(names.begin(), names.end());
  return names;
}

/// A line "NAME:  value" or "NAME : value" of a file such as /proc/self/status; empty where there is none.
inline std::string field(const std::string& text, const std::string& name) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos) {
      const std::size_t last = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
      if (line.compare(0, last + 1, name) == 0) {
        const std::size_t value = line.find_first_not_of(" \t", colon + 1);
        return value == std::string::npos ? std::string() : line.substr(value);
      }
    }
    at = end + 1;
  }
  return {};
}

/// A variable of the environment; empty where it is not set.
inline std::string variable(const char* name) {
  const char* v = std::getenv(name);
  return v != nullptr ? v : "";
}

/// Is this file libcutrace_inject.so, by its name?
inline bool names_cutrace_library(const std::string& path) {
  return path.compare(path.rfind('/') + 1, 17, "libcutrace_inject") == 0;  // npos + 1 is 0
}

}  // namespace cutrace_tool::doctor
