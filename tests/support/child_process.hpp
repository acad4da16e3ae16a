// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end and keeps what it wrote: for tests of what a process leaves behind when it exits, aborts
// or forks. A program that hangs is killed and said to have hung.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "temporary_folder.hpp"

namespace test_support {

struct finished_process {
  bool hung = false;
  int exit_status = -1;  ///< -1 where a signal ended it
  int signal = 0;
  std::string output;
  std::string errors;
  std::string wrote;  ///< the lines "cutrace: wrote ..." of stderr, which `errors` lacks
};

/// `environment` is added to that of the test; an empty value removes a variable. Output goes to files in `folder`,
/// which is the program's working folder, too.
inline finished_process run_process(const std::vector<std::string>& words, const std::string& folder,
                                    const std::map<std::string, std::string>& environment = {}) {
  constexpr std::chrono::seconds patience{120};
  const std::string out = folder + "/stdout", err = folder + "/stderr";
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const auto& [name, value] : environment)
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    const int out_fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (::dup2(out_fd, 1) < 0 || ::dup2(err_fd, 2) < 0 || ::chdir(folder.c_str()) != 0) ::_exit(126);
    ::setpgid(0, 0);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  finished_process p;
  int status = 0;
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (!p.hung && std::chrono::steady_clock::now() > give_up) {
      p.hung = true;
      ::kill(-child, SIGKILL);  // with the processes that it forked
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (WIFEXITED(status)) p.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) p.signal = WTERMSIG(status);
  p.output = content_of(out);
  p.errors = content_of(err);
  for (std::size_t at; (at = p.errors.find("cutrace: wrote ")) != std::string::npos;) {
    const std::size_t end = std::min(p.errors.find('\n', at), p.errors.size() - 1) + 1;
    p.wrote += p.errors.substr(at, end - at);
    p.errors.erase(at, end - at);
  }
  return p;
}

}  // namespace test_support
