// SPDX-License-Identifier: Apache-2.0
// The child, its two pipes and its end.
#include "child_probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cutrace/invoking_user.hpp"

namespace cutrace_tool::doctor {

namespace {

using steady = std::chrono::steady_clock;

constexpr std::size_t said_limit = 4096;

struct pipe_pair {
  int read_end = -1, write_end = -1;
  bool open() {
    int both[2];
    if (::pipe2(both, O_CLOEXEC) != 0) return false;
    read_end = both[0];
    write_end = both[1];
    return true;
  }
  void close_write() { ::close(std::exchange(write_end, -1)); }
  ~pipe_pair() {
    if (read_end >= 0) ::close(read_end);
    if (write_end >= 0) ::close(write_end);
  }
};

[[noreturn]] void be_child(const pipe_pair& facts, const pipe_pair& said,
                           const std::function<void(const reporter&)>& work, pid_t parent) {
  drop_capabilities();  // libraries of this user are loaded here
  // Ctrl-C reaches the parent alone, since this is a process group of its own.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, 0);
  ::dup2(said.write_end, 1);
  ::dup2(said.write_end, 2);
  const reporter t(facts.write_end);
  try {
    work(t);
  } catch (const std::exception& e) {
    t.report("exception", e.what());
  }
  t.report("complete", 1);
  t.step("the end of the process");
  std::exit(0);
}

/// False when the pipe has been closed.
bool take(int fd, std::string& to, std::size_t limit) {
  char part[4096];
  const ssize_t n = ::read(fd, part, sizeof(part));
  if (n < 0) return errno == EINTR || errno == EAGAIN;
  if (to.size() < limit) to.append(part, static_cast<std::size_t>(n));
  return n != 0;
}

/// Reads both pipes until the child has ended; false when the time ran out before. A grandchild that holds a pipe open
/// is not waited for.
bool listen(pid_t child, const pipe_pair& facts, const pipe_pair& said, int patience_seconds, std::string& text,
            std::string& spoken, int& status) {
  const auto end = steady::now() + std::chrono::seconds(patience_seconds);
  pollfd fds[2] = {{facts.read_end, POLLIN, 0}, {said.read_end, POLLIN, 0}};
  for (bool ended = false; steady::now() < end;) {
    ended = ended || ::waitpid(child, &status, WNOHANG) == child;
    const bool more = ::poll(fds, 2, ended ? 0 : 20) > 0;
    if (fds[0].revents != 0 && !take(facts.read_end, text, 1u << 20)) fds[0].fd = -1;
    if (fds[1].revents != 0 && !take(said.read_end, spoken, said_limit)) fds[1].fd = -1;
    if (ended && (!more || (fds[0].fd < 0 && fds[1].fd < 0))) return true;
    if (fds[0].fd < 0 && fds[1].fd < 0) ::usleep(2000);  // closed by the child, which goes on
  }
  return false;
}

/// A child that sits in the kernel cannot be killed: it is left behind after two seconds.
void end_child(pid_t child) {
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
  for (int i = 0; i < 200; ++i) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) return;
    ::usleep(10000);
  }
}

void read_facts(const std::string& text, probe_result& r) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    const std::size_t tab = line.find('\t');
    if (tab != std::string::npos) {
      if (line.compare(0, tab, "step") == 0)
        r.step = line.substr(tab + 1);
      else
        r.facts.emplace_back(line.substr(0, tab), line.substr(tab + 1));
    }
    at = end + 1;
  }
}

}  // namespace

void reporter::report(const std::string& key, const std::string& value) const {
  std::string line = key + '\t' + value;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno != EINTR) return;  // the parent is gone
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

const std::string* probe_result::find(const std::string& key) const {
  for (const auto& [name, value] : facts)
    if (name == key) return &value;
  return nullptr;
}
std::string probe_result::text(const std::string& key) const {
  const std::string* v = find(key);
  return v != nullptr ? *v : std::string();
}
long long probe_result::number(const std::string& key, long long otherwise) const {
  const std::string* v = find(key);
  return v != nullptr ? std::atoll(v->c_str()) : otherwise;
}

std::string probe_result::failure(int patience_seconds) const {
  if (!could_not_run.empty()) return could_not_run;
  if (hung) return step + " did not return within " + std::to_string(patience_seconds) + " s";
  if (signal != 0) {
    const char* name = ::strsignal(signal);
    return step + " ended the process by signal " + std::to_string(signal) +
           (name != nullptr ? std::string(" (") + name + ")" : "");
  }
  if (!complete) return step + " ended the process with exit code " + std::to_string(exit_status);
  return {};
}

probe_result run_probe(int patience_seconds, const std::function<void(const reporter&)>& work) {
  probe_result r;
  pipe_pair facts, said;
  if (!facts.open() || !said.open()) {
    r.could_not_run = std::string("no pipe could be made: ") + std::strerror(errno);
    return r;
  }
  std::fflush(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) {
    r.could_not_run = std::string("no process could be made: ") + std::strerror(errno);
    return r;
  }
  if (child == 0) be_child(facts, said, work, parent);
  ::setpgid(child, child);  // the child calls it, too: either may run first
  facts.close_write();
  said.close_write();
  std::string text;
  int status = 0;
  r.hung = !listen(child, facts, said, patience_seconds, text, r.said, status);
  if (r.hung)
    end_child(child);
  else if (WIFSIGNALED(status))
    r.signal = WTERMSIG(status);
  else
    r.exit_status = WEXITSTATUS(status);
  read_facts(text, r);
  r.complete = r.find("complete") != nullptr;
  return r;
}

}  // namespace cutrace_tool::doctor
