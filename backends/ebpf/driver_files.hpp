// SPDX-License-Identifier: Apache-2.0
// Which files may be the driver's library of a program: those where the loader will look for it, before the program
// runs, and those that a process has mapped.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "elf_file.hpp"

namespace cutrace_ebpf {

/// "libcuda.so.1", "libcuda.so.580.159.04"; no other library of NVIDIA begins so.
inline bool is_driver_file(const std::string& path) {
  return path.compare(path.rfind('/') + 1, 10, "libcuda.so") == 0;  // npos + 1 is 0
}

/// A part of a mapped library that is executed.
struct mapped_file {
  std::uint64_t begin = 0, end = 0;  ///< addresses
  std::uint64_t offset = 0;          ///< in the file
  std::string path;                  ///< as the process sees it
};

/// What /proc/PID/maps says of executable parts of libraries that may be the driver's. Empty where it cannot be read.
std::vector<mapped_file> mapped_drivers(std::uint32_t process);

/// A mapped file, opened as the process sees it: in its container, too. @throws std::runtime_error
opened_file open_mapped(std::uint32_t process, const mapped_file& m);

/// All that the loader may choose for a program of this environment: folders of LD_LIBRARY_PATH and of the executable's
/// own path, the loader's cache, and its usual folders. Each file once.
std::vector<opened_file> likely_drivers(const std::string& executable,
                                        const std::map<std::string, std::string>& environment);

/// A library by its path, or by the name under which the loader finds it. @throws std::runtime_error
opened_file find_library(const std::string& name, const std::string& executable,
                         const std::map<std::string, std::string>& environment);

/// Paths of libraries in /etc/ld.so.cache that have a wanted name.
std::vector<std::string> files_in_cache(const std::string& cache_content,
                                        const std::function<bool(const std::string&)>& wanted);

}  // namespace cutrace_ebpf
