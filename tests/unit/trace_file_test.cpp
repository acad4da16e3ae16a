// SPDX-License-Identifier: Apache-2.0
// Files of text sinks: compressed ones, parts, the limit of bytes, and what happens when the system refuses to write.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cutrace/cutrace.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/gzip_file.hpp"
#if !defined(CUTRACE_WITHOUT_PERFETTO)
#include "support/perfetto_trace.hpp"
#endif
#include "support/sample_events.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_folder.hpp"

namespace trace_file_test {

namespace {

using json = nlohmann::json;
using cutrace::detail::zlib_stream;

std::unique_ptr<cutrace::sink> sink_of(const std::string& specification) {
  auto sinks = cutrace::make_sinks(specification.c_str());
  return std::move(sinks.at(0));
}

std::vector<json> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

/// Writes the events of sample::server_run() `times` times and leaves the sink open.
void write_many(cutrace::sink& to, int times) {
  const std::vector<cutrace::event> all = sample::server_run();
  for (int i = 0; i < times; ++i) to.write(sample::view(all));
}

std::vector<std::string> files_in(const temporary_folder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Texts that hardly compress. They live as long as the program.
const std::vector<std::string>& names_of_noise() {
  static const std::vector<std::string> all = [] {
    std::mt19937 random(5);
    std::vector<std::string> names(sanitized ? 10000 : 20000);
    for (std::string& name : names)
      for (int i = 0; i < 100; ++i) name += static_cast<char>('0' + random() % 64);
    return names;
  }();
  return all;
}

struct reported {
  std::vector<std::string> lines;
  static void add(const char*, const char* message, void* user) {
    static_cast<reported*>(user)->lines.emplace_back(message);
  }
};

/// Writes `marks` marks to the sinks of a specification. Where the collector lags behind, a mark waits and is not lost.
/// @returns the statistics of the session after its stop
cutrace::stats session_of(const std::string& sinks, int marks, reported& errors, void (*midway)(void*) = nullptr,
                          void* user = nullptr) {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = sinks.c_str();
  o.overflow = cutrace::overflow_policy::wait;
  o.overflow_wait_us = 60000000;
  o.on_error = reported::add;
  o.on_error_user = &errors;
  cutrace::session trace(o);
  for (int i = 0; i < marks; ++i) {
    if (i == marks / 2 && midway != nullptr) midway(user);
    CUTRACE_MARK("a mark");
  }
  trace.stop();
  return trace.stats();
}

}  // namespace

TEST_CASE("zlib's structure is the one that its header declares") {
  static_assert(sizeof(zlib_stream) == sizeof(z_stream), "deflateInit2_ compares it");
#define CUTRACE_SAME(ours, theirs)                                  \
  CHECK(offsetof(zlib_stream, ours) == offsetof(z_stream, theirs)); \
  CHECK(sizeof(std::declval<zlib_stream>().ours) == sizeof(std::declval<z_stream>().theirs))
  CUTRACE_SAME(next_in, next_in);
  CUTRACE_SAME(avail_in, avail_in);
  CUTRACE_SAME(next_out, next_out);
  CUTRACE_SAME(avail_out, avail_out);
  CUTRACE_SAME(zalloc, zalloc);
  CUTRACE_SAME(zfree, zfree);
  CUTRACE_SAME(opaque, opaque);
  CUTRACE_SAME(reserved, reserved);
#undef CUTRACE_SAME
}

TEST_CASE("zlib: a library that is missing or has no deflate cannot be used, and says why") {
  const cutrace::detail::zlib_library missing("libcutrace-has-no-such.so.1");
  CHECK_FALSE(bool(missing.end));
  CHECK(missing.reason().find("libcutrace-has-no-such.so.1") != std::string::npos);
  const cutrace::detail::zlib_library other("libc.so.6");
  CHECK_FALSE(bool(other.end));
  CHECK(other.reason() == "libc.so.6 has no deflate");
}

TEST_CASE("trace file: the number of a part stands before the extension") {
  const auto with_number = [](std::string name) { return name.insert(cutrace::detail::part_number_at(name), ".0001"); };
  CHECK(with_number("t.jsonl") == "t.0001.jsonl");
  CHECK(with_number("/a.b/t.jsonl.gz") == "/a.b/t.0001.jsonl.gz");
  CHECK(with_number("/a.b/t") == "/a.b/t.0001");
  CHECK(with_number("/a.b/.hidden") == "/a.b/.hidden.0001");
  CHECK(with_number("t.%h") == "t.%h.0001");
  CHECK(with_number("cutrace-%h-%p.jsonl") == "cutrace-%h-%p.0001.jsonl");
}

TEST_CASE("sink specs: sizes and times of files, and what is wrong with them") {
  const auto message = [](const char* word) {
    try {
      cutrace::make_sinks(word);
    } catch (const cutrace::config_error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  for (const char* fine : {"jsonl:t?rotate=64M", "calls:t?rotate=10m&keep=3", "chrome:t?rotate=1G/2h&keep=1",
                           "jsonl:t?max=100K", "calls:t?max=2G&rotate=5s"})
    CHECK(message(fine) == "no error");
  for (const char* wrong :
       {"jsonl:t?rotate=64", "jsonl:t?rotate=0M", "jsonl:t?rotate=M", "jsonl:t?rotate=-1M", "jsonl:t?rotate=10m/",
        "jsonl:t?rotate=", "jsonl:t?rotate=99999999999G", "jsonl:t?rotate=10m/64q"})
    CHECK_MESSAGE(message(wrong).find("rotate=") != std::string::npos, wrong);
  CHECK(message("jsonl:t?rotate=64m5").find("nor a time (10m; s, m or h)") != std::string::npos);
  CHECK(message("jsonl:t?keep=3").find("keep= needs rotate=") != std::string::npos);
  CHECK(message("jsonl:t?max=10m").find("max=10m is not a size") != std::string::npos);
  CHECK(message("ascii:t?rotate=64M").find("unknown option \"rotate\"") != std::string::npos);
  const auto piped = sink_of("jsonl:-?rotate=1M");
  CHECK_THROWS_WITH_AS(piped->open(sample::info()), doctest::Contains("standard output"), cutrace::config_error);
}

TEST_CASE("gzip: after each flush all whole lines can be read, though the file has no end") {
  const temporary_folder folder;
  const std::string path = folder.file("t.jsonl.gz");
  const auto sink = sink_of("jsonl:" + path);
  sink->open(sample::info());
  std::size_t flushed = 0;
  for (int i = 0; i < 20; ++i) {
    const int repeated = 1 + (sanitized ? 1 : 10) * i;
    write_many(*sink, repeated);
    const std::size_t before = content_of(path).size();
    sink->flush();
    sink->flush();  // nothing new: not a byte
    bool whole = true;
    const std::string text = unzipped(content_of(path), &whole);
    CHECK_FALSE(whole);
    CHECK(content_of(path).size() > before);
    flushed += sample::server_run().size() * static_cast<std::size_t>(repeated);
    REQUIRE(text.back() == '\n');
    CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) == flushed + 1);
  }
  sink->close(sample::summary(flushed));
  const std::vector<json> lines = lines_of(text_of_file(path));
  CHECK(lines.back()["lines"] == flushed + 1);
  CHECK(content_of(path).size() * 5 < text_of_file(path).size());
}

TEST_CASE("a JSONL file cut at any byte loads up to there, plain and compressed") {
  const temporary_folder folder;
  for (const std::string name : {"t.jsonl", "t.jsonl.gz"}) {
    const auto sink = sink_of("jsonl:" + folder.file(name));
    sink->open(sample::info());
    for (int i = 0; i < 5; ++i) {
      write_many(*sink, 1);
      sink->flush();
    }
    sink->close(sample::summary(0));
  }
  const std::string plain = content_of(folder.file("t.jsonl"));
  const std::string zipped = content_of(folder.file("t.jsonl.gz"));
  std::mt19937 random(11);
  constexpr int cuts = sanitized ? 60 : 1000;
  for (int i = 0; i < cuts; ++i) {
    const std::string cut = plain.substr(0, random() % plain.size());
    const std::size_t whole_lines = static_cast<std::size_t>(std::count(cut.begin(), cut.end(), '\n'));
    const std::size_t end = cut.rfind('\n') == std::string::npos ? 0 : cut.rfind('\n') + 1;
    REQUIRE(lines_of(cut.substr(0, end)).size() == whole_lines);
  }
  for (int i = 0; i < cuts; ++i) {
    const std::string text = unzipped(zipped.substr(0, random() % zipped.size()));
    if (text.empty()) continue;
    const std::size_t end = text.rfind('\n') + 1;  // 0 where there is none
    REQUIRE(lines_of(text.substr(0, end)).size() ==
            static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')));
  }
}

TEST_CASE("parts: each JSONL part can be read alone, and together they hold every event once") {
  for (const char* form : {"events", "paired"}) {
    for (const char* extension : {".jsonl", ".jsonl.gz"}) {
      const bool paired = form[0] == 'p';
      const temporary_folder folder;
      const auto sink =
          sink_of("jsonl:" + folder.file(std::string("t") + extension) + "?rotate=32K&form=" + std::string(form));
      sink->open(sample::info());
      std::vector<cutrace::event> all;
      for (const std::string& name : names_of_noise())
        all.push_back(sample::mark(name, static_cast<std::int64_t>(all.size())));
      const std::vector<cutrace::event> described = {sample::device(0, "NVIDIA H200"), sample::device(1, "second"),
                                                     sample::device(0, "renamed")};
      sink->write(sample::view(described));
      sink->write(sample::view(all));
      sink->close(sample::summary(all.size()));
      const std::vector<std::string> names = files_in(folder);
      REQUIRE(names.size() > 1);
      std::size_t marks = 0;
      for (std::size_t n = 0; n < names.size(); ++n) {
        const std::vector<json> lines = lines_of(text_of_file(folder.file(names[n])));
        const auto body = [&](const json& line) { return paired ? line["details"] : line; };
        REQUIRE(lines.size() > 1);
        json header = body(lines.front()), footer = body(lines.back());  // not const: [] gives null for a missing key
        CHECK(header["type"] == "header");
        CHECK(header["host"] == "node-3");
        CHECK(header["part"] == n + 1);
        CHECK(footer["type"] == "footer");
        CHECK(footer["part"] == n + 1);
        CHECK(footer["lines"] == lines.size() - 1);
        CHECK(footer.contains("produced") == (n + 1 == names.size()));
        CHECK(footer.contains("next") == (n + 1 < names.size()));
        if (n + 1 < names.size()) CHECK(footer["next"] == names[n + 1]);
        std::size_t devices = 0;
        for (const json& line : lines) {
          const json inner = body(line);
          if (paired && line["phase"] == "E") continue;
          if (inner["type"] == "device") ++devices;
          if (inner["type"] == "mark") ++marks;
        }
        CHECK(devices == (n == 0 ? 3 : 2));
        if (n + 1 < names.size()) {
          const std::size_t size = content_of(folder.file(names[n])).size();
          CHECK(size >= 32 * 1024);
          // Elsewhere the lines held back (paired) or not yet compressed (.gz) come on top of the limit.
          if (!paired && extension[6] == '\0') CHECK(size < 34 * 1024);
        }
      }
      CHECK(marks == all.size());
    }
  }
}

TEST_CASE("parts: calls and Chrome JSON, complete each") {
  const temporary_folder folder;
  constexpr std::size_t times = sanitized ? 100 : 500;
  const auto calls = sink_of("calls:" + folder.file("t.txt") + "?rotate=16K");
  const auto chrome = sink_of("chrome:" + folder.file("t.json.gz") + "?rotate=16K");
  for (cutrace::sink* s : {calls.get(), chrome.get()}) {
    s->open(sample::info());
    write_many(*s, static_cast<int>(times));
    s->close(sample::summary(0));
  }
  std::size_t headers = 0, footers = 0, lines = 0, documents = 0, kernels = 0;
  for (const std::string& name : files_in(folder)) {
    const std::string text = text_of_file(folder.file(name));
    if (name.find(".json.gz") != std::string::npos) {
      const json trace = json::parse(text);
      ++documents;
      CHECK(trace["cutracePart"] == documents);
      CHECK(trace["deviceProperties"].size() == 1);
      CHECK(trace["cutraceSummary"].contains("next") == !trace["cutraceSummary"].contains("produced"));
      CHECK(trace["traceEvents"].back()["name"] == "Record Window End");
      bool named = false;
      for (const json& e : trace["traceEvents"]) {
        if (e.value("cat", "") == "kernel" && e["name"].get<std::string>().rfind("CUDA graph", 0) != 0) ++kernels;
        named = named || e["name"] == "thread_name";
      }
      CHECK(named);
      continue;
    }
    headers += text.rfind("# cutrace ", 0) == 0;
    footers +=
        text.find("# goes on in t.") != std::string::npos || text.find(" events produced, ") != std::string::npos;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) ++lines;
  }
  CHECK(documents > 2);
  CHECK(headers > 2);
  CHECK(headers == footers);
  CHECK(lines > times * 10);
  std::size_t expected = 0;
  for (const cutrace::event& e : sample::server_run())
    if (e.kind == cutrace::event_kind::kernel) ++expected;
  CHECK(kernels >= times * expected);
}

TEST_CASE("parts: the newest ones stay, and %u gives all of them the same number") {
  const temporary_folder folder;
  std::ofstream(folder.file("t%.0001.jsonl")) << "older\n";
  const auto sink = sink_of("jsonl:" + folder.file("t%%%u.jsonl") + "?rotate=16K&keep=2");
  sink->open(sample::info());
  write_many(*sink, 300);
  sink->close(sample::summary(0));
  const std::vector<std::string> names = files_in(folder);
  REQUIRE(names.size() == 3);
  CHECK(names[0] == "t%-2." + names[1].substr(5, 4).replace(0, 4, names[0].substr(5, 4)) + ".jsonl");
  CHECK(names[2] == "t%.0001.jsonl");
  CHECK(std::stoi(names[1].substr(5, 4)) == std::stoi(names[0].substr(5, 4)) + 1);
  CHECK(std::stoi(names[0].substr(5, 4)) > 3);
  CHECK(lines_of(content_of(folder.file(names[1]))).back().contains("produced"));
}

TEST_CASE("parts: more may stay than the 1,024 whose names were once remembered, and no more do") {
  const temporary_folder folder;
  cutrace::file_limits limits;
  limits.rotate_bytes = 1024;
  limits.keep = 1440;  // a day of minutes
  limits.max_bytes = 1450;
  cutrace::detail::trace_file file;
  file.open(folder.file("t.jsonl").c_str(), cutrace::detail::publish::at_once, limits);
  for (int part = 1; part <= 1500; ++part) {
    file.write("x");
    CHECK_FALSE(file.is_full());
    file.next_part();
  }
  file.close();
  const std::vector<std::string> names = files_in(folder);
  REQUIRE(names.size() == 1440);
  CHECK(names.front() == "t.0062.jsonl");
  CHECK(names.back() == "t.1501.jsonl");
}

TEST_CASE("parts: %u takes a name of which no part is left, be it only a later one") {
  for (const std::string end : {"jsonl", "json.gz"}) {
    INFO(end);
    const temporary_folder folder;
    const std::string spec = (end == "jsonl" ? "jsonl:" : "chrome:") + folder.file("t%u." + end) + "?rotate=8K&keep=2";
    const auto write = [&](int times) {
      const auto sink = sink_of(spec);
      sink->open(sample::info());
      write_many(*sink, times);
      sink->close(sample::summary(0));
    };
    write(300);
    const std::vector<std::string> first = files_in(folder);
    REQUIRE(first.size() == 2);
    REQUIRE(first[0] != "t.0001." + end);
    const std::string before = content_of(folder.file(first[1]));
    write(300);
    const std::vector<std::string> both = files_in(folder);
    REQUIRE(both.size() == 4);
    CHECK(both[0].compare(0, 4, "t-2.") == 0);
    CHECK(both[1].compare(0, 4, "t-2.") == 0);
    CHECK(both[2] == first[0]);
    CHECK(content_of(folder.file(both[3])) == before);
  }
}

TEST_CASE("parts: by time, as soon as there is something in them") {
  const temporary_folder folder;
  const auto sink = sink_of("jsonl:" + folder.file("t.jsonl") + "?rotate=1s");
  sink->open(sample::info());
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  write_many(*sink, 1);
  while (cutrace::clock::monotonic_ns() - begin < 1100000000u) ::usleep(10000);
  sink->flush();
  CHECK(files_in(folder) == std::vector<std::string>{"t.0001.jsonl", "t.0002.jsonl"});
  sink->flush();
  sink->close(sample::summary(0));
  CHECK(files_in(folder).size() == 2);
}

TEST_CASE("parts: by time, also those that have reached the limit of bytes") {
  const temporary_folder folders[3];
  std::unique_ptr<cutrace::sink> sinks[3];
  std::uint64_t left_out[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const char* const names[] = {"jsonl", "chrome", "calls"};
    sinks[i] = sink_of(std::string(names[i]) + ":" + folders[i].file("t.txt") + "?rotate=1s&keep=1&max=16K");
    sinks[i]->open(sample::info());
    write_many(*sinks[i], 100);
    left_out[i] = sinks[i]->left_out();
    CHECK(left_out[i] != 0);
  }
  ::usleep(1100000);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO(sinks[i]->name());
    sinks[i]->flush();
    write_many(*sinks[i], 1);
    CHECK(sinks[i]->left_out() == left_out[i]);
    sinks[i]->close(sample::summary(0));
    CHECK(files_in(folders[i]) == std::vector<std::string>{"t.0002.txt"});
  }
}

TEST_CASE("a limit of bytes: what exceeds it is counted as lost, said once, and the file has its end") {
  for (const char* sink : {"jsonl", "chrome", "calls"}) {
    const temporary_folder folder;
    reported errors;
    const std::string path = folder.file("t.gz").substr(0, folder.file("t.gz").size() - 3);
    const cutrace::stats s = session_of(std::string(sink) + ":" + path + "?max=300K", 20000, errors);
    REQUIRE(s.sink_count == 1);
    const cutrace::sink_stats& one = s.sinks[0];
    CHECK(one.delivered == one.written + one.lost);
    CHECK(one.lost > 1000);
    CHECK(one.written > 1000);
    CHECK_FALSE(one.failed);
    REQUIRE(errors.lines.size() == 1);
    CHECK(errors.lines[0].find("leaves events out") != std::string::npos);
    CHECK(errors.lines[0].find("max=") != std::string::npos);
    const std::string text = content_of(path);
    CHECK(text.size() >= 300 * 1024);
    CHECK(text.size() < 310 * 1024);
    if (std::string(sink) == "jsonl") {
      const json footer = lines_of(text).back();
      CHECK(footer["sinks"][0]["lost"] == one.lost);
      CHECK(footer["lines"] == one.written + 1);
    }
    if (std::string(sink) == "chrome") {
      const json trace = json::parse(text);
      CHECK(trace["cutraceSummary"]["sinks"][0]["lost"] == one.lost);
    }
    if (std::string(sink) == "calls") CHECK(text.find(" events produced, ") != std::string::npos);
  }
}

TEST_CASE("a disk that is full: the sink fails once, loudly; the program and the other sinks go on") {
  const temporary_folder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 200 * 1024;  // the kernel sends SIGXFSZ then, which ends a program that does not expect it
  reported errors;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const cutrace::stats s = session_of("jsonl:" + folder.file("t.jsonl") + ",null", 20000, errors);
  ::setrlimit(RLIMIT_FSIZE, &before);
  REQUIRE(s.sink_count == 2);
  CHECK(s.sinks[0].failed);
  CHECK(s.sinks[0].lost > 1000);
  CHECK(s.sinks[0].delivered == s.sinks[0].written + s.sinks[0].lost);
  CHECK(s.sinks[1].lost == 0);
  REQUIRE(errors.lines.size() == 1);
  CHECK(errors.lines[0].find("File too large") != std::string::npos);
  const std::string text = content_of(folder.file("t.jsonl"));
  CHECK(lines_of(text.substr(0, text.rfind('\n') + 1)).size() > 500);
}

TEST_CASE("a write that fails: what stands whole in the file counts as written, all else as lost") {
  const auto count = [](const std::string& text, const std::string& one) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(one, at)) != std::string::npos; at += one.size()) ++n;
    return n;
  };
  struct format {
    const char *sink, *extension, *options;
    const char* in_each;  ///< text that the file has once for each mark; nullptr: binary (Perfetto)
  };
  for (const format& f : {
         format{"jsonl", ".jsonl", "", "\"type\":\"mark\""},
             format{"jsonl", ".jsonl", "?form=paired", "\"phase\":\"E\",\"name\":\"a mark\""},
             format{"jsonl", ".jsonl.gz", "", "\"type\":\"mark\""}, format{"calls", ".txt", "", "a mark"},
             format{"calls", ".txt.gz", "", "a mark"}, format{"chrome", ".json", "", "\"a mark\""},
             format{"chrome", ".json.gz", "", "\"a mark\""},
#if !defined(CUTRACE_WITHOUT_PERFETTO)
             format{"perfetto", ".pftrace", "", nullptr}, format{"perfetto", ".pftrace.gz", "", nullptr},
#endif
             format {
           "jsonl", ".jsonl", "?rotate=50K&keep=9", "\"type\":\"mark\""
         }
       }) {
    const std::string specification = std::string(f.extension) + f.options;
    INFO(specification);
    const temporary_folder folder;
    const bool zipped = std::string(f.extension).find(".gz") != std::string::npos;
    const bool parts = std::string(f.options).find("rotate") != std::string::npos;
    const int marks = zipped ? 400000 : 20000;
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    rlimit small = before;
    // zlib gets 256 KiB at once. The limit must leave room for that much when compressed, so that some marks arrive.
    // Perfetto's packets compress less well than text. How small a file becomes depends on the distances of the marks
    // in time: on an idle machine the text of the calls takes 100 KB and Perfetto's file 170 KB, more on a busy one.
    small.rlim_cur = zipped ? (f.in_each == nullptr ? 50000 : 25000) : parts ? 40000 : 200000;
    reported errors;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const cutrace::stats s = session_of(std::string(f.sink) + ":" + folder.file("t") + specification, marks, errors);
    ::setrlimit(RLIMIT_FSIZE, &before);
    REQUIRE(s.sink_count == 1);
    const cutrace::sink_stats& one = s.sinks[0];
    CHECK(one.failed);
    CHECK(one.delivered == one.written + one.lost);
    REQUIRE(one.delivered >= static_cast<std::uint64_t>(marks));
    const std::uint64_t others = one.delivered - static_cast<std::uint64_t>(marks);  // the process and its threads
    CHECK(others < 20);
    CHECK(one.lost > 1000);
    CHECK(one.written > 200);
    REQUIRE(files_in(folder).size() == 1);
    std::string text = content_of(folder.file(files_in(folder)[0]));
    if (zipped) text = unzipped(text);
    std::uint64_t whole = 0;
    if (f.in_each != nullptr) {
      text.resize(text.rfind('\n') + 1);
      whole = count(text, f.in_each);
    }
#if !defined(CUTRACE_WITHOUT_PERFETTO)
    if (f.in_each == nullptr) {
      const perfetto_trace::trace t(text);
      for (const perfetto_trace::instant& i : t.instants) whole += i.name == "a mark";
    }
#endif
    CHECK(one.written <= whole + others);
    if (!zipped) CHECK(one.written >= whole);
    if (!zipped && f.in_each != nullptr && f.in_each[1] == 't') CHECK(one.written == count(text, "\n") - 1);
  }
}

TEST_CASE("a full disk, seen with the first write: nothing counts as written") {
  const temporary_folder folder;
  const std::string gz = folder.file("full.gz");
  REQUIRE(::symlink("/dev/full", gz.c_str()) == 0);
  for (const std::string& sink : {
         std::string("jsonl:/dev/full"), "jsonl:" + gz, std::string("calls:/dev/full"), std::string("chrome:/dev/full"),
             std::string("ascii:/dev/full"), std::string("prometheus:/dev/full"),
#if !defined(CUTRACE_WITHOUT_HTML)
             std::string("html:/dev/full"),
#endif
#if !defined(CUTRACE_WITHOUT_PERFETTO)
             std::string("perfetto:/dev/full"), "perfetto:" + gz,
#endif
       }) {
    INFO(sink);
    reported errors;
    const cutrace::stats s = session_of(sink + ",null", 200, errors);
    CHECK(s.sinks[0].failed);
    CHECK(s.sinks[0].delivered >= 200);
    CHECK(s.sinks[0].written == 0);
    CHECK(s.sinks[0].lost == s.sinks[0].delivered);
    CHECK(s.sinks[1].lost == 0);
  }
}

TEST_CASE("the program changes its folder: all of a sink's files stay where it was opened, and others are left alone") {
  const temporary_folder begin, later;
  const auto names_at_end = [&](const std::string& specification, const std::vector<std::string>& others) {
    for (const std::string& name : files_in(begin)) std::filesystem::remove(begin.file(name));
    for (const std::string& name : files_in(later)) std::filesystem::remove(later.file(name));
    for (const std::string& name : others) std::ofstream(later.file(name)) << "the program's own";
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(begin.path());
    {
      const auto sink = sink_of(specification);
      sink->open(sample::info());
      std::filesystem::current_path(later.path());
      for (int i = 0; i < 10; ++i) {
        write_many(*sink, 50);
        sink->flush();
      }
      sink->close(sample::summary(0));
    }
    std::filesystem::current_path(before);
    CHECK(files_in(later) == others);
    for (const std::string& name : others) CHECK(content_of(later.file(name)) == "the program's own");
    return files_in(begin);
  };
  CHECK(names_at_end("chrome:t.json", {"t.json", "t.json.tmp"}) == std::vector<std::string>{"t.json"});
  CHECK(names_at_end("ascii:./t.txt", {"t.txt", "t.txt.tmp"}) == std::vector<std::string>{"t.txt"});
  CHECK(names_at_end("prometheus:t.prom", {"t.prom", "t.prom.tmp"}) == std::vector<std::string>{"t.prom"});
#if !defined(CUTRACE_WITHOUT_HTML)
  CHECK(names_at_end("html:t.html", {"t.html", "t.html.tmp"}) == std::vector<std::string>{"t.html"});
#endif
  CHECK(names_at_end("jsonl:t.jsonl?rotate=16K&keep=2", {"t.0001.jsonl", "t.0002.jsonl"}).size() == 2);
  CHECK(names_at_end("calls:./t.txt?rotate=16K&keep=2", {"t.0001.txt", "t.0002.txt"}).size() == 2);
  CHECK(names_at_end("chrome:t.json.gz?rotate=8K&keep=2", {"t.0001.json.gz", "t.0002.json.gz.tmp"}).size() == 2);
#if !defined(CUTRACE_WITHOUT_PERFETTO)
  CHECK(names_at_end("perfetto:t.pftrace?rotate=16K&keep=2", {"t.0001.pftrace", "t.0002.pftrace"}).size() == 2);
#endif
}

TEST_CASE("gzip: a file that a flush could not write is open no more, with and without the thread that compresses") {
  const temporary_folder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  for (const std::size_t first : {std::size_t(100), std::size_t(300000)}) {  // above 256 KiB a worker thread compresses
    CAPTURE(first);
    cutrace::detail::trace_file file;
    file.open(folder.file("t.gz").c_str());
    file.write(std::string(first, 'x'));
    file.flush();
    CHECK(file.is_open());
    file.write(std::string(1000, 'y'));
    rlimit small = before;
    small.rlim_cur = 1;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK_THROWS_AS(file.flush(), cutrace::error);
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK_FALSE(file.is_open());
    CHECK_NOTHROW(file.close());
  }
}

TEST_CASE("a pipe whose reader leaves ends its sink, not the program") {
  for (const char* word : {"jsonl:%?form=events", "calls:%", "chrome:%", "jsonl:%.gz"}) {
    const temporary_folder folder;
    std::string specification = word;
    const std::string path = folder.file("pipe") + (specification.find(".gz") != std::string::npos ? ".gz" : "");
    specification = specification.substr(0, specification.find('%')) + path +
                    (specification.find('?') != std::string::npos ? "?form=events" : "");
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    reported errors;
    const cutrace::stats s = session_of(
        specification + ",null", 200, errors, [](void* fd) { ::close(*static_cast<int*>(fd)); }, &reader);
    CHECK(s.sinks[0].failed);
    CHECK(s.sinks[1].lost == 0);
    REQUIRE(errors.lines.size() == 1);
    CHECK(errors.lines[0].find("Broken pipe") != std::string::npos);
  }
}

TEST_CASE("gzip: a child that is forked while the worker works leaves the file to its parent") {
  const temporary_folder folder;
  auto sink = sink_of("jsonl:" + folder.file("t.jsonl.gz"));
  sink->open(sample::info());
  write_many(*sink, 2000);  // megabytes: the worker has begun
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    sink.reset();
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  write_many(*sink, 100);
  sink->close(sample::summary(0));
  const std::string text = text_of_file(folder.file("t.jsonl.gz"));
  const std::size_t lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  CHECK(lines == 2100 * sample::server_run().size() + 2);
}

}  // namespace trace_file_test
