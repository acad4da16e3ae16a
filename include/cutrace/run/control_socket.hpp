// SPDX-License-Identifier: Apache-2.0
// The process's control socket, through which `cutrace explain PID` asks for a block of text.
//
// A stream socket in the file system, which its user and root alone may open. A client writes one line, `explain 1` or
// `explain 1 force` (1 is the protocol's version), and gets one line, `cutrace 1 ok` or `cutrace 1 error: REASON`;
// behind "ok" the text follows, to the end of file.
//
// An abstract socket would leave no file behind, but has no permissions: any user could fill its queue.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <cutrace/base/guarded_socket.hpp>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/base/process_info.hpp>
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// A folder that nobody but this user may enter: where the socket's file lies. Other users who may write into the
/// parent folder cannot replace this folder, since such parents are sticky (/tmp) or of root (/run/user).
class control_folder {
 public:
  /// The longest name of a socket in it, with its slash and the end's zero: a process number has seven digits at most.
  static constexpr std::size_t name_room = sizeof("/cutrace-4194304.9.sock");

  /// $XDG_RUNTIME_DIR if it is this user's alone and its path is short enough for a socket, else /tmp/cutrace-UID,
  /// which is made. Empty, with the reason in `why`, where neither can be used.
  CUTRACE_NOINLINE static std::string find(std::string& why) {
    const char* const runtime = environment("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/' && std::strlen(runtime) + name_room <= sizeof(sockaddr_un::sun_path) &&
        refusal(runtime).empty())
      return runtime;
    const std::string shared = "/tmp/cutrace-" + std::to_string(::geteuid());
    if (::mkdir(shared.c_str(), 0700) != 0 && errno != EEXIST) {
      why = "\"" + shared + "\" cannot be made: " + errno_text(errno);
      return {};
    }
    why = refusal(shared);
    if (!why.empty()) return why = "\"" + shared + "\" " + why, std::string();
    return shared;
  }

  /// Why no socket is made in the folder; empty where nothing speaks against it.
  static std::string refusal(const std::string& path) {
    struct stat s {};
    if (::lstat(path.c_str(), &s) != 0) return "cannot be looked at: " + errno_text(errno);
    if (S_ISLNK(s.st_mode)) return "is a symbolic link, which cutrace does not follow; remove it";
    if (!S_ISDIR(s.st_mode)) return "is no directory; remove it";
    if (s.st_uid != ::geteuid())
      return "is of user " + std::to_string(s.st_uid) + ", not of user " + std::to_string(::geteuid());
    if ((s.st_mode & 0777) != 0700) return "may be used by others (its mode is not 0700); chmod 700 it";
    return {};
  }
};

class control_socket {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t request_most = 64;        ///< bytes
  static constexpr std::size_t text_most = 1024 * 1024;  ///< bytes; what is longer is cut, and says so
  static constexpr int idle_ms = 1000;    ///< a client that sends or reads nothing for so long is dropped
  static constexpr int client_ms = 5000;  ///< and every client after so long, however busy it is

  /// `explain` gives the block of text; `force`: with a forced flush. It is called on the socket's thread, for one
  /// client at a time, with inside_runtime() set, and not any more once `close` has returned. It may take 2 s, in which
  /// `close` waits for it. What it throws becomes the client's error.
  explicit control_socket(std::function<std::string(bool force)> explain) : explain_(std::move(explain)) {}
  control_socket(const control_socket&) = delete;
  control_socket& operator=(const control_socket&) = delete;
  ~control_socket() { close(); }

  /// Listens, and answers from then on. Does nothing where it is open already. Not concurrent with another open or
  /// close. @returns false with the reason in `why`, and nothing left behind but the folder
  CUTRACE_NOINLINE bool open(std::string& why) {
    if (state_ != nullptr && state_->process == ::getpid()) return true;
    forget_parent();
    try {
      std::unique_ptr<state> s(new state());
      s->explain = explain_;
      s->process = ::getpid();
      const std::string folder = control_folder::find(why);
      if (folder.empty() || !listen(*s, folder, why)) return false;
      closed_after_fork<guarded_socket>::add(&s->listening);
      state_ = std::move(s);
      state_->thread = start_thread(&run, state_.get());
      return true;
    } catch (const std::exception& e) {  // no thread, no memory
      why = e.what();
    }
    close();
    return false;
  }

  /// Answers nobody any more, and removes the file. Waits for an `explain` that is under way, and for nothing that a
  /// client does. In a forked child, where nothing was served, leaves the parent's file alone.
  CUTRACE_NOINLINE void close() noexcept {
    if (state_ == nullptr) return;
    if (state_->process != ::getpid()) return forget_parent();
    state_->stopping.store(true, std::memory_order_release);
    if (state_->listening.is_ours()) ::shutdown(state_->listening.fd(), SHUT_RDWR);  // wakes the thread
    state_->wake.signal();
    if (state_->thread.joinable()) state_->thread.join();
    closed_after_fork<guarded_socket>::remove(&state_->listening);
    if (is_socket_of(*state_)) ::unlink(state_->path.c_str());
    state_.reset();
  }

  /// The socket's file; empty while it is closed. Not concurrent with open or close.
  std::string path() const { return state_ != nullptr ? state_->path : std::string(); }

 private:
  struct state {
    std::function<std::string(bool)> explain;
    guarded_socket listening;
    std::string path;
    dev_t device = 0;  ///< of the file
    ino_t inode = 0;
    pid_t process = 0;
    std::atomic<bool> stopping{false};
    wake_signal wake;
    std::thread thread;
  };

  /// After fork the thread does not exist, and what it used may be half changed.
  void forget_parent() noexcept { static_cast<void>(state_.release()); }

  static bool is_socket_of(const state& s) noexcept {
    struct stat now {};
    return ::lstat(s.path.c_str(), &now) == 0 && S_ISSOCK(now.st_mode) && now.st_dev == s.device &&
           now.st_ino == s.inode;
  }

  /// Several processes may have the same process id in one folder: those of containers that share it. A process may
  /// have several runtimes, of versions that do not know each other. Each gets a file.
  static bool listen(state& s, const std::string& folder, std::string& why) {
    s.listening = guarded_socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int fd = s.listening.fd();
    // bind(2) gives the file the mode of the socket, less the umask: at no time can another user open it.
    if (fd < 0 || ::fchmod(fd, 0600) != 0) return why = "no socket can be made: " + errno_text(errno), false;
    for (int attempt = 0; attempt < 10; ++attempt) {
      s.path = folder + "/cutrace-" + std::to_string(s.process) +
               (attempt == 0 ? std::string() : "." + std::to_string(attempt)) + ".sock";
      const sockaddr_un address = address_of(s.path);
      const auto bound = [&] { return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0; };
      // EADDRINUSE: something of that name is there, even if only a dangling link.
      bool done = bound();
      if (!done && errno == EADDRINUSE && is_left_behind(s.path) && ::unlink(s.path.c_str()) == 0) done = bound();
      if (!done && errno == EADDRINUSE) continue;
      struct stat made {};
      if (!done || ::lstat(s.path.c_str(), &made) != 0) break;
      s.device = made.st_dev;
      s.inode = made.st_ino;
      if (::listen(fd, 4) == 0) return true;
      const int failure = errno;
      ::unlink(s.path.c_str());
      errno = failure;
      break;
    }
    why = "\"" + s.path + "\" cannot be made: " + errno_text(errno);
    return false;
  }

  static sockaddr_un address_of(const std::string& path) noexcept {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, path.data(), std::min(path.size(), sizeof(to.sun_path) - 1));
    return to;
  }

  /// Whether the file is a socket of this user's at which nobody listens any more: of a process that was killed. Sets
  /// errno to EADDRINUSE.
  static bool is_left_behind(const std::string& path) noexcept {
    struct stat s {};
    bool dead = false;
    if (::lstat(path.c_str(), &s) == 0 && S_ISSOCK(s.st_mode) && s.st_uid == ::geteuid()) {
      const guarded_socket probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const sockaddr_un to = address_of(path);
      dead = probe.is_open() && ::connect(probe.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 &&
             errno == ECONNREFUSED;
    }
    errno = EADDRINUSE;
    return dead;
  }

  static void run(void* p) {
    inside_runtime() = true;
    ::pthread_setname_np(::pthread_self(), "cutrace-control");
    state& s = *static_cast<state*>(p);
    while (!s.stopping.load(std::memory_order_acquire)) {
      if (!s.listening.is_ours()) return;  // the program closed our descriptor
      pollfd arrival{s.listening.fd(), POLLIN, 0};
      ::poll(&arrival, 1, 1000);  // where the program closed the socket, nothing wakes this thread
      if (arrival.revents == 0 || s.stopping.load(std::memory_order_acquire) || !s.listening.is_ours()) continue;
      guarded_socket client(::accept4(s.listening.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.is_open())
        serve(s, client);
      else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        s.wake.sleep(std::chrono::seconds(1));  // no descriptor is free: the socket would stay ready
    }
  }

  static void serve(const state& s, const guarded_socket& client) noexcept {
    const clock::time_point end = clock::now() + std::chrono::milliseconds(client_ms);
    try {
      std::string request;
      if (!is_of_this_user(client))
        send(s, client, "cutrace 1 error: this process is of user " + std::to_string(::geteuid()) + "\n", end);
      else if (!receive(s, client, request))
        return;
      else if (request == "explain 1" || request == "explain 1 force")
        send(s, client, answer(s, request != "explain 1"), end);
      else
        send(s, client, "cutrace 1 error: unknown request; known are \"explain 1\" and \"explain 1 force\"\n", end);
      if (client.is_ours()) ::shutdown(client.fd(), SHUT_WR);  // ends it even where a forked child holds a copy
    } catch (...) {                                            // no memory
    }
  }

  /// Whether the client is of this user or of root, as it was when it connected (unix(7), SO_PEERCRED).
  static bool is_of_this_user(const guarded_socket& client) noexcept {
    ucred peer{};
    socklen_t size = sizeof(peer);
    return ::getsockopt(client.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == ::geteuid());
  }

  static std::string answer(const state& s, bool force) {
    std::string text;
    try {
      text = s.explain(force);
    } catch (const std::exception& e) {
      text = e.what();
      return "cutrace 1 error: " + text.substr(0, std::min(text.find('\n'), std::size_t{500})) + "\n";
    }
    if (text.size() > text_most) {
      text.resize(text.rfind('\n', text_most) + 1);  // npos + 1 is 0
      text += "(cut here: the whole text is longer than 1 MiB)\n";
    }
    return "cutrace 1 ok\n" + text;
  }

  /// Waits until the client is ready, at most `idle_ms`. @returns whether it is ready, and the control socket still
  /// open
  static bool ready(const state& s, const guarded_socket& client, short what, clock::time_point until) noexcept {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    if (left <= 0 || !client.is_ours() || !s.listening.is_ours()) return false;
    pollfd both[2] = {{client.fd(), what, 0}, {s.listening.fd(), 0, 0}};  // POLLHUP comes with `close`
    ::poll(both, 2, static_cast<int>(std::min<decltype(left)>(left, idle_ms)));
    return both[0].revents != 0 && both[1].revents == 0 && client.is_ours() &&
           !s.stopping.load(std::memory_order_acquire);
  }

  /// One line without its end. @returns false where none came within `idle_ms`
  static bool receive(const state& s, const guarded_socket& client, std::string& line) {
    const clock::time_point until = clock::now() + std::chrono::milliseconds(idle_ms);
    while (line.size() < request_most) {
      if (!ready(s, client, POLLIN, until)) return false;
      char some[request_most];
      const ssize_t n = ::recv(client.fd(), some, sizeof(some), MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return false;
      line.append(some, static_cast<std::size_t>(n));
      const std::size_t at = line.find('\n');
      if (at == std::string::npos) continue;
      line.resize(at);
      return true;
    }
    return true;  // too long: an unknown request
  }

  /// As much as the client takes until `end`. MSG_NOSIGNAL: one that has gone must not send SIGPIPE into the program.
  static void send(const state& s, const guarded_socket& client, std::string_view text,
                   clock::time_point end) noexcept {
    while (!text.empty() && ready(s, client, POLLOUT, end)) {
      const ssize_t n = ::send(client.fd(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0) return;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  std::function<std::string(bool)> explain_;
  std::unique_ptr<state> state_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
