// SPDX-License-Identifier: Apache-2.0
#include "cutrace/run_status.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cutrace/output/trace_file.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <tuple>

#include "cutrace/exit_status.hpp"
#include "cutrace/program_process.hpp"

namespace cutrace_tool {

namespace {

using cutrace::detail::run_state;
using cutrace::detail::status_block;

/// A copy of a block; false where it is not complete yet, or of another version's layout.
bool read_block(const std::string& path, status_block& to) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  // Plain memory on both sides; a counter that is being written is the older or the newer one.
  const bool whole = ::read(fd, static_cast<void*>(&to), sizeof(to)) == static_cast<ssize_t>(sizeof(to));
  ::close(fd);
  return whole && to.magic == status_block::right_magic && to.size == sizeof(to);
}

template <std::size_t N>
std::string text_of(const char (&from)[N]) {
  return std::string(from, ::strnlen(from, N));
}

void look_at_file(sink_report& s) {
  struct stat known {};
  if (cutrace::detail::output_file::names_descriptor(s.path)) return;  // of the program, not of this command
  const cutrace::detail::trace_parts parts = cutrace::detail::trace_parts::of(s.path);
  if (parts.count > 1 || (parts.count == 1 && parts.newest != s.path && parts.newest != s.path + ".tmp")) {
    constexpr std::string_view unfinished = ".tmp";
    s.path = parts.newest;
    s.parts = parts.count;
    s.bytes = parts.bytes;
    s.finished = s.path.size() < unfinished.size() ||
                 s.path.compare(s.path.size() - unfinished.size(), unfinished.size(), unfinished) != 0;
    if (!s.finished) s.path.resize(s.path.size() - unfinished.size());
    return;
  }
  s.finished = ::stat(s.path.c_str(), &known) == 0 && S_ISREG(known.st_mode);
  if (s.finished || (::stat((s.path + ".tmp").c_str(), &known) == 0 && S_ISREG(known.st_mode)))
    s.bytes = static_cast<std::uint64_t>(known.st_size);
}

process_report report_of(const status_block& b, bool alive) {
  const auto value = [](const std::atomic<std::uint64_t>& v) { return v.load(std::memory_order_relaxed); };
  process_report r;
  r.id = b.process_id;
  r.rank = b.rank;
  r.state = b.state_now();
  r.alive = alive;
  r.gpu_expected = b.gpu_expected.load(std::memory_order_relaxed) != 0;
  r.program = text_of(b.program);
  r.backend = text_of(b.backend);
  r.message = text_of(b.message);
  r.produced = value(b.produced);
  r.delivered = value(b.delivered);
  r.pending = value(b.pending);
  r.stages = value(b.stages);
  r.calls = value(b.calls);
  r.launches = value(b.launches_seen);
  r.gpu_records = value(b.gpu_records_seen);
  for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i) r.lost[i] = value(b.lost[i]);
  const std::size_t n = std::min<std::size_t>(b.sink_count.load(std::memory_order_acquire), cutrace::sink_limit);
  for (std::size_t i = 0; i < n; ++i) {
    const status_block::sink_status& from = b.sinks[i];
    sink_report s;
    s.name = text_of(from.name);
    s.path = text_of(from.path);
    s.lost = value(from.lost);
    if (from.failed.load(std::memory_order_acquire) != 0) s.failure = text_of(from.failure);
    if (!s.path.empty() && s.path[0] == '/') look_at_file(s);
    r.sinks.push_back(std::move(s));
  }
  return r;
}

}  // namespace

std::uint64_t process_report::lost_total() const {
  std::uint64_t n = 0;
  for (const std::uint64_t one : lost) n += one;
  return n;
}

bool is_running(std::uint32_t process) {
  if (::kill(static_cast<pid_t>(process), 0) != 0 && errno != EPERM) return false;
  std::istringstream fields(stat_behind_name(static_cast<pid_t>(process)));
  std::string state, skipped;
  int threads = 0;
  fields >> state;
  for (int i = 0; i < 16; ++i) fields >> skipped;
  fields >> threads;
  return state != "Z" || threads > 1;  // with more threads, only `main` has ended, by pthread_exit
}

run_status::run_status(const std::string& out) {
  std::string pattern = out + "/.cutrace-run-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    throw usage_error("cannot write in the output folder " + out + ": " + std::strerror(errno));
  folder_ = pattern;
}

run_status::run_status(const run_status& of, const char* name) : folder_(of.folder() + "/" + name) {
  if (::mkdir(folder_.c_str(), 0700) != 0) throw usage_error("cannot create " + folder_ + ": " + std::strerror(errno));
}

run_status::~run_status() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(folder_, ignored);
}

std::vector<process_report> run_status::read() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), &::closedir);
  std::vector<process_report> all;
  const auto block = std::make_unique<status_block>();
  while (const dirent* entry = folder != nullptr ? ::readdir(folder.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name.find(".status") == std::string::npos) continue;
    const auto known = done_.find(name);
    if (known != done_.end()) {
      all.push_back(known->second);
      continue;
    }
    // Asked first: of a process that has ended, all that is read afterwards is final.
    const bool alive = is_running(static_cast<std::uint32_t>(std::strtoul(name.c_str(), nullptr, 10)));
    if (!read_block(folder_ + "/" + name, *block)) continue;
    process_report r = report_of(*block, alive);
    r.image = static_cast<unsigned>(std::strtoul(name.c_str() + name.find('.') + 1, nullptr, 10));
    if (r.state == run_state::ended || r.state == run_state::untraced) done_[name] = r;
    all.push_back(std::move(r));
  }
  std::sort(all.begin(), all.end(), [](const process_report& a, const process_report& b) {
    return std::tie(a.rank, a.id, a.image) < std::tie(b.rank, b.id, b.image);
  });
  return all;
}

std::vector<started_process> run_status::find_others(const std::vector<process_report>& known) const {
  // Each variable ends with a zero, and one before the first makes them alike. A process that has ended, and waits for
  // its parent, has no environment.
  const std::string zero(1, '\0'), wanted = zero + "CUTRACE_RUN=" + folder_ + zero;
  const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"), &::closedir);
  std::vector<started_process> found;
  while (const dirent* entry = all != nullptr ? ::readdir(all.get()) : nullptr) {
    started_process p;
    p.id = static_cast<std::uint32_t>(std::strtoul(entry->d_name, nullptr, 10));
    const bool has_trace = std::any_of(known.begin(), known.end(), [&](const auto& k) { return k.id == p.id; });
    if (p.id == 0 || has_trace) continue;
    const std::string folder = "/proc/" + std::to_string(p.id);
    std::ostringstream environment;
    environment << zero << std::ifstream(folder + "/environ").rdbuf();
    if (environment.str().find(wanted) == std::string::npos) continue;
    std::getline(std::ifstream(folder + "/comm"), p.name);
    found.push_back(std::move(p));
  }
  return found;
}

}  // namespace cutrace_tool
