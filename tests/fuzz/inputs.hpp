// SPDX-License-Identifier: Apache-2.0
// Inputs of fuzz targets: seeds from folders, and files for readers that want a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace fuzz {

using input_bytes = std::vector<std::uint8_t>;

/// Adds each file of `folder`. @returns false where it is no folder
inline bool add_seeds(const std::string& folder, std::vector<input_bytes>& seeds) {
  if (!std::filesystem::is_directory(folder)) return false;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(file.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return true;
}

/// A file without a folder. Its size is that of the input. Aborts where there is no memory for it.
class memory_file {
 public:
  memory_file(const std::uint8_t* input, std::size_t size) : file_(::memfd_create("input", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, input, size) != static_cast<ssize_t>(size)) {
      std::perror("a file for the input");
      std::abort();
    }
    path_ = "/proc/self/fd/" + std::to_string(file_);
  }
  ~memory_file() { ::close(file_); }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

}  // namespace fuzz
