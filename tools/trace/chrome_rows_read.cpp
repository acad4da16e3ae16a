// SPDX-License-Identifier: Apache-2.0
#include "trace/chrome_rows_read.hpp"

#include <charconv>

#include "trace/input.hpp"
#include "trace/json_arguments.hpp"
#include "trace/json_splitter.hpp"
#include "trace/json_value.hpp"
#include "trace/words.hpp"

namespace cutrace_reading {

using cutrace::event_kind;

namespace {

constexpr std::string_view metadata = "{\"ph\":\"M\"", device = "{\"id\":";

}  // namespace

/// The sink writes each name on a separate line, all names together at the end of the file.
void chrome_row_names::look_through(const std::string& path) {
  input in(path);
  byte_window window(in);
  std::uint64_t tail = std::uint64_t{4} << 20;
  while (true) {
    bool from_the_middle = in.can_seek() && in.size() > tail;
    if (in.can_seek()) {
      in.go_to(from_the_middle ? in.size() - tail : 0);
      window.start_at(0);
    }
    bool first = true, too_short = false;
    std::size_t looked_at = 0;  // no line ends before here
    while (true) {
      const auto* newline =
          static_cast<const char*>(std::memchr(window.data() + looked_at, '\n', window.size() - looked_at));
      if (newline == nullptr) {
        if (window.size() > json_splitter::piece_limit) window.drop(window.size());
        looked_at = window.size();
        if (!window.more()) break;
        continue;
      }
      looked_at = 0;
      const std::string_view line(window.data(), static_cast<std::size_t>(newline - window.data()));
      // The first whole line is a name: names may begin before the part that is looked at.
      if (from_the_middle && !first && starts_with(line, metadata)) {
        too_short = tail < std::uint64_t{1} << 30;
        from_the_middle = false;
      } else if (from_the_middle && !first) {
        from_the_middle = false;
      }
      if (too_short) break;
      if (!first || !in.can_seek() || in.size() <= tail) read_line(line);
      first = false;
      window.drop(line.size() + 1);
    }
    if (!too_short) return;
    tail *= 4;
  }
}

void chrome_row_names::read_line(std::string_view line) {
  while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.remove_suffix(1);
  if (starts_with(line, device)) {
    add_device(line);
    return;
  }
  if (!starts_with(line, metadata)) return;
  line_.assign(line);
  line_.resize(line.size() + byte_window::padding);
  simdjson::ondemand::document document;
  json_object object;
  if (parser_.iterate(simdjson::padded_string_view(line_.data(), line.size(), line_.size())).get(document) !=
          simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS)
    return;  // the reader will say so
  std::uint64_t pid = 0, tid = 0;
  std::string what, value;
  for (auto result : object) {
    simdjson::ondemand::field f;
    if (std::move(result).get(f) != simdjson::SUCCESS) return;
    const std::string_view key = raw_key(f);
    std::string_view text;
    if (key == "pid") static_cast<void>(read_unsigned(f.value(), pid));
    if (key == "tid") static_cast<void>(read_unsigned(f.value(), tid));
    if (key == "name" && read_text(f.value(), text) == value_state::good) what = text;
    json_object args;
    if (key != "args" || f.value().get_object().get(args) != simdjson::SUCCESS) continue;
    for (auto inner : args) {
      simdjson::ondemand::field a;
      if (std::move(inner).get(a) != simdjson::SUCCESS) return;
      const std::string_view name = raw_key(a);
      if ((name == "name" || name == "labels") && read_text(a.value(), text) == value_state::good) value = text;
    }
  }
  add(pid, tid, what, value);
}

template <class Key>
void chrome_row_names::set(std::map<Key, std::string>& all, const Key& key, std::string_view value) {
  std::string& to = all[key];
  bytes_.add(value.size() + (to.empty() ? sizeof(std::string) + 64 : 0));
  bytes_.remove(to.size());
  to = value;
}

void chrome_row_names::add(std::uint64_t pid, std::uint64_t tid, std::string_view what, std::string_view value) {
  if (rows_.size() > row_limit || processes_.size() > row_limit) return;
  if (what == "process_name") set(processes_, pid, value);
  if (what == "process_labels") {
    set(labels_, pid, value);
    if (starts_with(value, "CPU") && host_ == 0) host_ = host_process(pid);
  }
  if (what != "thread_name") return;
  set(rows_, {pid, tid}, value);
  if (starts_with(value, "spans")) spans_.insert({pid, tid});
}

/// "thread 42 (worker)", and "thread 42 (worker) (2)" of further lanes (rows for slices that overlap).
bool chrome_row_names::thread_of(std::uint64_t pid, std::uint64_t tid, std::uint32_t& thread) const {
  constexpr std::string_view word = "thread ";
  const auto at = rows_.find({pid, tid});
  if (at == rows_.end()) {
    thread = tid < first_free_tid ? static_cast<std::uint32_t>(tid) : 0;
    return tid < first_free_tid;
  }
  const std::string& name = at->second;
  thread = 0;
  if (!starts_with(name, word)) return false;
  const auto r = std::from_chars(name.data() + word.size(), name.data() + name.size(), thread);
  return r.ec == std::errc();
}

bool chrome_row_names::add_device(std::string_view json) {
  if (devices_.size() > 4096) return true;
  line_.assign(json);
  line_.resize(json.size() + byte_window::padding);
  simdjson::ondemand::document document;
  json_object object;
  if (parser_.iterate(simdjson::padded_string_view(line_.data(), json.size(), line_.size())).get(document) !=
          simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS)
    return false;
  cutrace::event e;
  e.kind = event_kind::device;
  cutrace::device_data& d = e.device_;
  for (auto result : object) {
    simdjson::ondemand::field f;
    if (std::move(result).get(f) != simdjson::SUCCESS) return false;
    const std::string_view key = raw_key(f);
    json_value& v = f.value();
    std::string_view text;
    value_state state = value_state::good;
    switch (word_key(key)) {
      case word_key("id"):
        state = read_unsigned(v, e.device);
        break;
      case word_key("name"):
        state = read_text(v, text);
        e.name = to_.texts().intern(text);
        break;
      case word_key("totalGlobalMem"):
        state = read_unsigned(v, d.memory_bytes);
        break;
      case word_key("computeMajor"):
        state = read_unsigned(v, d.compute_major);
        break;
      case word_key("computeMinor"):
        state = read_unsigned(v, d.compute_minor);
        break;
      case word_key("numSms"):
        state = read_unsigned(v, d.multiprocessors);
        break;
      case word_key("memory_bandwidth_bytes_per_s"):
        state = read_unsigned(v, d.memory_bandwidth_bytes_per_s);
        break;
      case word_key("core_clock_khz"):
        state = read_unsigned(v, d.core_clock_khz);
        break;
      case word_key("uuid"):
        state = read_uuid(v, d.uuid);
        break;
      default:
        break;  // limits that follow from the compute capability
    }
    if (state != value_state::good) return false;
  }
  devices_.push_back(e);
  return true;
}

void chrome_row_names::deliver(const cutrace::event& e, place at) {
  if (delivered_.size() > row_limit ||
      !delivered_.emplace(e.kind, e.process_id, e.thread_id, e.device, e.name.data).second)
    return;
  bytes_.add(96);
  to_.begin() = e;
  to_.add(at);
}

void chrome_row_names::describe(place at) {
  for (const auto& p : processes_) {
    const auto label = labels_.find(p.first);
    const bool is_gpu = label != labels_.end() ? starts_with(label->second, "GPU") : p.first < 64;
    const bool made_up = p.second == "process " + std::to_string(host_process(p.first));
    if (is_gpu || made_up || p.second.empty()) continue;
    cutrace::event e;
    e.kind = event_kind::process;
    e.process_id = host_process(p.first);
    e.name = to_.texts().intern(p.second);
    deliver(e, at);
  }
  for (const auto& r : rows_) {
    // Only the first lane, and only what has a name of its own.
    const std::uint64_t pid = r.first.first, tid = r.first.second;
    std::uint32_t thread = 0;
    const auto label = labels_.find(pid);
    if ((label != labels_.end() && starts_with(label->second, "GPU")) || !thread_of(pid, tid, thread) || tid != thread)
      continue;
    const std::size_t open = r.second.find(" (");
    if (open == std::string::npos || r.second.back() != ')') continue;
    cutrace::event e;
    e.kind = event_kind::thread;
    e.process_id = host_process(pid);
    e.thread_id = thread;
    e.name = to_.texts().intern(std::string_view(r.second).substr(open + 2, r.second.size() - open - 3));
    deliver(e, at);
  }
  for (cutrace::event e : devices_) {
    e.process_id = host_;
    deliver(e, at);
  }
}

}  // namespace cutrace_reading
