// SPDX-License-Identifier: Apache-2.0
#include "cutrace/ioctl_run.hpp"

#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cutrace/clock.hpp>
#include <cutrace/ioctl/ioctl_backend.hpp>

#include "cutrace/exit_status.hpp"
#include "cutrace/nvidia_devices.hpp"
#include "cutrace/patience.hpp"
#include "cutrace/remote_trace.hpp"

namespace cutrace_tool {

namespace io = cutrace::ioctls;

namespace {

void check_machine() {
  if (io::own_architecture == 0) throw usage_error("--method ioctl: not for this processor yet");
  utsname u{};
  unsigned major = 0, minor = 0;
  // PTRACE_GET_SYSCALL_INFO.
  if (::uname(&u) == 0 && std::sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
      (major < 5 || (major == 5 && minor < 3)))
    throw usage_error(std::string("--method ioctl needs Linux 5.3 or newer; this is ") + u.release);
}

/// A record stands for one ioctl, for those that found no room, or for the end of a process.
std::uint64_t ioctls_of(const io::trace_record& r) {
  if (r.kind == io::trace_record::what::ended) return 0;
  return r.kind == io::trace_record::what::lost ? static_cast<std::uint64_t>(r.result) : 1;
}

}  // namespace

ioctl_run::ioctl_run(std::map<std::string, std::string> writers, bool children)
    : variables_(std::move(writers)),
      children_(children),
      since_ns_(cutrace::clock::monotonic_ns()),
      devices_(find_nvidia_devices()),
      branch_(find_driver_branch()) {
  check_machine();
  if (!ring_.usable()) throw usage_error("--method ioctl: out of memory");
  if (const int why = tracer_.start(ring_, devices_, branch_))
    throw usage_error(std::string("--method ioctl: the tracer cannot be started: ") + std::strerror(why));
}

ioctl_run::~ioctl_run() {
  for (auto& [process, w] : writers_)
    if (w.pipe >= 0) ::close(w.pipe);
}

start_gate ioctl_run::gate() {
  start_gate g;
  g.in_child = [this] { return tracer_.enter(); };
  g.in_parent = [this](pid_t program) {
    const int why = tracer_.hold(program, !children_);
    if (why != 0)
      refusal_ = std::string("--method ioctl: the program may not be traced here: ") + std::strerror(why) +
                 "; cutrace doctor --method ioctl says what is in the way";
    return why;
  };
  return g;
}

/// One record, whole or not at all: it is shorter than what a pipe takes at once. False: it cannot be carried now.
bool ioctl_run::carry(const io::trace_record& r) {
  static_assert(sizeof(r) <= 4096, "PIPE_BUF of Linux");
  if (r.kind == io::trace_record::what::ended) {
    close_trace_of(r.process);
    return true;
  }
  writer& w = writer_of(r);
  ssize_t n = 0;
  if (w.pipe >= 0) {
    while ((n = ::write(w.pipe, &r, sizeof(r))) < 0 && errno == EINTR) {
    }
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0) {  // the writing process has ended: its records are dropped from here on
      ::close(w.pipe);
      w.pipe = -1;
    }
  }
  if (w.pipe >= 0)
    ++carried_;
  else
    writer_gone_ += ioctls_of(r);
  return true;
}

/// A program may start any number of processes, one after the other, and ids are given out again.
void ioctl_run::close_trace_of(std::uint32_t process) {
  const auto known = writers_.find(process);
  if (known == writers_.end()) return;
  if (known->second.pipe >= 0) ::close(known->second.pipe);
  if (known->second.process > 0) ending_.push_back(known->second.process);
  writers_.erase(known);
}

void ioctl_run::relay() {
  while (ring_.front() != nullptr && carry(*ring_.front())) ring_.drop();
  ending_.erase(
      std::remove_if(ending_.begin(), ending_.end(), [](pid_t one) { return ::waitpid(one, nullptr, WNOHANG) != 0; }),
      ending_.end());
  if (!tracer_gone_ && ::waitpid(tracer_.id(), &tracer_status_, WNOHANG) == tracer_.id()) tracer_gone_ = true;
}

bool ioctl_run::finish() {
  // Records left in the ring wait for a full pipe, which is emptied as fast as the writing process writes its trace.
  patience wait;
  relay();
  while (ring_.front() != nullptr && wait.lasts(carried_)) {
    ::usleep(1000);
    relay();
  }
  for (; ring_.front() != nullptr; ring_.drop()) given_up_ += ioctls_of(*ring_.front());
  // The tracer found no room for a record that counts them.
  if (const std::uint64_t lost = ring_.lost().load(std::memory_order_relaxed)) {
    const io::trace_record r = io::lost_record(ring_.lost_of().load(std::memory_order_relaxed), lost);
    bool carried = false;
    while (!(carried = carry(r)) && wait.lasts(carried_)) ::usleep(1000);
    if (!carried) given_up_ += lost;
  }
  while (!writers_.empty()) close_trace_of(writers_.begin()->first);
  for (const pid_t one : ending_) ::waitpid(one, nullptr, 0);
  ending_.clear();
  return given_up_ == 0 && writer_gone_ == 0 && tracer_status_ == 0 && hidden() == 0;
}

std::vector<std::string> ioctl_run::notes() const {
  std::vector<std::string> all;
  if (hidden() != 0)
    all.push_back("of " + std::to_string(hidden()) +
                  " ioctls it is not known which device they went to: their process hides what it has open "
                  "(PR_SET_DUMPABLE)");
  if (tracer_status_ != 0)
    all.push_back(
        "the tracer (cutrace-ioctl) was ended by " +
        (WIFSIGNALED(tracer_status_) ? "signal " + std::to_string(WTERMSIG(tracer_status_))
                                     : "status " + std::to_string(WEXITSTATUS(tracer_status_))) +
        ": from then on ioctls are in no trace, and those on devices of NVIDIA failed in the program (ENOSYS)");
  if (given_up_ != 0)
    all.push_back(std::to_string(given_up_) +
                  " ioctls are in no trace: the process that writes it took nothing for ten seconds");
  if (writer_gone_ != 0)
    all.push_back(
        "at least " + std::to_string(writer_gone_) +
        " ioctls are in no trace: the process that writes it could not start, or ended before it had them all");
  return all;
}

ioctl_run::writer& ioctl_run::writer_of(const io::trace_record& r) {
  const auto known = writers_.find(r.process);
  return known != writers_.end() ? known->second : writers_.emplace(r.process, start_writer(r)).first->second;
}

ioctl_run::writer ioctl_run::start_writer(const io::trace_record& r) const {
  remote_trace t;
  t.variables = variables_;
  t.process = r.process;
  t.name.assign(r.thread_name, ::strnlen(r.thread_name, sizeof(r.thread_name)));
  t.since_ns = since_ns_;
  t.backend = "ioctl";
  t.make = [this](int records) { return new io::ioctl_backend(records, branch_); };
  writer w;
  w.process = start_remote_trace(t, w.pipe);
  return w;
}

}  // namespace cutrace_tool
