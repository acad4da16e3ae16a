// SPDX-License-Identifier: Apache-2.0
// The control socket of another process, which is found through its descriptors: whatever folder it chose, and also
// where that process has another mount or network namespace.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace cutrace_tool {

/// A listening control socket of a process.
struct process_socket {
  std::string root;  ///< where that process's "/" is: /proc/PID/task/TID/root
  std::string path;  ///< as that process calls it
};

/// One socket for each runtime of the process. There are several runtimes only where the process has incompatible
/// versions of cutrace.
/// @throws usage_error with the reason where there is none: no such process, not ours to ask, not traced, no socket
std::vector<process_socket> find_process_sockets(int process);

/// An answer: its first line, and the text behind it.
struct process_answer {
  std::string line, text;
};
/// Sends the line `request` and reads the answer until the other side closes the connection.
/// @throws usage_error where the socket is of another process, or the whole answer has not come until `end`
process_answer ask_process(int process, const process_socket& socket, const std::string& request,
                           std::chrono::steady_clock::time_point end);

}  // namespace cutrace_tool
