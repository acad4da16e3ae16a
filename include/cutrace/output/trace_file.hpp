// SPDX-License-Identifier: Apache-2.0
// What a sink of text writes to: one file, or numbered parts of it, compressed where the name ends in ".gz", within a
// limit of bytes. When a part is full the sink ends it and begins the next one, since only the sink knows what each
// must hold to be read alone. One thread at a time.
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cutrace/clock.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/output/block_worker.hpp>
#include <cutrace/output/gzip.hpp>
#include <cutrace/output/output_file.hpp>
#include <cutrace/output/path_pattern.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

CUTRACE_BEGIN_NAMESPACE

/// Of a sink's file. 0: no limit.
struct file_limits {
  std::uint64_t rotate_bytes = 0;  ///< size at which a part ends and the next one begins
  std::uint64_t rotate_ns = 0;     ///< time after which it does
  std::uint32_t keep = 0;          ///< newest parts that stay
  std::uint64_t max_bytes = 0;     ///< of all parts that exist; events that come then are left out, and counted

  bool parts() const noexcept { return rotate_bytes != 0 || rotate_ns != 0; }
};

namespace detail {

inline bool ends_in_gz(std::string_view path) noexcept {
  return path.size() > 3 && path.substr(path.size() - 3) == ".gz";
}

/// "t.jsonl.gz" -> 1: where ".0001" goes in the name of a part, before its extension. An extension that holds
/// a % pattern does not count as one.
inline std::size_t part_number_at(std::string_view name) noexcept {
  const std::size_t folder = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  std::string_view stem = name;
  if (ends_in_gz(stem)) stem.remove_suffix(3);
  const std::size_t dot = stem.rfind('.');
  if (dot == std::string_view::npos || dot <= folder || name.find('%', dot) != std::string_view::npos)
    return stem.size();
  return dot;
}

/// The parts of a trace that are files now. Those of an earlier trace of this name that come behind do not count.
struct trace_parts {
  std::string newest;  ///< path
  std::size_t count = 0;
  std::uint64_t bytes = 0;

  /// `first`: path of the first part, which need not be there any more; `behind`: its characters behind the number.
  CUTRACE_NOINLINE static trace_parts find(const std::string& first, std::size_t behind) {
    struct part {
      std::int64_t written_s, written_ns;
      unsigned long long number;
      std::uint64_t bytes;
      std::string path;
      bool operator<(const part& p) const noexcept {
        return std::tie(written_s, written_ns, number) < std::tie(p.written_s, p.written_ns, p.number);
      }
    };
    std::vector<part> all;
    const std::size_t name_at = first.rfind('/') + 1, number_at = first.size() - behind - 4;
    const std::string folder = first.substr(0, name_at), end = first.substr(number_at + 4);
    const std::string begin = first.substr(name_at, number_at - name_at);
    const std::unique_ptr<DIR, int (*)(DIR*)> files(::opendir(folder.c_str()), &::closedir);
    while (const dirent* const entry = files != nullptr ? ::readdir(files.get()) : nullptr) {
      const std::string_view name = entry->d_name;
      if (name.substr(0, begin.size()) != begin) continue;
      const std::string_view rest = name.substr(begin.size());
      const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
      const std::string path = folder + entry->d_name;
      struct stat s {};
      if (digits < 4 || (rest.substr(digits) != end && rest.substr(digits) != end + ".tmp") ||
          ::stat(path.c_str(), &s) != 0)
        continue;
      all.push_back({s.st_mtim.tv_sec, s.st_mtim.tv_nsec, std::strtoull(rest.data(), nullptr, 10),
                     static_cast<std::uint64_t>(s.st_size), path});
    }
    trace_parts found;
    if (all.empty()) return found;
    const part& last = *std::max_element(all.begin(), all.end());
    found.newest = last.path;
    for (const part& p : all) {
      if (p.number > last.number) continue;
      ++found.count;
      found.bytes += p.bytes;
    }
    return found;
  }
  /// Those of the trace whose first part has this path; none where the path is not of a part.
  static trace_parts of(const std::string& path) {
    const std::size_t at = part_number_at(path);
    return at > 5 && path.compare(at - 5, 5, ".0001") == 0 ? find(path, path.size() - at) : trace_parts();
  }
  /// What `newest` is, in words, where `count` parts are there.
  static std::string newest_of(std::size_t count) {
    return count == 1 ? "the only part that is left" : "the newest of " + std::to_string(count) + " parts";
  }
};

class trace_file {
 public:
  /// As output_file::open. Sizes are those on the disk, so compressed ones of a compressed file. @throws error,
  /// config_error
  void open(const char* pattern, publish when = publish::at_once, const file_limits& limits = {}) {
    limits_ = limits;
    when_ = when;
    part_ = 1;
    parts_.clear();
    others_bytes_ = left_out_ = arrived_ = 0;
    ends_.clear();
    std::string name = pattern;
    const std::size_t at = part_number_at(name);
    behind_number_ = name.size() - at;
    if (limits.parts()) {
      if (name == "-") throw config_error("standard output cannot be rotated; name a file");
      name.insert(at, number(1));
    }
    // The first part of another trace may be gone, its later ones are its own all the same.
    const auto has_parts = [this](const std::string& path) {
      return trace_parts::find(path, behind_number_).count != 0;
    };
    file_.open(name.c_str(), when, limits.parts() ? has_parts : std::function<bool(const std::string&)>());
    begin();
  }

  void adopt(int fd, const char* description) {
    limits_ = {};
    arrived_ = 0;
    ends_.clear();
    file_.adopt(fd, description);
    begin();
  }

  void write(std::string_view text) {
    given_ += text.size();
    if (!zipped_.started()) {
      add_bytes(text.size());
      return file_.write(text);
    }
    unzipped_.append(text.data(), text.size());
    if (CUTRACE_UNLIKELY(unzipped_.size() >= zip_at_once)) zip_elsewhere();
  }
  /// As output_file::write_blocks.
  std::size_t write_blocks(std::string_view text) {
    if (zipped_.started()) {
      write(text);
      return text.size();
    }
    const std::size_t n = file_.write_blocks(text);
    add_bytes(n);
    given_ += n;
    return n;
  }

  /// An event is complete with the text so far and `held` more bytes, which the sink has not given yet.
  CUTRACE_INLINE void event_ends(std::size_t held = 0) {
    if (CUTRACE_UNLIKELY(ends_.size() == ends_.capacity())) make_room_for_ends();
    ends_.push_back(given_ + held);
  }
  /// For sink::arrived: events of `event_ends` that the file holds whole, or a pipe has taken. Compressed events that
  /// were handed to zlib together arrive together.
  std::uint64_t arrived() const noexcept {
    const std::uint64_t at = compressed_ ? zipped_given_.load(std::memory_order_acquire) : file_.position();
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), at);
    return arrived_ + static_cast<std::uint64_t>(end - ends_.begin());
  }

  /// Makes all whole lines readable, compressed ones too.
  void flush() {
    if (zipped_.started()) zip_here();
    file_.flush();
  }

  /// Ends the file, or its last part.
  void close() {
    if (!is_open()) return;
    if (zipped_.started()) {
      zip_here();
      worker_.reset();
      zipped_.finish([this](std::string_view bytes) { put(bytes); });
    }
    file_.close();
  }

  /// Should the sink end this part and call next_part? `held`: bytes that it has not given yet. Costs one comparison.
  bool part_is_full(std::size_t held = 0) const noexcept { return bytes() + held >= part_limit_; }
  /// Should the sink end this part for its age, whatever its size? Reads the clock.
  bool part_is_old() const noexcept {
    return limits_.rotate_ns != 0 && clock::monotonic_ns() - begun_ns_ >= limits_.rotate_ns;
  }
  /// Must the sink leave events out?
  bool is_full(std::size_t held = 0) const noexcept { return bytes() + held >= file_limit_; }

  /// Ends this part, which stands complete then, opens the next one and removes those that are too old.
  void next_part() {
    const std::string path = file_.path();
    close();
    arrived_ += ends_.size();
    ends_.clear();
    others_bytes_ += bytes();
    if (limits_.keep != 0) parts_.push_back(bytes());
    if (limits_.keep != 0 && parts_.size() >= limits_.keep) {
      ::unlink(path_of_part(path, part_ + 1 - static_cast<std::uint32_t>(parts_.size())).c_str());
      others_bytes_ -= parts_.front();
      parts_.pop_front();
    }
    file_.open(pattern_of_path(path_of_part(path, part_ + 1)).c_str(), when_);
    ++part_;
    begin();
  }

  /// Can it become full, or a part of it?
  bool has_limits() const noexcept { return limits_.parts() || limits_.max_bytes != 0; }

  /// For sink::left_out: counts events that came when `is_full`.
  void leave_out(std::uint64_t events) noexcept { left_out_ += events; }
  std::uint64_t left_out() const noexcept { return left_out_; }
  const char* left_out_because() const noexcept { return "the file has reached its limit (max=)"; }

  /// False after a failure. While there is a worker, file_ belongs to its thread and is not asked.
  bool is_open() const noexcept { return worker_ != nullptr || file_.is_open(); }
  const std::string& path() const noexcept { return file_.path(); }
  /// Bytes of this part that were given, before compression.
  std::uint64_t written() const noexcept { return given_; }
  bool is_compressed() const noexcept { return compressed_; }
  bool has_parts() const noexcept { return limits_.parts(); }
  std::uint32_t part() const noexcept { return part_; }
  /// Name of the next part, without its folder.
  std::string next_name() const {
    const std::string next = path_of_part(file_.path(), part_ + 1);
    return next.substr(next.rfind('/') + 1);
  }

 private:
  static constexpr std::size_t zip_at_once = 256 * 1024;

  static std::string number(std::uint32_t part) {
    char text[16];
    std::snprintf(text, sizeof(text), ".%04u", static_cast<unsigned>(part));
    return text;
  }
  /// `path`: of this part.
  std::string path_of_part(std::string path, std::uint32_t part) const {
    const std::size_t size = number(part_).size();
    return path.replace(path.size() - behind_number_ - size, size, number(part));
  }

  void begin() {
    bytes_.store(0, std::memory_order_relaxed);
    given_ = 0;
    worker_.reset();
    unzipped_.clear();
    zipped_.stop();
    zipped_given_.store(0, std::memory_order_relaxed);
    compressed_ = ends_in_gz(file_.path());
    part_limit_ = limits_.rotate_bytes != 0 ? limits_.rotate_bytes : UINT64_MAX;
    file_limit_ = limits_.max_bytes == 0
                      ? UINT64_MAX
                      : limits_.max_bytes - (others_bytes_ < limits_.max_bytes ? others_bytes_ : limits_.max_bytes);
    if (limits_.rotate_ns != 0) begun_ns_ = clock::monotonic_ns();
    if (compressed_) zipped_.start(file_.path());
  }
  /// Problem: compressing takes four times as long as making the text, and the collector would take a fourth of the
  /// events a second. Solution: a worker does it, once there is enough to do; short files never start one.
  CUTRACE_NOINLINE void zip_elsewhere() {
    if (worker_ == nullptr) worker_.reset(new block_worker([this](const std::string& block) { zip(block); }));
    checked([this] { worker_->hand(unzipped_); });
  }
  /// Compresses everything so far; afterwards the worker is idle.
  void zip_here() {
    checked([this] {
      if (worker_ != nullptr) worker_->wait();
      if (!unzipped_.empty()) zip(unzipped_);
    });
    unzipped_.clear();
  }
  /// Compresses to the file at once, so that it is known which text can be read whatever happens later. The marker of a
  /// sync costs five bytes, where a compressed block has some tens of thousands. By one thread at a time.
  void zip(const std::string& text) {
    const auto to_file = [this](std::string_view bytes) { put(bytes); };
    zipped_.add(text, to_file);
    zipped_.sync(to_file);
    file_.flush();
    zipped_given_.store(zipped_given_.load(std::memory_order_relaxed) + text.size(), std::memory_order_release);
  }
  /// Forgets events that have arrived. What is left is bounded by what buffers hold.
  CUTRACE_NOINLINE void make_room_for_ends() {
    const std::uint64_t before = arrived_;
    arrived_ = arrived();
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(arrived_ - before));
    if (ends_.size() >= ends_.capacity() / 2) ends_.reserve(std::max<std::size_t>(1024, 2 * ends_.capacity()));
  }
  /// Destroys the worker after a failure to write, which has closed the file already.
  template <class Action>
  void checked(Action action) {
    try {
      action();
    } catch (...) {
      worker_.reset();
      throw;
    }
  }
  void put(std::string_view bytes) {
    add_bytes(bytes.size());
    file_.write(bytes);
  }
  /// By one thread at a time.
  void add_bytes(std::size_t n) noexcept {
    bytes_.store(bytes_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  file_limits limits_;
  publish when_ = publish::at_once;
  output_file file_;
  gzip_text zipped_;
  bool compressed_ = false;
  std::vector<std::uint64_t> ends_;  ///< of events that may not have arrived: the text of this part up to there
  std::uint64_t arrived_ = 0;        ///< events that have, and are not in ends_
  std::atomic<std::uint64_t> zipped_given_{0};  ///< text of this part that the file holds compressed
  std::string unzipped_;                        ///< on its way to zipped_
  std::atomic<std::uint64_t> bytes_{0};         ///< of this part, on the disk; a worker adds to them, too
  std::uint64_t given_ = 0;                     ///< of this part, before compression
  std::uint64_t part_limit_ = UINT64_MAX;
  std::uint64_t file_limit_ = UINT64_MAX;
  std::uint64_t others_bytes_ = 0;  ///< of the parts before this one that exist
  std::uint64_t begun_ns_ = 0;
  std::uint64_t left_out_ = 0;
  std::uint32_t part_ = 1;
  std::size_t behind_number_ = 0;    ///< characters of the path behind a part's number
  std::deque<std::uint64_t> parts_;  ///< bytes of the parts before this one that stay, where `keep` says how many
  block_worker::owner worker_;       ///< last: it uses the file
};

}  // namespace detail
CUTRACE_END_NAMESPACE
