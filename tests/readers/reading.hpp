// SPDX-License-Identifier: Apache-2.0
// What the tests of readers share: files written by sinks, read back into sinks.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cutrace/analysis/category.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/memory.hpp>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "support/gzip_file.hpp"
#include "support/hostile_events.hpp"
#include "support/random_events.hpp"
#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"
#include "trace/trace_reader.hpp"

namespace reading_test {

using events = std::vector<cutrace::event>;
using cutrace_reading::outcome;

/// A sink's whole life.
inline void write(cutrace::sink& to, const events& all, const cutrace::trace_info& info = sample::info(),
                  std::uint64_t lost = 12) {
  to.open(info);
  for (std::size_t at = 0; at < all.size(); at += 100) {
    to.write({all.data() + at, std::min<std::size_t>(100, all.size() - at)});
  }
  to.close(sample::summary(all.size(), lost));
}

template <class Sink>
std::string written_by(const events& all) {
  const temporary_folder folder;
  Sink sink(folder.file("t"));
  write(sink, all);
  return content_of(folder.file("t"));
}

/// A text that lives as long as the program.
inline cutrace::text keep(const std::string& s) {
  static std::set<std::string> all;
  return s.empty() ? cutrace::text{} : sample::text_of(*all.insert(s).first);
}

/// Takes away what neither Chrome JSON nor a Perfetto trace keeps of an event.
inline void lose_common(cutrace::event& e) {
  switch (e.kind) {
    case cutrace::event_kind::stage:
      e.stage.file = {};
      e.stage.line = 0;
      break;
    case cutrace::event_kind::nvtx:  // as ranges of NVTX that became stages
      e.kind = cutrace::event_kind::stage;
      e.stage_name = e.name;
      break;
    case cutrace::event_kind::api:
      e.api.bytes = 0;
      e.api.direction = cutrace::copy_direction::unknown;
      if (e.api.result == 0) e.api.result_name = {};
      break;
    case cutrace::event_kind::sync:
      e.name = keep(cutrace::name_of_wait(e.sync.what));
      break;
    case cutrace::event_kind::memory:
      e.name = {};
      e.correlation_id = 0;
      e.joined = cutrace::attribution::none;
      e.context = 0;
      e.stream = 0;
      if (!cutrace::analysis::in_host_memory(e)) e.memory.memory = cutrace::memory_kind::unknown;
      break;
    case cutrace::event_kind::memcpy:
      e.name = keep(std::string("memcpy ") + to_string(e.memcpy_.direction));
      break;
    case cutrace::event_kind::memset:
      e.name = keep("memset");
      break;
    case cutrace::event_kind::graph_launch:
      e.name = {};
      break;
    case cutrace::event_kind::counter:
      e.counter.gauge = false;
      break;
    case cutrace::event_kind::loss:
      e.name = keep("lost records");
      break;
    case cutrace::event_kind::overhead:
    case cutrace::event_kind::window:
      e.thread_id = 0;
      break;
    default:
      break;
  }
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Memory, and what the trace says of itself.
struct kept_trace : cutrace::memory_sink {
  kept_trace() : memory_sink(std::size_t{1} << 30) {}
  void open(const cutrace::trace_info& i) override {
    info = i;
    process = i.process_name;
    ++opened;
  }
  void close(const cutrace::trace_summary& s) override {
    memory_sink::close(s);
    stop = s.stop;
    ++ends;
  }
  cutrace::trace_info info{};
  cutrace::clock_anchor stop{};
  std::string process;
  int opened = 0, ends = 0;
};

/// As canonical JSONL, without header and footer: what the comparison of events means by "the same".
inline std::vector<std::string> lines_of(const events& all) {
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"));
  write(sink, all);
  std::istringstream in(content_of(folder.file("t.jsonl")));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return std::vector<std::string>(lines.begin() + 1, lines.end() - 1);
}

inline void check_same(const events& read, const events& expected) {
  const std::vector<std::string> a = lines_of(read), b = lines_of(expected);
  CHECK(a.size() == b.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i] || ++different > 3) continue;
    CHECK_MESSAGE(a[i].substr(0, 2000) == b[i].substr(0, 2000), "event ", i);
  }
  CHECK(different == 0);
}

inline bool complains(const outcome& o, const std::string& words) {
  for (const cutrace_reading::complaint& c : o.problems.kinds())
    if (c.what.find(words) != std::string::npos) return true;
  return false;
}
inline std::string all_complaints(const outcome& o) {
  std::string all;
  for (const cutrace_reading::complaint& c : o.problems.kinds()) all += sentence_of(c) + "\n";
  return all;
}

inline events late_marked(events all) {
  random_trace::mark_late(all);
  return all;
}

}  // namespace reading_test
