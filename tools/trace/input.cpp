// SPDX-License-Identifier: Apache-2.0
#include "trace/input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "trace/complaints.hpp"

namespace cutrace_reading {

namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw reading_error("cannot read \"" + path + "\": " + what);
}

}  // namespace

struct input::inflater {
  z_stream stream{};
  std::vector<unsigned char> in = std::vector<unsigned char>(std::size_t{1} << 18);
  bool between = false;  ///< one gzip member has ended
  bool ended = false;

  explicit inflater(const std::string& path) {
    if (inflateInit2(&stream, 15 + 16) != Z_OK) fail(path, "no memory to decompress it");
  }
  ~inflater() { inflateEnd(&stream); }
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;
};

input::input(const std::string& path) : path_(path == "-" ? "standard input" : path) {
  if (path == "-") {
    file_ = STDIN_FILENO;
  } else {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    own_ = true;
    if (file_ < 0) fail(path_, std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file_, &status) == 0) {
    if (S_ISDIR(status.st_mode)) {
      if (own_) ::close(file_);
      fail(path_, "it is a folder; name the files in it");
    }
    if (S_ISREG(status.st_mode) && own_) size_ = static_cast<std::uint64_t>(status.st_size);
  }
  try {
    while (head_size_ < sizeof(head_)) {
      const std::size_t n = read_file(reinterpret_cast<char*>(head_) + head_size_, sizeof(head_) - head_size_);
      if (n == 0) break;
      head_size_ += n;
    }
    if (head_size_ == 2 && head_[0] == 0x1f && head_[1] == 0x8b) zipped_.reset(new inflater(path_));
  } catch (...) {
    if (own_) ::close(file_);
    throw;
  }
}

input::~input() {
  if (own_) ::close(file_);
}

std::size_t input::read_file(char* to, std::size_t room) {
  while (true) {
    const ssize_t n = ::read(file_, to, room);
    if (n >= 0) {
      taken_ += static_cast<std::uint64_t>(n);
      return static_cast<std::size_t>(n);
    }
    if (errno != EINTR) fail(path_, std::strerror(errno));
  }
}

std::size_t input::read(char* to, std::size_t room) {
  if (zipped_ != nullptr) return inflate(to, room);
  std::size_t n = 0;
  while (head_at_ < head_size_ && n < room) to[n++] = static_cast<char>(head_[head_at_++]);
  return n != 0 || room == 0 ? n : read_file(to, room);
}

std::size_t input::inflate(char* to, std::size_t room) {
  inflater& z = *zipped_;
  z.stream.next_out = reinterpret_cast<Bytef*>(to);
  z.stream.avail_out = static_cast<uInt>(room < (1u << 30) ? room : 1u << 30);
  const std::size_t asked = z.stream.avail_out;
  while (!z.ended && z.stream.avail_out == asked) {
    if (z.stream.avail_in == 0) {
      std::size_t n = 0;
      if (head_at_ < head_size_) {
        std::memcpy(z.in.data(), head_, head_size_);
        n = head_at_ = head_size_;
      } else {
        n = read_file(reinterpret_cast<char*>(z.in.data()), z.in.size());
      }
      z.stream.next_in = z.in.data();
      z.stream.avail_in = static_cast<uInt>(n);
      if (n == 0) {
        if (!z.between) broken_ = "the compressed file is cut short";
        z.ended = true;
        break;
      }
    }
    if (z.between) {
      // A file of several members, as cat makes it.
      inflateReset(&z.stream);
      z.between = false;
    }
    const int state = ::inflate(&z.stream, Z_NO_FLUSH);
    if (state == Z_STREAM_END) {
      z.between = true;
    } else if (state != Z_OK && state != Z_BUF_ERROR) {
      broken_ = "the compressed file is broken from here on";
      z.ended = true;
    }
  }
  return asked - z.stream.avail_out;
}

void input::go_to(std::uint64_t byte) {
  if (::lseek(file_, static_cast<off_t>(byte), SEEK_SET) < 0) fail(path_, std::strerror(errno));
  head_at_ = head_size_;
  taken_ = byte;
}

}  // namespace cutrace_reading
