// SPDX-License-Identifier: Apache-2.0
// The control socket with a fake text: clients that ask, stall, flood and hang up, files and links in its way, programs
// that fork or close descriptors that are not their own, and other users.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cutrace/run/control_socket.hpp>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"

namespace control_socket_test {

using cutrace::detail::control_folder;
using cutrace::detail::control_socket;
namespace files = std::filesystem;

namespace {

using clock = std::chrono::steady_clock;
double seconds_since(clock::time_point t) { return std::chrono::duration<double>(clock::now() - t).count(); }

std::string fake(bool force) { return force ? "forced block\n" : "block\n"; }

/// A folder that is XDG_RUNTIME_DIR while it lives.
struct runtime_folder {
  temporary_folder folder;
  std::string before = std::getenv("XDG_RUNTIME_DIR") != nullptr ? std::getenv("XDG_RUNTIME_DIR") : "";

  runtime_folder() { set(folder.path()); }
  ~runtime_folder() { set(before); }
  static void set(const std::string& to) { ::setenv("XDG_RUNTIME_DIR", to.c_str(), 1); }  // empty is none
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(files::directory_iterator(folder.path()), {}));
  }
  /// What the socket of this process is called.
  std::string socket(const std::string& number = "") const {
    return folder.file("cutrace-" + std::to_string(::getpid()) + number + ".sock");
  }
};

struct open_socket : control_socket {
  explicit open_socket(std::function<std::string(bool)> explain = fake) : control_socket(std::move(explain)) {
    std::string why;
    REQUIRE_MESSAGE(open(why), why);
  }
};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(to.sun_path));
  path.copy(to.sun_path, path.size());
  return to;
}

int connected(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un to = address_of(path);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return fd;
  ::close(fd);
  return -1;
}

void say(int fd, const std::string& text) {
  REQUIRE(::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

/// All that comes until the other side ends, and closes.
std::string rest_of(int fd) {
  std::string all;
  char some[65536];
  for (ssize_t n = 0; (n = ::recv(fd, some, sizeof(some), 0)) > 0;) all.append(some, static_cast<std::size_t>(n));
  ::close(fd);
  return all;
}

std::string ask(const std::string& path, const std::string& request = "explain 1\n") {
  const int fd = connected(path);
  if (fd < 0) return "refused";
  static_cast<void>(::send(fd, request.data(), request.size(), MSG_NOSIGNAL));  // an answer may have come before
  return rest_of(fd);
}

/// A socket that listens at `path`. Its file stays when it is closed.
int listening(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un to = address_of(path);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  REQUIRE(::listen(fd, 1) == 0);
  return fd;
}

/// The exit status of `does` in a forked child.
template <class Does>
int in_child(Does does) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      ::_exit(does());
    } catch (...) {  // of a REQUIRE
      ::_exit(99);
    }
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("control socket: the text, a forced one, and no file left behind") {
  const runtime_folder here;
  std::string name;
  bool inside = false;
  {
    open_socket s([&](bool force) {
      char buffer[16] = {};
      ::pthread_getname_np(::pthread_self(), buffer, sizeof(buffer));
      name = buffer;
      inside = cutrace::detail::inside_runtime();
      return fake(force);
    });
    CHECK(s.path() == here.socket());
    struct stat made {};
    REQUIRE(::lstat(s.path().c_str(), &made) == 0);
    CHECK(S_ISSOCK(made.st_mode));
    CHECK((made.st_mode & 0777) == 0600);
    std::string why;
    CHECK(s.open(why));  // it is open already: nothing changes
    CHECK(ask(s.path()) == "cutrace 1 ok\nblock\n");
    CHECK(ask(s.path(), "explain 1 force\n") == "cutrace 1 ok\nforced block\n");
    CHECK(name == "cutrace-control");
    CHECK(inside);  // its calls are cutrace's, not the program's
    CHECK(here.count() == 1);
    s.close();
    CHECK(here.count() == 0);
    CHECK(s.path().empty());
    REQUIRE(s.open(why));
    CHECK(ask(s.path()) == "cutrace 1 ok\nblock\n");
  }
  CHECK(here.count() == 0);
}

TEST_CASE("control socket: an unknown request gets an error of one line, and so does what the text throws") {
  const runtime_folder here;
  const open_socket s([](bool force) -> std::string {
    if (force) throw std::runtime_error("no flush now\nsecond line");
    return std::string(3 * control_socket::text_most / 2, 'x').replace(1000, 1, "\n");
  });
  for (const std::string nonsense :
       {"\n", "explain\n", "explain 2\n", "explain 1 \n", "explain 1 forced\n", "GET / HTTP/1.1\r\n\r\n"}) {
    CAPTURE(nonsense);
    CHECK(ask(s.path(), nonsense).find("cutrace 1 error: unknown request") == 0);
  }
  CHECK(ask(s.path(), std::string(100000, 'a')).find("cutrace 1 error: unknown request") == 0);
  CHECK(ask(s.path(), "explain 1 force\n") == "cutrace 1 error: no flush now\n");
  const std::string cut = ask(s.path());
  CHECK(cut == "cutrace 1 ok\n" + std::string(1000, 'x') + "\n(cut here: the whole text is longer than 1 MiB)\n");
}

TEST_CASE("control socket: who sends nothing, reads nothing or hangs up is dropped, and the next one served") {
  const runtime_folder here;
  open_socket s([](bool) { return std::string(control_socket::text_most, '\n'); });
  const std::string whole = "cutrace 1 ok\n" + std::string(control_socket::text_most, '\n');
  for (const char* said : {"", "expl", "explain 1\n"}) {
    CAPTURE(said);
    const auto begin = clock::now();
    const int stalled = connected(s.path());
    say(stalled, said);
    CHECK(ask(s.path()) == whole);
    CHECK(seconds_since(begin) > 0.5);  // the stalled client is dropped after a second (control_socket::idle_ms)
    CHECK(seconds_since(begin) < 4);
    CHECK(rest_of(stalled).size() < whole.size());
  }
  for (int i = 0; i < 20; ++i) {
    const int gone = connected(s.path());
    if (i % 2 == 0) say(gone, "explain 1\n");
    ::close(gone);
  }
  CHECK(ask(s.path()) == whole);
  // One that sends a byte now and then gets no more time than one that sends nothing.
  const int slow = connected(s.path());
  const auto begin = clock::now();
  for (char c = 'a'; ::send(slow, &c, 1, MSG_NOSIGNAL) == 1 && seconds_since(begin) < 4; ::usleep(200000)) {
  }
  CHECK(seconds_since(begin) < 3);
  ::close(slow);
  const int idle = connected(s.path());
  ::usleep(50000);
  const auto closing = clock::now();
  s.close();
  CHECK(seconds_since(closing) < 0.5);  // whatever clients do
  CHECK(rest_of(idle).empty());
  CHECK(here.count() == 0);
}

TEST_CASE("control socket: a dead process's file is replaced, all else in its way is left alone") {
  const runtime_folder here;
  SUBCASE("left behind by a process that was killed") {
    ::close(listening(here.socket()));
    const open_socket s;
    CHECK(s.path() == here.socket());
    CHECK(ask(s.path()) == "cutrace 1 ok\nblock\n");
    CHECK(here.count() == 1);
  }
  SUBCASE("of a process of the same number, in a container") {
    const int living = listening(here.socket());
    std::vector<int> waiting;
    SUBCASE("that is idle") {}
    SUBCASE("whose queue is full") {
      for (int i = 0; i < 2; ++i) waiting.push_back(connected(here.socket()));
    }
    {
      const open_socket s;
      CHECK(s.path() == here.socket(".1"));
      CHECK(ask(s.path()) == "cutrace 1 ok\nblock\n");
    }
    CHECK(here.count() == 1);
    for (const int fd : waiting) ::close(fd);
    ::close(living);
  }
  SUBCASE("links and files") {
    std::ofstream(here.socket()) << "theirs";
    files::create_symlink(here.folder.file("new"), here.socket(".1"));
    const open_socket s;
    CHECK(s.path() == here.socket(".2"));
    CHECK(content_of(here.socket()) == "theirs");
    CHECK(files::is_symlink(here.socket(".1")));
    CHECK_FALSE(files::exists(here.folder.file("new")));
  }
  SUBCASE("a link to a dead socket") {
    ::close(listening(here.folder.file("dead")));
    files::create_symlink(here.folder.file("dead"), here.socket());
    const open_socket s;
    CHECK(s.path() == here.socket(".1"));
    CHECK(files::is_symlink(here.socket()));
    CHECK(files::exists(here.folder.file("dead")));
  }
  SUBCASE("ten of them") {
    for (const char* number : {"", ".1", ".2", ".3", ".4", ".5", ".6", ".7", ".8", ".9"})
      std::ofstream(here.socket(number)) << "theirs";
    control_socket s(fake);
    std::string why;
    CHECK_FALSE(s.open(why));
    CHECK(why.find("Address already in use") != std::string::npos);
    CHECK(here.count() == 10);
  }
  SUBCASE("what took its name meanwhile stays") {
    open_socket s;
    REQUIRE(::unlink(s.path().c_str()) == 0);
    const int other = listening(here.socket());
    s.close();
    CHECK(here.count() == 1);
    ::close(other);
  }
}

TEST_CASE("control socket: which folder it is in") {
  const runtime_folder here;
  const std::string in_tmp = "/tmp/cutrace-" + std::to_string(::geteuid());
  std::string why;
  CHECK(control_folder::find(why) == here.folder.path());
  ::chmod(here.folder.path().c_str(), 0755);
  CHECK(control_folder::find(why) == in_tmp);
  CHECK(control_folder::refusal(here.folder.path()).find("not 0700") != std::string::npos);
  ::chmod(here.folder.path().c_str(), 0700);
  struct stat made {};
  REQUIRE(::lstat(in_tmp.c_str(), &made) == 0);
  CHECK((made.st_mode & 0777) == 0700);

  const std::string link = here.folder.file("link"), file = here.folder.file("file");
  files::create_symlink(here.folder.path(), link);
  std::ofstream(file) << "";
  here.set(link);
  CHECK(control_folder::find(why) == in_tmp);
  CHECK(control_folder::refusal(link).find("symbolic link") != std::string::npos);
  CHECK(control_folder::refusal(file).find("no directory") != std::string::npos);
  CHECK(control_folder::refusal(here.folder.file("none")).find("No such file") != std::string::npos);
  const files::path before = files::current_path();
  files::current_path(here.folder.path());
  here.set(".");
  CHECK(control_folder::find(why) == in_tmp);
  files::current_path(before);

  const std::size_t fits = sizeof(sockaddr_un::sun_path) - control_folder::name_room;
  for (const std::size_t size : {fits, fits + 1}) {
    const std::string deep = here.folder.path() + "/" + std::string(size - here.folder.path().size() - 1, 'd');
    files::create_directory(deep);
    ::chmod(deep.c_str(), 0700);
    here.set(deep);
    const open_socket s;
    CHECK(s.path().find(size == fits ? deep : in_tmp) == 0);
    CHECK(ask(s.path()) == "cutrace 1 ok\nblock\n");
  }
}

TEST_CASE("control socket: a forked child serves nothing of its parent's and takes nothing away") {
  const runtime_folder here;
  open_socket s;
  const std::string path = s.path();
  CHECK(in_child([&] {
          for (int fd = 3; fd < 256; ++fd) {
            int listens = 0;
            socklen_t four = sizeof(listens), size = sizeof(sockaddr_un);
            sockaddr_un name{};
            if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &four) == 0 && listens == 1 &&
                ::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 && path == name.sun_path)
              return 1;
          }
          s.close();
          return ::access(path.c_str(), F_OK) == 0 ? 0 : 2;
        }) == 0);
#if !CUTRACE_TEST_TSAN  // which lets no child of a program with threads start one
  CHECK(in_child([&] {
          std::string why;
          if (!s.open(why)) return 1;
          if (s.path() == path || ask(s.path()) != "cutrace 1 ok\nblock\n") return 2;
          if (ask(path) != "cutrace 1 ok\nblock\n") return 3;  // the parent's
          s.close();
          return 0;
        }) == 0);
#endif
  CHECK(here.count() == 1);
  CHECK(ask(path) == "cutrace 1 ok\nblock\n");
  s.close();
  CHECK(here.count() == 0);
}

TEST_CASE("control socket: it is of its user and of root alone") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can become another user");
    return;
  }
  const runtime_folder here;
  const open_socket s;
  const auto as_another = [&] {
    return in_child([&] {
      if (::setresuid(65534, 65534, 65534) != 0) return 9;
      const std::string got = ask(s.path());
      return got == "refused" ? 1 : got.find("cutrace 1 error: this process is of user 0\n") == 0 ? 2 : 3;
    });
  };
  CHECK(as_another() == 1);
  ::chmod(here.folder.path().c_str(), 0755);
  CHECK(as_another() == 1);  // by the file's mode
  ::chmod(s.path().c_str(), 0666);
  CHECK(as_another() == 2);  // by who it is
  ::chmod(here.folder.path().c_str(), 0700);

#if !CUTRACE_TEST_TSAN
  CHECK(in_child([&] {  // one of the other user's: root is served
          const temporary_folder theirs;
          if (::chown(theirs.path().c_str(), 65534, 65534) != 0 || ::setresuid(65534, 65534, 0) != 0) return 9;
          runtime_folder::set(theirs.path());
          control_socket other(fake);
          std::string why;
          if (!other.open(why)) return 1;
          const int status = in_child([&] {
            if (::setresuid(0, 0, 0) != 0) return 9;
            return ask(other.path()) == "cutrace 1 ok\nblock\n" ? 0 : 1;
          });
          const std::string path = other.path();
          other.close();
          return status + (::access(path.c_str(), F_OK) == 0 ? 4 : 0);
        }) == 0);
#endif
}

// This program closes descriptors that another thread uses, which the socket survives and ThreadSanitizer reports.
#if !CUTRACE_TEST_TSAN
TEST_CASE("control socket: a program that closes all descriptors keeps those that it opens then") {
  const runtime_folder here;
  const int next = ::dup(0);
  ::close(next);
  const int threads = cutrace::detail::helper_threads().load();
  open_socket s;
  while (cutrace::detail::helper_threads().load() == threads) ::usleep(1000);  // its thread has not begun
  ::close(next);
  const int own = listening(here.folder.file("program.sock"));
  REQUIRE(own == next);
  const int client = connected(here.folder.file("program.sock"));
  const auto begin = clock::now();  // the socket's thread looks for its descriptor after a second at the latest
  while (cutrace::detail::helper_threads().load() != threads && seconds_since(begin) < 1.5) ::usleep(2000);
  CHECK(cutrace::detail::helper_threads().load() == threads);
  s.close();
  pollfd waits{own, POLLIN, 0};  // the connection is the program's: nobody took it, and its socket still listens
  CHECK(::poll(&waits, 1, 1000) == 1);
  ::close(client);
  ::close(own);
  CHECK(here.count() == 1);
}
#endif

}  // namespace control_socket_test
