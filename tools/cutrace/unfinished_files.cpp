// SPDX-License-Identifier: Apache-2.0
#include "cutrace/unfinished_files.hpp"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <exception>
#include <initializer_list>

namespace cutrace_tool {

namespace {

constexpr int descriptor_limit = 256;  // higher ones are not looked at

struct file_id {
  bool open;
  dev_t device;
  ino_t inode;
};
file_id given[descriptor_limit];  ///< what the process was started with

bool is_given(const struct stat& file) {
  for (const file_id& g : given)
    if (g.open && g.device == file.st_dev && g.inode == file.st_ino) return true;
  return false;
}

/// Writes "/proc/self/fd/12" as a signal handler may.
void write_descriptor_path(int fd, char* to) {
  constexpr char folder[] = "/proc/self/fd/";
  for (const char* c = folder; *c != '\0'; ++c) *to++ = *c;
  if (fd >= 100) *to++ = static_cast<char>('0' + fd / 100);
  if (fd >= 10) *to++ = static_cast<char>('0' + fd / 10 % 10);
  *to++ = static_cast<char>('0' + fd % 10);
  *to = '\0';
}

/// A signal handler may call it.
void remove_open_files() {
  for (int fd = 0; fd < descriptor_limit; ++fd) {
    struct stat file {};
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || ::fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) continue;
    if (is_given(file)) continue;
    char link[32], path[PATH_MAX + 1];
    write_descriptor_path(fd, link);
    const ssize_t n = ::readlink(link, path, PATH_MAX);
    if (n <= 0) continue;
    path[n] = '\0';
    struct stat there {};
    if (::lstat(path, &there) == 0 && there.st_dev == file.st_dev && there.st_ino == file.st_ino) ::unlink(path);
  }
}

void remove_and_end(int signal) {
  remove_open_files();
  ::raise(signal);  // whose action is the default again
}

}  // namespace

remove_unfinished_files_on_failure::remove_unfinished_files_on_failure() noexcept
    : exceptions_(std::uncaught_exceptions()) {}
remove_unfinished_files_on_failure::~remove_unfinished_files_on_failure() {
  if (std::uncaught_exceptions() > exceptions_) remove_open_files();
}

void remove_unfinished_files_when_interrupted() {
  for (int fd = 0; fd < descriptor_limit; ++fd) {
    struct stat file {};
    if (::fstat(fd, &file) == 0) given[fd] = {true, file.st_dev, file.st_ino};
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {
    }, ours{};
    ours.sa_handler = remove_and_end;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) ::sigaction(signal, &ours, nullptr);
  }
}

}  // namespace cutrace_tool
