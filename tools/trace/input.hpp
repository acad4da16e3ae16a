// SPDX-License-Identifier: Apache-2.0
// The bytes of a file, a pipe or standard input, decompressed where they are gzip (recognised by the first two bytes,
// not by the name).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cutrace_reading {

class input {
 public:
  /// "-" is standard input. @throws reading_error
  explicit input(const std::string& path);
  ~input();
  input(const input&) = delete;
  input& operator=(const input&) = delete;

  /// Up to `room` bytes; 0 at the end. @throws reading_error
  std::size_t read(char* to, std::size_t room);

  bool compressed() const noexcept { return zipped_ != nullptr; }
  /// Why the compressed stream is broken or ended too early; nullptr: nothing is wrong so far.
  const char* broken() const noexcept { return broken_; }
  /// Whether `go_to` works: files that are not compressed.
  bool can_seek() const noexcept { return size_ != 0 && zipped_ == nullptr; }
  void go_to(std::uint64_t byte);
  /// Bytes of the file as stored (compressed): `taken` were read so far, `size` are all, 0 where that is not known.
  std::uint64_t taken() const noexcept { return taken_; }
  std::uint64_t size() const noexcept { return size_; }
  const std::string& path() const noexcept { return path_; }

 private:
  struct inflater;
  std::size_t read_file(char* to, std::size_t room);
  std::size_t inflate(char* to, std::size_t room);

  std::string path_;
  int file_ = -1;
  bool own_ = false;
  std::uint64_t size_ = 0;
  std::uint64_t taken_ = 0;
  unsigned char head_[2] = {};  ///< the first bytes, read to recognise gzip
  std::size_t head_size_ = 0;
  std::size_t head_at_ = 0;
  const char* broken_ = nullptr;
  std::unique_ptr<inflater> zipped_;
};

}  // namespace cutrace_reading
