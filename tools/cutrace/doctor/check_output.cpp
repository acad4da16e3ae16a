// SPDX-License-Identifier: Apache-2.0
// Can the files of a trace be written, and is there room? Tried by making a file without a name, or in a folder that is
// removed again: permissions alone do not say (read-only mounts, quotas, root).
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <system_error>

#include "checks.hpp"

namespace cutrace_tool::doctor {

namespace {

std::string parent_of(const std::string& path) {
  const std::size_t last = path.find_last_not_of('/');
  const std::size_t slash = path.rfind('/', last);
  if (last == std::string::npos || slash == 0) return "/";
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// The folder itself, or the nearest one above it that there is. A link that leads nowhere is there, too: nothing can
/// be made in its place.
std::string nearest(std::string path) {
  struct stat st {};
  while (path != "/" && path != "." && ::lstat(path.c_str(), &st) != 0 && errno == ENOENT) path = parent_of(path);
  return path;
}

/// 0 or errno of writing there.
int try_file(const std::string& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  std::string name;
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {  // a file system without nameless files
    name = folder + "/.cutrace-doctor-XXXXXX";
    fd = ::mkostemp(&name[0], O_CLOEXEC);
  }
  if (fd < 0) return errno;
  const int error = ::write(fd, "x", 1) == 1 ? 0 : errno;
  ::close(fd);
  if (!name.empty()) ::unlink(name.c_str());
  return error;
}

int try_folder(const std::string& parent) {
  std::string name = parent + "/.cutrace-doctor-XXXXXX";
  if (::mkdtemp(&name[0]) == nullptr) return errno;
  const int error = try_file(name);
  ::rmdir(name.c_str());
  return error;
}

finding check_folder(const setup& s, const std::string& there) {
  finding f{"output.folder", for_all, state::ok, "", ""};
  std::error_code unknown;
  // Made absolute first: of a relative path that does not exist yet weakly_canonical would return nothing but that.
  const std::string whole =
      std::filesystem::weakly_canonical(std::filesystem::absolute(s.out, unknown), unknown).string();
  if (whole.find_first_of(",?") != std::string::npos) {
    f.state = state::broken;
    f.what = "\"" + whole + "\" holds a comma or a question mark, which names of a sink's files cannot have";
    f.remedy = "name another folder with --out";
    return f;
  }
  const bool made = there == s.out;
  struct stat st {};
  int error = ::stat(there.c_str(), &st) != 0 ? errno : !S_ISDIR(st.st_mode) ? ENOTDIR : 0;
  if (error == 0) error = made ? try_file(there) : try_folder(there);
  if (error == 0) {
    f.what = made ? s.out + " can be written" : s.out + " can be made in " + there;
    return f;
  }
  f.state = state::broken;
  f.what = "files cannot be written in " + s.out + ": " + std::strerror(error) + (made ? "" : " (at " + there + ")");
  f.remedy = error == ENOSPC || error == EDQUOT ? "make room, or name another folder with --out"
                                                : "name a folder with --out in which this user may write";
  return f;
}

std::string in_units(unsigned long long bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t u = 0;
  while (bytes >= 10240 && u < 4) {
    bytes /= 1024;
    ++u;
  }
  return std::to_string(bytes) + " " + units[u];
}

/// A trace of one gigabyte is common; below that much room doctor warns.
finding check_space(const setup& s, const std::string& there) {
  finding f{"output.space", for_all, state::ok, "", ""};
  constexpr unsigned long long wanted = 1ull << 30, least = 16ull << 20;
  struct statvfs v {};
  if (::statvfs(there.c_str(), &v) != 0) {
    f.state = state::unknown;
    f.what = "room: not checked, because " + there + " cannot be asked: " + std::strerror(errno);
    return f;
  }
  if (v.f_blocks == 0) {
    f.state = state::unknown;
    f.what = "room: not checked, because the file system of " + there + " does not say how much it has";
    return f;
  }
  const unsigned long long room = static_cast<unsigned long long>(v.f_bavail) * v.f_frsize;
  f.what = in_units(room) + " free for " + s.out;
  if (room >= wanted) return f;
  f.state = room < least ? state::broken : state::limited;
  f.remedy = "make room, or name another folder with --out";
  return f;
}

}  // namespace

findings check_output(const setup& s) {
  const std::string there = nearest(s.out);
  return {check_folder(s, there), check_space(s, there)};
}

}  // namespace cutrace_tool::doctor
