// SPDX-License-Identifier: Apache-2.0
// Reads no more than the headers.
#include "executable.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace cutrace_tool::doctor {

namespace {

#if defined(__aarch64__)
constexpr int own_machine = EM_AARCH64;
#else
constexpr int own_machine = EM_X86_64;
#endif

std::string along_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string file = (end == at ? "." : path.substr(at, end - at)) + "/" + name;
    struct stat st {};
    if (::stat(file.c_str(), &st) == 0 && S_ISREG(st.st_mode) && ::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

void read_elf(int fd, const unsigned char (&head)[256], executable& e) {
  e.elf = true;
  e.bits_32 = head[EI_CLASS] == ELFCLASS32;
  if (e.bits_32) {
    e.loader = true;  // not looked at: it cannot be traced anyway
    return;
  }
  Elf64_Ehdr h;
  std::memcpy(&h, head, sizeof(h));
  e.other_machine = h.e_machine != own_machine;
  for (unsigned i = 0; i < h.e_phnum && i < 256; ++i) {
    Elf64_Phdr p;
    const off_t at = static_cast<off_t>(h.e_phoff + i * std::uint64_t{h.e_phentsize});
    if (::pread(fd, &p, sizeof(p), at) != static_cast<ssize_t>(sizeof(p))) break;
    if (p.p_type != PT_INTERP) continue;
    e.loader = true;
    e.loader_path.resize(std::min<std::size_t>(p.p_filesz, 4096));
    const ssize_t n = ::pread(fd, e.loader_path.data(), e.loader_path.size(), static_cast<off_t>(p.p_offset));
    e.loader_path.resize(n > 0 ? ::strnlen(e.loader_path.data(), static_cast<std::size_t>(n)) : 0);
  }
}

/// AT_SECURE, as the kernel would set it (getauxval(3)).
bool gets_elevated(int fd, const struct stat& st) {
  if ((st.st_mode & S_ISUID) != 0 && st.st_uid != ::getuid()) return true;
  if ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0 && st.st_gid != ::getgid()) return true;
  return ::getuid() != 0 && ::fgetxattr(fd, "security.capability", nullptr, 0) > 0;
}

/// The program in what stands behind `env` in a script's first line: "NAME", or "-S [options] [VARIABLE=VALUE...] NAME
/// ARGUMENTS..."; empty where there is none. Other forms of -S: "-vS", "--split-string=".
std::string named_to_env(std::string text) {
  constexpr const char* long_form = "--split-string=";
  text.erase(0, text.find_first_not_of(" \t"));
  const std::size_t letter = text[0] == '-' ? text.find_first_not_of("iv0", 1) : text.size();
  const bool by_letter = letter < text.size() && text[letter] == 'S';
  const bool split = by_letter || text.compare(0, std::strlen(long_form), long_form) == 0;
  if (split) text.erase(0, by_letter ? letter + 1 : std::strlen(long_form));
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (split && (word == "-u" || word == "-C"))
      words >> word;  // what the option takes
    else if (!split || (word[0] != '-' && word.find('=') == std::string::npos))
      return word;
  }
  return {};
}

/// Of a script, by its first bytes. Where no line names one the kernel refuses the file (ENOEXEC), and shells and
/// execvp start their own shell with it.
std::string interpreter_of(const std::string& text) {
  if (text.compare(0, 2, "#!") == 0) {
    const std::string line = text.substr(2, text.find('\n') - 2);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos) return line.substr(first);
  }
  return "/bin/sh";
}

}  // namespace

executable what_runs(const std::string& name, std::string& by_way_of) {
  executable e = look_at_program(name);
  for (int depth = 0; depth < 4 && e.error.empty() && !e.interpreter.empty(); ++depth) {
    std::string command = e.interpreter;
    by_way_of += e.path + " is a script for ";
    const std::size_t space = std::min(command.find_first_of(" \t"), command.size());
    std::string next = command.substr(0, space);
    if (next.substr(next.rfind('/') + 1) == "env") {
      const std::string named = named_to_env(command.substr(space));
      if (!named.empty()) next = named;
    }
    e = look_at_program(next);
  }
  return e;
}

executable look_at_program(const std::string& name) {
  executable e;
  e.path = along_path(name);
  if (e.path.empty()) {
    e.error = name + " is not found along PATH";
    return e;
  }
  struct stat st {};
  if (::stat(e.path.c_str(), &st) != 0)
    e.error = e.path + ": " + std::strerror(errno);
  else if (!S_ISREG(st.st_mode))
    e.error = e.path + " is not a file";
  else if (::access(e.path.c_str(), X_OK) != 0)
    e.error = e.path + " may not be executed: " + std::strerror(errno);
  if (!e.error.empty()) return e;
  const int fd = ::open(e.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    e.error = e.path + " cannot be read: " + std::strerror(errno);
    return e;
  }
  unsigned char head[256] = {};
  const ssize_t n = ::pread(fd, head, sizeof(head), 0);
  if (n >= static_cast<ssize_t>(sizeof(Elf64_Ehdr)) && std::memcmp(head, ELFMAG, SELFMAG) == 0) {
    read_elf(fd, head, e);
    e.elevates = gets_elevated(fd, st);
  } else if (n < 0) {
    e.error = e.path + " cannot be read: " + std::strerror(errno);
  } else {
    const std::string text(reinterpret_cast<const char*>(head), static_cast<std::size_t>(n));
    if (text.compare(0, 2, "#!") == 0 || text.find('\0') == std::string::npos)
      e.interpreter = interpreter_of(text);
    else
      e.error = e.path + " is neither an ELF executable nor a script";
  }
  ::close(fd);
  return e;
}

}  // namespace cutrace_tool::doctor
