// SPDX-License-Identifier: Apache-2.0
#include "cutrace/program_file.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "cutrace/doctor/executable.hpp"
#include "trace/words.hpp"

namespace cutrace_tool {

namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string find_program(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return name;
  const char* given = std::getenv("PATH");
  const std::string path = given != nullptr ? given : "/bin:/usr/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, end - at);
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat known {};
    if (::stat(file.c_str(), &known) == 0 && S_ISREG(known.st_mode) && ::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return name;
}

const char* other_rights(const std::string& file) {
  struct stat known {};
  if (::stat(file.c_str(), &known) != 0) return nullptr;
  const bool other_user = (known.st_mode & S_ISUID) != 0 && known.st_uid != ::geteuid();
  const bool other_group = (known.st_mode & S_ISGID) != 0 && known.st_gid != ::getegid();
  const bool capable = ::geteuid() != 0 && ::getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
  return capable ? "file capabilities" : other_user ? "setuid" : other_group ? "setgid" : nullptr;
}

std::string why_out_of_reach(const std::string& file) {
  if (const char* by = other_rights(file))
    return file + " runs with other rights than yours (" + by +
           "): it takes no library from the environment. Run a copy without them, as the user whose rights it has.";
  std::string by_way_of;
  const doctor::executable e = doctor::what_runs(file, by_way_of);
  if (e.is_foreign())
    return e.path + " is " +
           (e.bits_32         ? std::string("a 32-bit program")
            : e.other_machine ? std::string("for another processor")
                              : "started by " + e.loader_path + ", not by glibc's loader") +
           ": it can load neither CUDA's driver nor a library of ours.";
  if (by_way_of.empty() && e.is_static())
    return file +
           " is linked statically: it cannot load CUDA's driver, and what it contains of CUDA is out of reach. "
           "Link it dynamically, or build it with cutrace.";
  return {};
}

std::string why_not_started(const std::string& program, int error) {
  std::string by_way_of;
  const doctor::executable e = doctor::what_runs(program, by_way_of);
  if (!by_way_of.empty() && !e.error.empty()) return by_way_of + e.error;
  std::string text = program + ": " + std::strerror(error);
  struct stat known {};
  const bool is_here = ::stat(program.c_str(), &known) == 0;
  if (program.find('/') == std::string::npos)
    text += std::string("; it is not found along PATH") +
            (is_here ? "; what is in this folder is started as ./" + program : "");
  else if (is_here && S_ISDIR(known.st_mode))
    text += "; it is a folder, name a program in it";
  else if (is_here && ::access(program.c_str(), X_OK) != 0)
    text += "; make it executable (chmod +x), or put its interpreter before it, as in: cutrace run python3 " + program;
  return text;
}

std::string name_for_files(const std::vector<std::string>& program) {
  std::string name = base_name(program.at(0));
  if (cutrace_reading::starts_with(name, "python") || name == "bash" || name == "sh") {
    for (std::size_t i = 1; i < program.size(); ++i) {
      const std::string& word = program[i];
      if (word == "-c") break;
      if (word == "-m" && i + 1 < program.size()) {
        name = program[i + 1];
        break;
      }
      if (word.empty() || word[0] == '-') continue;
      name = base_name(word);
      const std::size_t dot = name.rfind('.');
      if (dot != 0 && dot != std::string::npos) name.resize(dot);
      break;
    }
  }
  for (char& c : name)
    if (c == ',' || c == '?' || c == '%' || static_cast<unsigned char>(c) <= ' ') c = '_';
  constexpr std::size_t most = 128;  // of 255: host, numbers and extensions come behind
  if (name.size() > most) {
    std::size_t end = most;
    while (end > most - 4 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // no half of a character
    name.resize(end);
  }
  return name.empty() ? "program" : name;
}

}  // namespace cutrace_tool
