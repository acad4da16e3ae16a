// SPDX-License-Identifier: Apache-2.0
#include "cutrace/remote_trace.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cutrace/base/process_info.hpp>
#include <cutrace/run/backend_registry.hpp>
#include <cutrace/session.hpp>
#include <exception>
#include <future>

#include "cutrace/exit_status.hpp"
#include "cutrace/file_content.hpp"
#include "cutrace/invoking_user.hpp"
#include "cutrace/say.hpp"

namespace cutrace_tool {

namespace {

constexpr int records_end = 3;  ///< descriptor of the pipe's reading end
constexpr const char* launcher_variables[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "SLURM_PROCID",
                                              "PMI_RANK", "LOCAL_RANK",           "WORLD_SIZE",
                                              "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"};

const remote_trace* being_written = nullptr;
std::future<void> end_of_records;  ///< of the backend, once there is one

/// All that the writing process does.
[[noreturn]] void write(const remote_trace& t, int pipe) {
  if (pipe != records_end && ::dup2(pipe, records_end) < 0) ::_exit(exit_command_failure);
  if (::syscall(SYS_close_range, records_end + 1, ~0u, 0) != 0)
    for (int fd = records_end + 1; fd < 4096; ++fd) ::close(fd);
  drop_capabilities();
  ::umask(077);
  // The terminal's signals are for the program and the command; this process ends when the command closes the pipe.
  ::setsid();
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(s, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  try {
    // The traced process may be gone by now; then the launcher variables of the command are used in place of its own.
    const std::string folder = "/proc/" + std::to_string(t.process);
    const std::string environment = content_of(folder + "/environ");
    if (!environment.empty())
      for (const char* name : launcher_variables) ::unsetenv(name);
    for (std::size_t at = 0; at < environment.size();) {
      const std::string one = environment.c_str() + at;
      at += one.size() + 1;
      const std::string name = one.substr(0, one.find('='));
      for (const char* variable : launcher_variables)
        if (name == variable && name.size() < one.size()) ::setenv(variable, one.c_str() + name.size() + 1, 1);
    }
    for (const char* name :
         {"CUTRACE", "CUTRACE_SAMPLE", "CUTRACE_START_AFTER", "CUTRACE_DURATION", "CUTRACE_NVTX", "CUTRACE_RUN_PID"})
      ::unsetenv(name);
    for (const auto& [name, value] : t.variables) ::setenv(name.c_str(), value.c_str(), 1);
    cutrace::detail::remote_process& reported = cutrace::detail::remote_process::own();
    reported.id = t.process;
    reported.name = content_of(folder + "/comm");
    while (!reported.name.empty() && reported.name.back() == '\n') reported.name.pop_back();
    if (reported.name.empty()) reported.name = t.name;
    reported.command_line = content_of(folder + "/cmdline").substr(0, 4096);
    if (reported.command_line.empty()) reported.command_line = t.command_line;
    while (!reported.command_line.empty() && reported.command_line.back() == '\0') reported.command_line.pop_back();
    reported.since_ns = t.since_ns;
    being_written = &t;
    static const cutrace::detail::backend_registration known(t.backend, false, []() -> cutrace::backend* {
      cutrace::detail::remote_backend* const made = being_written->make(records_end);
      end_of_records = made->end();
      return made;
    });
    cutrace::session trace{cutrace::session_options()};
    // Without a backend there is no trace, and the status block says why. A backend whose trace could not begin is
    // gone.
    if (end_of_records.valid()) end_of_records.get();
  } catch (const std::exception& e) {
    say("cutrace: process " + std::to_string(t.process) + " is not traced: " + e.what());
    ::_exit(exit_command_failure);
  }
  std::exit(0);  // not _exit: a trace of `cutrace run` ends in an exit handler
}

}  // namespace

pid_t start_remote_trace(const remote_trace& t, int& pipe) {
  pipe = -1;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  ::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);  // as far as the system allows
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process == 0) write(t, ends[0]);
  ::close(ends[0]);
  if (process < 0)
    ::close(ends[1]);
  else
    pipe = ends[1];
  return process;
}

}  // namespace cutrace_tool
