// SPDX-License-Identifier: Apache-2.0
// A program with a control socket that gives a fake text, or with something else in its place. Says the number of the
// process to ask once it can be asked, and ends with its standard input.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/run/control_socket.hpp>
#include <cutrace/stage.hpp>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

void stay(long number = ::getpid()) {
  std::printf("%ld\n", number);
  std::fflush(stdout);
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) > 0) {
  }
}

/// A socket made by hand, with a name as control sockets have. `answer` is what each client gets.
int by_hand(const char* answer) {
  const std::string path = std::string(std::getenv("XDG_RUNTIME_DIR")) + "/cutrace-1.sock";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, sizeof(to.sun_path) - 1);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 || ::listen(fd, 4) != 0) return 1;
  if (answer == nullptr) {  // the child has the parent's socket open
    const pid_t child = ::fork();
    if (child == 0) ::pause();
    stay(child);
    ::kill(child, SIGKILL);
    return 0;
  }
  std::thread([=] {
    for (;;) {
      const int client = ::accept(fd, nullptr, nullptr);
      static_cast<void>(::send(client, answer, std::strlen(answer), MSG_NOSIGNAL));
      ::close(client);
    }
  }).detach();
  stay();
  return 0;
}

std::string text(const std::string& how, bool force) {
  if (how == "throws") throw std::runtime_error("no \x1b[31mtext");
  if (how == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  return std::string(force ? "a forced block" : "a block") +
         "\n  evil \x1b]0;title\a \xc2\x9b red \xff\xc3\xa9\tend\n\nlast";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  if (how == "version") return by_hand("cutrace 2 ok\nmore\n");
  if (how == "hangs_up") return by_hand("");
  if (how == "inherited") return by_hand(nullptr);
  if (how == "thread") {
    std::thread([] { stay(::syscall(SYS_gettid)); }).join();
    return 0;
  }
  if (how == "none") {
    CUTRACE_STAGE("step");
    stay();
    return 0;
  }
  if (how == "hidden") ::prctl(PR_SET_DUMPABLE, 0);
  static cutrace::detail::control_socket socket([how](bool force) { return text(how, force); });
  std::string why;
  if (!socket.open(why)) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  if (how == "removed") ::unlink(socket.path().c_str());
  if (how == "main_ended") {
    std::thread([] {
      ::usleep(200000);
      stay();
      std::_Exit(0);
    }).detach();
    ::pthread_exit(nullptr);
  }
  stay();
  return 0;
}
