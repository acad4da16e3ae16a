// SPDX-License-Identifier: Apache-2.0
// The file, pipe or terminal that a sink writes to. Every failure is an exception with path and reason; no signal, no
// half-visible file, nothing readable by other users. One thread at a time.
#pragma once

#include <fcntl.h>
#include <limits.h>       // PATH_MAX
#include <linux/magic.h>  // EXT4_SUPER_MAGIC
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>                           // std::rename
#include <cutrace/base/guarded_socket.hpp>  // closed_after_fork
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/output/path_pattern.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Opens files for writing, whoever may have prepared the place: links are followed and files that exist are opened
/// only if root or this user made them, so that nobody else chooses what is overwritten, or reads the trace. Devices,
/// pipes and what /proc/self/fd names are taken as they are. Each step is a call on the folder that the step before
/// found, since between a check by path and the open the path may change.
class output_opener {
 public:
  /// As open(2). Files are created with mode 0600 and O_EXCL. O_NOFOLLOW refuses a symbolic link as last name, whoever
  /// made it, and a file with further hard links. @throws error where somebody else's link or file is in the way
  static int open(const std::string& path, int flags) {
    const bool create = (flags & O_CREAT) != 0, exclusive = (flags & O_EXCL) != 0;
    const int plain = flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW);
    std::string rest = path;
    folder at(::open(rest[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    for (unsigned turns = 0; turns < 40 && at.fd >= 0;) {
      rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
      const std::string name = rest.substr(0, rest.find('/'));
      const std::string behind = rest.substr(name.size());
      const bool last = behind.find_first_not_of('/') == std::string::npos;
      folder here(::openat(at.fd, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      if (here.fd < 0 && (errno != ENOENT || !last || !create)) return -1;
      struct stat found {};
      if (here.fd >= 0 && ::fstat(here.fd, &found) != 0) return -1;
      if (here.fd >= 0 && last && exclusive) return errno = EEXIST, -1;
      if (here.fd >= 0 && S_ISLNK(found.st_mode)) {
        if ((flags & O_NOFOLLOW) != 0 && last) return errno = ELOOP, -1;
        if (is_of_kernel(here.fd)) {
          if (last) return retried(at.fd, name, plain);
          at = folder(::openat(at.fd, name.c_str(), O_PATH | O_CLOEXEC));
          rest = behind;
          continue;
        }
        if (!is_trusted(found.st_uid) && !is_of_system(at.fd, found.st_uid))
          refuse(path, "a symbolic link in it was made by", found.st_uid);
        char target[PATH_MAX];
        const ssize_t size = ::readlinkat(here.fd, "", target, sizeof(target));
        if (size <= 0) return -1;
        if (target[0] == '/') at = folder(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        rest = std::string(target, static_cast<std::size_t>(size)) + behind;
        ++turns;
        continue;
      }
      if (!last) {
        at = std::move(here);
        rest = behind;
        continue;
      }
      const int fd = retried(at.fd, name, plain | O_NOFOLLOW | (here.fd < 0 ? O_CREAT | O_EXCL : 0));
      if (fd >= 0 && (::fstat(fd, &found) != 0 || (S_ISREG(found.st_mode) && !is_trusted(found.st_uid)))) {
        ::close(fd);
        refuse(path, "it is a file of", found.st_uid);
      }
      if (fd >= 0 && (flags & O_NOFOLLOW) != 0 && S_ISREG(found.st_mode) && found.st_nlink > 1) {
        ::close(fd);
        refuse(path, "it has another name, too, as a file of", found.st_uid);
      }
      if (fd >= 0 || exclusive || !create || (errno != EEXIST && errno != ENOENT && errno != ELOOP)) return fd;
      ++turns;  // somebody was faster
    }
    if (at.fd >= 0) errno = ELOOP;
    return -1;
  }

 private:
  struct folder {
    int fd;
    explicit folder(int opened) noexcept : fd(opened) {}
    folder(folder&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
    folder& operator=(folder&& other) noexcept {
      std::swap(fd, other.fd);
      return *this;
    }
    ~folder() {
      const int saved = errno;
      if (fd >= 0) ::close(fd);
      errno = saved;
    }
  };

  static int retried(int at, const std::string& name, int flags) noexcept {
    int fd = -1;
    do {
      fd = ::openat(at, name.c_str(), flags, 0600);
    } while (fd < 0 && errno == EINTR);
    return fd;
  }
  static bool is_of_kernel(int link) noexcept {
    struct statfs system {};
    return ::fstatfs(link, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
  }
  static bool is_trusted(uid_t user) noexcept { return user == 0 || user == ::geteuid(); }
  /// In a user namespace root's links seem to be of nobody, as other users' do. They are taken for root's where only
  /// who owns "/" can write into their folder, as in /dev.
  static bool is_of_system(int folder_of_link, uid_t user) noexcept {
    struct stat top {};
    struct stat around {};
    return ::stat("/", &top) == 0 && ::fstat(folder_of_link, &around) == 0 && user == top.st_uid &&
           around.st_uid == top.st_uid && (around.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  }
  [[noreturn]] static void refuse(const std::string& path, const char* why, uid_t user) {
    throw error(("cannot write \"" + path + "\": " + why + " user " + std::to_string(user) +
                 ", and only what root or user " + std::to_string(::geteuid()) +
                 " made is written to; remove it, or name another file")
                    .c_str());
  }
};

enum class publish : unsigned char {
  at_once,   ///< readers may follow the file as it grows
  at_close,  ///< written as "<path>.tmp" and renamed by close: for formats that are of no use before their end
};

class output_file {
 public:
  output_file() = default;
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  /// Gives the descriptor back without writing: what was not flushed is lost, a ".tmp" stays. So a forked child or a
  /// sink that failed never writes into the file of another.
  ~output_file() { release(); }

  /// Opens the file as output_opener does. `pattern`: see expand_path; "-" is standard output. Devices and named pipes
  /// are written directly, and so are files that descriptors of the program lead to, from where the program has come
  /// to. What another file held is emptied with the first write: an open that comes to nothing, since another sink
  /// cannot be opened, leaves an older trace as it was, and no file where there was none.
  /// `is_taken`: whether a path that %u made is another trace's though no file has it. @throws error, config_error
  void open(const char* pattern, publish when = publish::at_once,
            const std::function<bool(const std::string& path)>& is_taken = {}) {
    if (std::string_view(pattern) == "-") return adopt(STDOUT_FILENO, "standard output");
    const bool unique = is_unique_pattern(pattern);
    bool exists = false, begun = false, regular = false;
    for (unsigned attempt = 1;; ++attempt) {
      path_ = absolute_path(expand_path(pattern, attempt));
      struct stat known {};
      exists = ::stat(path_.c_str(), &known) == 0;
      if ((exists && S_ISDIR(known.st_mode)) || path_.back() == '/') {
        throw config_error(("\"" + path_ + "\" is a directory; name a file in it").c_str());
      }
      regular = !exists || S_ISREG(known.st_mode);
      opened_as_ = when == publish::at_close && regular && !names_descriptor(path_) ? path_ + ".tmp" : path_;
      begun = ::lstat(opened_as_.c_str(), &known) == 0;
      const bool last = !unique || attempt == attempt_limit;
      if (!last && (exists || begun || (is_taken && is_taken(path_)))) continue;
      // O_NONBLOCK: a named pipe that nobody reads would block the program here for ever; it gives ENXIO instead.
      const int how = (opened_as_ == path_ ? 0 : O_NOFOLLOW) | (last ? 0 : O_EXCL);
      fd_ = output_opener::open(opened_as_, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | how);
      if (fd_ >= 0) break;
      if (last || errno != EEXIST) throw_open_error();
    }
    keep_off_standard_streams();
    owned_ = true;
    position_ = 0;
    created_by_ = begun ? 0 : ::getpid();
    old_content_ = begun && regular;
    touched_ = false;
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
    regular_ = regular;
    remember_identity();
    if (regular) claim();
    if (regular) share(descriptor_behind(path_));
    kind_ = kind_of(fd_);
    struct statfs system {};
    allocated_ = 0;
    allocates_ = regular_ && ::fstatfs(fd_, &system) == 0 && system.f_type == EXT4_SUPER_MAGIC;
  }

  /// Writes to a descriptor of the program, which stays open.
  void adopt(int fd, const char* description) {
    path_ = description;
    fd_ = fd;
    owned_ = false;
    position_ = 0;
    old_content_ = false;
    allocates_ = false;
    allocated_ = 0;
    kind_ = kind_of(fd);
  }

  /// Buffered. One call is never cut in two by the buffer's end, so lines of several writers of a terminal stay whole.
  void write(std::string_view bytes) {
    if (buffer_.size() + bytes.size() > buffer_limit) flush();
    if (bytes.size() >= buffer_limit) {
      put(bytes);
    } else {
      buffer_ += bytes;
    }
  }

  /// For writers with a buffer of their own: writes at once as much of `bytes` as ends on a whole block of the file,
  /// and leaves the rest to the caller. ext4 takes blocks of 128 KiB for 0.155 ns a byte, 64 KiB that lie across its
  /// pages for 0.215. @returns bytes taken, 0 if they do not reach the end of a block
  std::size_t write_blocks(std::string_view bytes) {
    flush();
    const std::size_t rest = static_cast<std::size_t>((position_ + bytes.size()) % block);
    if (rest >= bytes.size()) return 0;
    put(bytes.substr(0, bytes.size() - rest));
    return bytes.size() - rest;
  }
  static constexpr std::size_t block = 64 * 1024;

  void flush() {
    if (buffer_.empty()) return;
    // Emptied first: after a failure nothing may be written twice.
    std::string full;
    full.swap(buffer_);
    put(full);
    full.clear();
    buffer_.swap(full);
  }

  /// Flushes, closes and, where asked for, gives the file its name. @throws error; the file then keeps its ".tmp" name
  void close() {
    if (fd_ < 0) return;
    flush();
    if (owned_) {
      const int unwritten = empty_once();
      if (unwritten != 0) throw_write_error(unwritten);
      const int fd = is_ours() ? fd_ : -1;
      if (fd >= 0) give_back_blocks();
      fd_ = -1;
      close_lock();
      if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
        position_ = 0;  // how much of what the system took reached the disk is unknown
        throw_write_error(errno);
      }
      if (opened_as_ != path_ && std::rename(opened_as_.c_str(), path_.c_str()) != 0) {
        throw error(("cannot rename \"" + opened_as_ + "\" to \"" + path_ + "\": " + errno_text(errno)).c_str());
      }
    }
    fd_ = -1;
  }

  void release() noexcept {
    closed_after_fork<output_file>::remove(this);
    const bool ours = fd_ >= 0 && owned_ && is_ours();
    // A child for which no fork handler ran (_Fork) shares the file, which goes on growing, and the lock, and would
    // hold it for as long as it lives.
    if (ours && locked_by_ != 0 && locked_by_ == ::getpid()) {
      give_back_blocks();
      if (lock_fd_ < 0) ::flock(fd_, LOCK_UN);
    }
    close_lock();
    locked_by_ = 0;
    if (fd_ >= 0 && owned_ && created_by_ == ::getpid() && !touched_)
      ::unlink(opened_as_.c_str());  // nothing was ever written to it
    if (ours) ::close(fd_);
    fd_ = -1;
    buffer_.clear();
  }

  /// A forked child has no use for the file, and would hold the lock when this process is killed.
  void close_in_child() const noexcept {
    for (const int fd : {fd_, lock_fd_})
      if (owned_ && fd >= 0 && is_this_file(fd)) ::close(fd);
  }

  /// Mode 0644, for a file of the sink's own. Before anything is written, so that no reader is refused for a moment.
  void let_all_read() noexcept {
    if (owned_ && regular_ && fd_ >= 0) ::fchmod(fd_, 0644);
  }

  bool is_open() const noexcept { return fd_ >= 0; }
  /// Of a file, from the root.
  const std::string& path() const noexcept { return path_; }
  /// Bytes that the system took, after a failure too; those in the buffer are not among them.
  std::uint64_t position() const noexcept { return position_; }

  /// Whether the path names a descriptor of the program: renaming a ".tmp" to it would replace the entry in /dev, and
  /// what is behind it is more than the trace.
  static bool names_descriptor(const std::string& path) noexcept {
    for (const char* at : {"/dev/std", "/dev/fd/", "/proc/"})
      if (path.compare(0, std::string_view(at).size(), at) == 0) return true;
    return false;
  }

 private:
  static constexpr std::size_t buffer_limit = 64 * 1024;
  static constexpr unsigned attempt_limit = 1000;  ///< names of one pattern

  void put(std::string_view bytes) {
    if (fd_ < 0) throw error(("cannot write \"" + path_ + "\": it is closed").c_str());
    if (owned_ && !is_ours()) regain();
    touched_ = true;
    int failure = empty_once();
    if (failure == 0) allocate_ahead(bytes.size());
    std::size_t done = 0;
    if (failure == 0) failure = write_all(fd_, kind_, bytes.data(), bytes.size(), done);
    position_ += done;
    if (failure != 0) {
      release();
      throw_write_error(failure);
    }
  }

  /// Problem: ext4 reserves a block for each page that is written, and keeps a list of what it has reserved: 0.18 ns a
  /// byte, a third of the time of a Chrome JSON event. Solution: blocks are asked for ahead, up to as much as the file
  /// has and no more than 8 MiB: 0.11 ns. Its size stays what was written; unused blocks are given back at the end,
  /// or at once when the disk is nearly full; after a kill they stay with the file. On other file systems (tmpfs,
  /// network) this may cost more than it gains.
  void allocate_ahead(std::size_t n) noexcept {
    constexpr std::uint64_t least = std::uint64_t{1} << 20, most = std::uint64_t{8} << 20;
    if (CUTRACE_LIKELY(!allocates_ || position_ < least || position_ + n <= allocated_)) return;
    const std::uint64_t size = n + (position_ < most ? position_ : most);
    allocated_ = position_ + size;
    allocates_ = ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(position_), static_cast<off_t>(size)) == 0;
    if (!allocates_) give_back_blocks();  // it may have got some, the last ones of a disk
  }
  /// Those behind the file's end.
  void give_back_blocks() noexcept {
    struct stat now {};
    if (allocated_ > position_ && ::fstat(fd_, &now) == 0 && ::ftruncate(fd_, now.st_size) != 0) return;  // they stay
    allocated_ = 0;
  }

  /// The descriptor of this process that the path names, or -1.
  static int named_descriptor(const std::string& path) noexcept {
    if (path == "/dev/stdout") return STDOUT_FILENO;
    if (path == "/dev/stderr") return STDERR_FILENO;
    for (const std::string_view at : {"/dev/fd/", "/proc/self/fd/"}) {
      int number = -1;
      if (path.compare(0, at.size(), at) != 0) continue;
      const std::from_chars_result r = std::from_chars(path.data() + at.size(), path.data() + path.size(), number);
      if (r.ec == std::errc() && r.ptr == path.data() + path.size()) return number;
    }
    return -1;
  }
  /// The descriptor of this process that the opened file is behind, or -1. The path may also be a link to /dev/stdout,
  /// or that descriptor's under another name in /proc.
  int descriptor_behind(const std::string& path) const noexcept {
    const int named = named_descriptor(path);
    for (int standard = STDOUT_FILENO; named < 0 && standard <= STDERR_FILENO; ++standard)
      if (is_this_file(standard)) return standard;
    return named;
  }
  /// Problem: a file that a descriptor of the program leads to is the program's, which has written to it and goes on.
  /// Solution: a copy of that descriptor, whose position is the program's, too; nothing is emptied. The file that was
  /// opened holds the lock.
  void share(int descriptor) noexcept {
    const int flags = descriptor >= 0 ? ::fcntl(descriptor, F_GETFL) : -1;
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) return;
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0) return;
    if (fd_ >= 0) lock_fd_ = fd_;
    fd_ = copy;
    old_content_ = regular_ = false;
  }
  void close_lock() noexcept {
    if (lock_fd_ >= 0 && is_this_file(lock_fd_)) {
      if (locked_by_ == ::getpid()) ::flock(lock_fd_, LOCK_UN);
      ::close(lock_fd_);
    }
    lock_fd_ = -1;
  }

  void remember_identity() noexcept {
    struct stat own {};
    ::fstat(fd_, &own);
    device_ = own.st_dev;
    inode_ = own.st_ino;
  }
  bool is_ours() const noexcept { return is_this_file(fd_); }
  bool is_this_file(int fd) const noexcept {
    struct stat now {};
    return ::fstat(fd, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
  }

  /// Problem: daemons close all descriptors that they find, ours among them, and the number may soon be a file of their
  /// own. Solution: each write, mostly of 64 KiB, first compares device and inode (0.2 us); a file is opened again.
  CUTRACE_NOINLINE void regain() {
    fd_ = -1;
    int failure = EBADF;
    if (regular_) {
      fd_ = output_opener::open(opened_as_, O_WRONLY | O_CLOEXEC | O_NOCTTY);
      failure = errno;
    } else {
      share(named_descriptor(path_));
      if (fd_ >= 0 && is_ours()) return;
    }
    if (fd_ >= 0) keep_off_standard_streams();
    if (fd_ >= 0 && is_ours() && ::lseek(fd_, static_cast<off_t>(position_), SEEK_SET) >= 0) {
      locked_by_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? ::getpid() : 0;
      return;
    }
    if (fd_ >= 0) ::close(fd_), failure = ESTALE;
    fd_ = -1;
    throw error(("cannot write \"" + path_ +
                 "\": the program closed its descriptor, and it cannot be opened again: " + errno_text(failure))
                    .c_str());
  }

  /// The program may have closed its standard streams: what it writes there must not come into the trace.
  void keep_off_standard_streams() {
    if (fd_ > STDERR_FILENO) return;
    const int higher = ::fcntl(fd_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int failure = errno;
    ::close(fd_);
    fd_ = higher;
    if (higher >= 0) return;
    errno = failure;
    throw_open_error();
  }

  /// Two writers of one path would mix their bytes, or the one replace what the other wrote; the second one is notified
  /// instead. File systems without locks are taken as they are.
  void claim() {
    const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (locked) {
      locked_by_ = ::getpid();
      closed_after_fork<output_file>::remove(this);  // of the file before
      closed_after_fork<output_file>::add(this);
    }
    const bool taken = !locked && errno == EWOULDBLOCK;
    // A writer that publishes at its end holds the lock of the other name.
    if (!taken && !is_locked(opened_as_ == path_ ? path_ + ".tmp" : path_)) return;
    if (taken) created_by_ = 0;
    release();
    throw config_error(("\"" + path_ +
                        "\" is being written by another sink or trace; give each sink a file of its own, and each "
                        "process by %p (process id) in the name")
                           .c_str());
  }
  static bool is_locked(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return false;
    const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(fd);  // with the lock, if it was got
    return locked;
  }

  /// Empties what the file held before. @returns errno
  int empty_once() {
    if (!old_content_) return 0;
    old_content_ = false;
    // Only where there is something to empty: ext4 takes any truncation for a file that is being replaced, and so would
    // start to write all of it to the disk when it is closed, on our thread.
    struct stat known {};
    if (::fstat(fd_, &known) == 0 && known.st_size == 0) return 0;
    return ::ftruncate(fd_, 0) == 0 ? 0 : errno;
  }

  [[noreturn]] void throw_open_error() const {
    const int failure = errno;
    std::string message = "cannot open \"" + opened_as_ + "\": " + errno_text(failure);
    if (failure == ENXIO) message += " (nobody reads from this pipe)";
    if (failure == ENOENT) message += " (the directory must exist)";
    throw error(message.c_str());
  }
  [[noreturn]] void throw_write_error(int failure) const {
    std::string message = "cannot write \"" + path_ + "\": " + errno_text(failure);
    if (opened_as_ != path_ && owned_) message += "; what was written is in \"" + opened_as_ + "\"";
    throw error(message.c_str());
  }

  std::string path_;
  std::string opened_as_;
  std::string buffer_;
  std::uint64_t position_ = 0;
  int fd_ = -1;
  int lock_fd_ = -1;  ///< holds the lock, where fd_ is a copy of the program's descriptor
  descriptor_kind kind_ = descriptor_kind::other;
  bool allocates_ = false;       ///< allocating ahead helps on this file system
  std::uint64_t allocated_ = 0;  ///< end of the blocks asked for ahead
  bool owned_ = false;
  bool regular_ = false;  ///< a file with a name, no pipe or device
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool old_content_ = false;  ///< not emptied yet
  bool touched_ = false;      ///< something was written, or would have been
  pid_t created_by_ = 0;      ///< process that created the file, 0: it was there
  pid_t locked_by_ = 0;       ///< process that holds the lock, 0: nobody
};

}  // namespace detail
CUTRACE_END_NAMESPACE
