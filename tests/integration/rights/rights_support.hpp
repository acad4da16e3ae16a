// SPDX-License-Identifier: Apache-2.0
// Copies of programs with more rights than who starts them, and users to start them as.
#pragma once

#include <doctest/doctest.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "../../support/child_process.hpp"

namespace rights {

constexpr uid_t nobody = 65534;  ///< who starts programs
constexpr uid_t owner = 65533;   ///< whose rights they have

/// Where it is not, a message says so, and the test checks nothing.
inline bool is_root() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: only root can give a program the rights of another user");
  return false;
}

/// A folder of root's that all may read, with one of nobody's and one of the owner's in it.
struct ground {
  temporary_folder folder;
  std::string callers = folder.file("callers"), owners = folder.file("owners");

  ground() {
    ::chmod(folder.path().c_str(), 0755);
    for (const auto& [path, who] : {std::pair{callers, nobody}, std::pair{owners, owner}}) {
      std::filesystem::create_directory(path);
      ::chmod(path.c_str(), 0755);
      REQUIRE(::chown(path.c_str(), who, who) == 0);
    }
  }
  /// A copy that belongs to `of`; with S_ISUID in `mode` it runs with the rights of `of`, whoever starts it.
  std::string copy(const std::string& program, uid_t of, mode_t mode) const {
    const std::string to = folder.file(std::filesystem::path(program).filename().string() + std::to_string(mode));
    std::filesystem::copy_file(program, to, std::filesystem::copy_options::overwrite_existing);
    REQUIRE(::chown(to.c_str(), of, of) == 0);
    REQUIRE(::chmod(to.c_str(), mode) == 0);
    return to;
  }
};

/// Runs it as nobody, in nobody's folder. Does not go on where there is no setpriv.
inline test_support::finished_process run_as_nobody(const ground& where, std::vector<std::string> words,
                                                    const std::map<std::string, std::string>& environment = {}) {
  const std::vector<std::string> as{"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  words.insert(words.begin(), as.begin(), as.end());
  const temporary_folder output;  // of root's
  words.insert(words.begin(), {"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", where.callers});
  return test_support::run_process(words, output.path(), environment);
}

/// Whether a copy that is setuid gets its owner's rights here: not where the file system is mounted "nosuid".
inline bool setuid_works(const ground& where) {
  const std::string id = where.copy("/usr/bin/id", owner, 04755);
  if (run_as_nobody(where, {id, "-u"}).output == std::to_string(owner) + "\n") return true;
  MESSAGE("skipped: setuid programs do not get their rights here, or there is no setpriv");
  return false;
}

}  // namespace rights
