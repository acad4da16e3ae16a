// SPDX-License-Identifier: Apache-2.0
// A process can make up the paths that /proc shows of it, so they are not believed: only the kernel's SO_PEERCRED says
// which process is at the other end.
#include "cutrace/process_socket.hpp"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/write_all.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

namespace {

using clock = std::chrono::steady_clock;
using cutrace::detail::errno_text;

constexpr std::size_t answer_most = 4 * 1024 * 1024;  // bytes; cutrace sends 1 MiB at most

class closed_at_end {
 public:
  explicit closed_at_end(int fd) noexcept : fd_(fd) {}
  closed_at_end(const closed_at_end&) = delete;
  closed_at_end& operator=(const closed_at_end&) = delete;
  ~closed_at_end() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

std::string name_of(int process) { return "process " + std::to_string(process); }

/// What of /proc/PID/status is of use here.
struct process_state {
  bool there = false;
  int thread_group = 0;
  uid_t user = 0;  ///< effective
  char state = 0;  ///< as in ps
};

process_state read_state(int process) {
  process_state s;
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(line.find(':') + 1));
    uid_t real = 0;
    if (line.rfind("State:", 0) == 0) words >> s.state;
    if (line.rfind("Tgid:", 0) == 0) words >> s.thread_group, s.there = true;
    if (line.rfind("Uid:", 0) == 0) words >> real >> s.user;
  }
  return s;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const all = ::opendir(folder.c_str());
  if (all == nullptr) return names;
  while (const dirent* one = ::readdir(all))
    if (one->d_name[0] != '.') names.emplace_back(one->d_name);
  const int saved = errno;
  ::closedir(all);
  errno = saved;
  return names;
}

/// Numbers of the sockets that are open in a process.
std::set<std::string> sockets_in(const std::string& descriptors) {
  std::set<std::string> numbers;
  for (const std::string& name : names_in(descriptors)) {
    char target[64] = {};
    const ssize_t size = ::readlink((descriptors + "/" + name).c_str(), target, sizeof(target) - 1);
    const std::string_view text(target, size > 0 ? static_cast<std::size_t>(size) : 0);
    if (text.substr(0, 8) == "socket:[" && text.back() == ']') numbers.emplace(text.substr(8, text.size() - 9));
  }
  return numbers;
}

/// Those of `numbers` that are control sockets and listen. A line of the kernel's list is "Num RefCount Protocol Flags
/// Type St Inode Path" (proc(5), /proc/net/unix); the flag 0x10000 (__SO_ACCEPTCON) marks a socket that listens.
std::vector<process_socket> listening_of(const std::string& task, const std::set<std::string>& numbers) {
  std::vector<process_socket> found;
  std::ifstream file(task + "/net/unix");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string number, references, protocol, flags, type, state, inode, path;
    words >> number >> references >> protocol >> flags >> type >> state >> inode >> std::ws;
    std::getline(words, path);
    const std::string name = path.substr(path.rfind('/') + 1);
    if ((std::strtoul(flags.c_str(), nullptr, 16) & 0x10000ul) != 0 && numbers.count(inode) != 0 && path[0] == '/' &&
        name.rfind("cutrace-", 0) == 0 && name.size() > 5 && name.compare(name.size() - 5, 5, ".sock") == 0)
      found.push_back({task + "/root", path});
  }
  return found;
}

/// Whether an ELF file has the note by which copies of the runtime find each other (marker/slot.hpp).
bool has_note_of_cutrace(const std::string& path) {
  const closed_at_end file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat s {};
  Elf64_Ehdr head;
  if (file.fd() < 0 || ::fstat(file.fd(), &s) != 0 || !S_ISREG(s.st_mode) ||
      ::pread(file.fd(), &head, sizeof(head), 0) != static_cast<ssize_t>(sizeof(head)) ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  for (unsigned i = 0; i < std::min<unsigned>(head.e_phnum, 256); ++i) {
    Elf64_Phdr segment;
    const auto at = static_cast<off_t>(head.e_phoff + i * std::uint64_t{head.e_phentsize});
    if (::pread(file.fd(), &segment, sizeof(segment), at) != static_cast<ssize_t>(sizeof(segment))) return false;
    if (segment.p_type != PT_NOTE) continue;
    std::string notes(std::min<std::size_t>(segment.p_filesz, 1 << 20), '\0');
    const ssize_t n = ::pread(file.fd(), &notes[0], notes.size(), static_cast<off_t>(segment.p_offset));
    notes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    if (notes.find(std::string("\x08\0\0\0\x08\0\0\0", 8)) != std::string::npos &&
        notes.find(std::string("cutrace", 8)) != std::string::npos)
      return true;
  }
  return false;
}

/// Whether a program or library of the process has cutrace in it, traced or not.
bool has_cutrace(const std::string& task) {
  if (has_note_of_cutrace(task + "/exe")) return true;  // also where the file has been replaced
  std::set<std::string> files;
  std::ifstream maps(task + "/maps");
  for (std::string line; std::getline(maps, line) && files.size() < 4096;) {
    const std::size_t path = line.find('/');
    if (path != std::string::npos && line.find(" 00000000 ") < path) files.insert(line.substr(path));
  }
  return std::any_of(files.begin(), files.end(),
                     [&](const std::string& path) { return has_note_of_cutrace(task + "/root" + path); });
}

[[noreturn]] void throw_not_ours(int process, const process_state& s, int failure) {
  const std::string who = name_of(process);
  if (s.user != ::geteuid() && ::geteuid() != 0)
    throw usage_error(who + " is of user " + std::to_string(s.user) + ", this command of user " +
                      std::to_string(::geteuid()) + ": only that user and root may ask it (sudo cutrace explain " +
                      std::to_string(process) + ")");
  throw usage_error(who + " cannot be looked into: " + errno_text(failure) +
                    (::geteuid() == 0 ? "; root needs CAP_SYS_PTRACE for it, which a container may lack"
                                      : "; it has more rights than this user, or hides itself (PR_SET_DUMPABLE). Root "
                                        "may: sudo cutrace explain " +
                                            std::to_string(process)));
}

[[noreturn]] void throw_without_socket(int process, const std::string& task) {
  std::string name, children;
  std::getline(std::ifstream(task + "/comm"), name);
  std::getline(std::ifstream(task + "/children"), children);
  const std::string who = name_of(process) + " (" + name + ")";
  if (name == "cutrace")
    throw usage_error(who + " is the command cutrace, not the program that it traces" +
                      (children.empty() ? "" : "; it has started " + children));
  if (!has_cutrace(task))
    throw usage_error(who + " is not traced by cutrace: neither it nor a library of it has cutrace");
  throw usage_error(who +
                    " has cutrace in it, but no control socket: it is not traced now, or was started without one "
                    "(CUTRACE_CONTROL=1 or CUTRACE_WATCHDOG opens it; a forked child has none of its own)");
}

/// @returns 0 or an errno. The file's folder is opened first, since a path with /proc/PID/root in front may be too long
/// for a socket.
int connect_to(int fd, const process_socket& socket, clock::time_point end) {
  const std::size_t slash = socket.path.rfind('/');
  const closed_at_end folder(
      ::open((socket.root + socket.path.substr(0, slash + 1)).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd() < 0) return errno;
  const std::string path = "/proc/self/fd/" + std::to_string(folder.fd()) + socket.path.substr(slash);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof(to.sun_path)) return ENAMETOOLONG;
  path.copy(to.sun_path, path.size());
  // EAGAIN: its queue is full.
  while (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    if (errno != EAGAIN && errno != EINTR) return errno;
    if (clock::now() >= end) return ETIMEDOUT;
    ::usleep(20000);
  }
  return 0;
}

[[noreturn]] void throw_no_answer(int process, int failure) {
  const process_state s = read_state(process);
  if (!s.there || s.state == 'Z' || s.state == 'X') throw usage_error(name_of(process) + " has ended meanwhile");
  if (failure != ETIMEDOUT)
    throw usage_error(name_of(process) + " does not answer at its control socket: " + errno_text(failure));
  throw usage_error(name_of(process) + " does not answer in time" +
                    (s.state == 'T' || s.state == 't' ? ": it is stopped, by a signal or a debugger"
                                                      : "; --timeout waits longer, and a debugger looks into a process "
                                                        "that cannot answer"));
}

/// Everything until the other side ends.
std::string read_all(int process, int fd, clock::time_point end) {
  std::string all;
  char some[65536];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
    pollfd p{fd, POLLIN, 0};
    if (left <= 0) throw_no_answer(process, ETIMEDOUT);
    if (::poll(&p, 1, static_cast<int>(std::min<decltype(left)>(left, 1000000))) <= 0) continue;
    const ssize_t n = ::recv(fd, some, sizeof(some), MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return all;  // ECONNRESET, too: closed without reading the request
    all.append(some, static_cast<std::size_t>(n));
    if (all.size() > answer_most) throw usage_error(name_of(process) + " sends more than cutrace would: not believed");
  }
}

}  // namespace

std::vector<process_socket> find_process_sockets(int process) {
  const process_state s = process > 0 ? read_state(process) : process_state();
  if (!s.there) throw usage_error("there is no " + name_of(process));
  if (s.thread_group != process)
    throw usage_error(std::to_string(process) + " is a thread of process " + std::to_string(s.thread_group) +
                      ": cutrace explain " + std::to_string(s.thread_group));
  const std::string all = "/proc/" + std::to_string(process) + "/task";
  std::string living;
  for (const std::string& thread : names_in(all)) {  // the main one may have ended before the others
    const std::string task = all + "/" + thread;
    errno = 0;
    const bool seen = ::access((task + "/fd").c_str(), R_OK) == 0 && !names_in(task + "/fd").empty();
    if (errno == EACCES || errno == EPERM) throw_not_ours(process, s, errno);
    if (!seen) continue;
    std::vector<process_socket> found = listening_of(task, sockets_in(task + "/fd"));
    if (!found.empty()) return found;
    if (living.empty()) living = task;
  }
  if (living.empty()) throw usage_error(name_of(process) + " has ended");
  throw_without_socket(process, living);
}

process_answer ask_process(int process, const process_socket& socket, const std::string& request,
                           clock::time_point end) {
  const closed_at_end to(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (to.fd() < 0) throw usage_error("no socket can be made: " + errno_text(errno));
  const int failure = connect_to(to.fd(), socket, end);
  if (failure == EACCES)
    throw usage_error(name_of(process) + " does not let this user ask (\"" + socket.path +
                      "\"): " + errno_text(failure));
  if (failure == ENOENT)
    throw usage_error("the control socket of " + name_of(process) + ", \"" + socket.path + "\", has been removed");
  if (failure != 0) throw_no_answer(process, failure);
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(to.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != process)
    throw usage_error("\"" + socket.path + "\" is not the control socket of " + name_of(process) + " but of " +
                      name_of(peer.pid) + ": not believed");
  const std::string line = request + "\n";
  static_cast<void>(::send(to.fd(), line.data(), line.size(), MSG_NOSIGNAL));  // may fail after an early answer
  const std::string all = read_all(process, to.fd(), end);
  if (all.empty()) throw_no_answer(process, ECONNRESET);
  const std::size_t first = std::min(all.find('\n'), all.size());
  return {all.substr(0, first), all.substr(std::min(first + 1, all.size()))};
}

}  // namespace cutrace_tool
