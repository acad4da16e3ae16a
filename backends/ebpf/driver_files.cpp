// SPDX-License-Identifier: Apache-2.0
#include "driver_files.hpp"

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

namespace cutrace_ebpf {

namespace {

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

/// Splits a list of folders at colons or semicolons; an empty one is the current folder.
std::vector<std::string> folders_of(const std::string& list, const std::string& origin) {
  std::vector<std::string> all;
  for (std::size_t at = 0; !list.empty() && at <= list.size();) {
    const std::size_t end = std::min(list.find_first_of(":;", at), list.size());
    std::string one = list.substr(at, end - at);
    replace_all(one, "${ORIGIN}", origin);
    replace_all(one, "$ORIGIN", origin);
    all.push_back(one.empty() ? "." : one);
    at = end + 1;
  }
  return all;
}

/// What the loader takes for $ORIGIN, in LD_LIBRARY_PATH, too: the folder of the executable, not of a link to it.
std::string origin_of(const std::string& executable) {
  std::error_code none;
  const std::string folder = std::filesystem::canonical(executable, none).parent_path().string();
  return folder.empty() ? "." : folder;
}

std::uint32_t word_at(const std::string& from, std::size_t at) {
  std::uint32_t v = 0;
  if (at + sizeof(v) <= from.size()) std::memcpy(&v, from.data() + at, sizeof(v));
  return v;
}

/// The NUL-terminated text there, empty where none is.
std::string text_at(const std::string& from, std::size_t at) {
  if (at >= from.size()) return {};
  const std::size_t end = from.find('\0', at);
  return end == std::string::npos ? std::string() : from.substr(at, end - at);
}

}  // namespace

std::vector<mapped_file> mapped_drivers(std::uint32_t process) {
  std::vector<mapped_file> all;
  std::ifstream in("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(in, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || !is_driver_file(line)) continue;
    mapped_file m;
    char access[5] = "";
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64, &m.begin, &m.end, access, &m.offset) != 4 ||
        access[2] != 'x')
      continue;
    m.path = line.substr(path);
    all.push_back(std::move(m));
  }
  return all;
}

opened_file open_mapped(std::uint32_t process, const mapped_file& m) {
  // By the mapping itself, which holds for deleted files, too, but needs more rights; else by the path.
  char range[64];
  std::snprintf(range, sizeof(range), "%" PRIx64 "-%" PRIx64, m.begin, m.end);
  const std::string folder = "/proc/" + std::to_string(process);
  try {
    return opened_file(folder + "/map_files/" + range);
  } catch (const std::runtime_error&) {
    return opened_file(folder + "/root" + m.path);
  }
}

// The format is glibc's, sysdeps/generic/dl-cache.h: "glibc-ld.so.cache" "1.1", in newer files at the beginning and in
// older ones behind another table; then the number of entries, the length of the strings, and after 48 bytes entries of
// 24: flags, offset of the name, offset of the path (both from the magic), and what is of no interest here.
std::vector<std::string> files_in_cache(const std::string& cache,
                                        const std::function<bool(const std::string&)>& wanted) {
  constexpr std::size_t head_bytes = 48, entry_bytes = 24, limit = 1u << 16;
  std::vector<std::string> all;
  const std::size_t begin = cache.find("glibc-ld.so.cache1.1");
  if (begin == std::string::npos) return all;
  const std::size_t count = std::min<std::size_t>(word_at(cache, begin + 20), limit);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = begin + head_bytes + i * entry_bytes;
    if (!wanted(text_at(cache, begin + word_at(cache, entry + 4)))) continue;
    const std::string path = text_at(cache, begin + word_at(cache, entry + 8));
    if (!path.empty()) all.push_back(path);
  }
  return all;
}

namespace {

/// Files with one of `names` in the folders that the loader searches, in its order. Where it would look in its cache:
/// files of the cache whose names `cached` accepts.
std::vector<opened_file> likely_files(const std::vector<std::string>& names,
                                      const std::function<bool(const std::string&)>& cached,
                                      const std::string& executable,
                                      const std::map<std::string, std::string>& environment) {
  std::vector<std::string> paths;
  const auto look_in = [&](const std::vector<std::string>& folders) {
    for (const std::string& folder : folders)
      for (const std::string& name : names) paths.push_back(folder + "/" + name);
  };
  const std::string origin = origin_of(executable);
  const auto given = environment.find("LD_LIBRARY_PATH");
  if (given != environment.end()) look_in(folders_of(given->second, origin));
  try {
    const opened_file program(executable);
    const elf_file elf(program);
    look_in(folders_of(elf.search_path(), origin));
  } catch (const std::runtime_error&) {  // a script, or nothing that can be read: the system says why it cannot start
  }
  std::ifstream cache("/etc/ld.so.cache", std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(cache), {});
  for (const std::string& path : files_in_cache(content, cached)) paths.push_back(path);
  look_in({"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
           "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"});
  std::vector<opened_file> found;
  std::set<std::pair<dev_t, ino_t>> known;
  for (const std::string& path : paths) {
    try {
      opened_file file(path);
      if (known.insert(file.identity()).second) found.push_back(std::move(file));
    } catch (const std::runtime_error&) {  // not there
    }
  }
  return found;
}

}  // namespace

std::vector<opened_file> likely_drivers(const std::string& executable,
                                        const std::map<std::string, std::string>& environment) {
  return likely_files({"libcuda.so.1", "libcuda.so"}, &is_driver_file, executable, environment);
}

opened_file find_library(const std::string& name, const std::string& executable,
                         const std::map<std::string, std::string>& environment) {
  if (name.find('/') != std::string::npos) return opened_file(name);
  const auto is_it = [&](const std::string& other) { return other == name; };
  std::vector<opened_file> found = likely_files({name}, is_it, executable, environment);
  if (found.empty())
    throw std::runtime_error(
        name + ": no such library where the loader would look; to use a file elsewhere, give its path (with a /)");
  return std::move(found.front());
}

}  // namespace cutrace_ebpf
