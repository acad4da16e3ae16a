// SPDX-License-Identifier: Apache-2.0
// Which files a command was given, by what they are: names and links may lead to the same one.
#pragma once

#include <sys/stat.h>

#include <set>
#include <string>
#include <utility>

namespace cutrace_reading {

class given_files {
 public:
  /// False: a regular file that was given before. `known`: as stat(2) fills it in, all zero where it cannot. "-" is
  /// standard input, even where a file has that name.
  bool add(const std::string& file, struct stat& known) {
    known = {};
    return file == "-" || ::stat(file.c_str(), &known) != 0 || !S_ISREG(known.st_mode) ||
           given_.emplace(known.st_dev, known.st_ino).second;
  }

 private:
  std::set<std::pair<dev_t, ino_t>> given_;
};

}  // namespace cutrace_reading
