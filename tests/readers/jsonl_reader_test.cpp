// SPDX-License-Identifier: Apache-2.0
// JSONL keeps everything: what is read and written again is the same file, byte by byte.
#include <algorithm>
#include <cstring>
#include <cutrace/sinks/chrome.hpp>
#include <fstream>
#include <random>
#include <string>

#include "reading.hpp"
#include "trace/feed.hpp"

namespace jsonl_reader_test {

using namespace reading_test;

namespace {

void check_round_trip(const events& all, cutrace::jsonl_form form, const std::string& extension) {
  const temporary_folder folder;
  const std::string from = folder.file("from" + extension), again = folder.file("again.jsonl");
  cutrace::jsonl_options options;
  options.form = form;
  cutrace::jsonl_sink first(from, options);
  write(first, all);
  cutrace::jsonl_sink second(again);
  const outcome o = cutrace_reading::read({from}, second);
  CHECK(all_complaints(o) == "");
  CHECK(o.what == cutrace_reading::format::jsonl);
  CHECK(o.whole);
  CHECK(o.events == all.size());
  const std::string plain = folder.file("plain.jsonl");
  cutrace::jsonl_sink third(plain);
  write(third, all);
  if (form == cutrace::jsonl_form::events) {
    CHECK(content_of(again) == content_of(plain));
  } else {
    // Other events may end at the same time: compare as sets.
    const auto sorted = [](const std::string& path) {
      std::istringstream in(content_of(path));
      std::vector<std::string> lines;
      for (std::string line; std::getline(in, line);) lines.push_back(line);
      std::sort(lines.begin(), lines.end());
      return lines;
    };
    CHECK(sorted(again) == sorted(plain));
  }
}

std::string sample_text() { return written_by<cutrace::jsonl_sink>(late_marked(sample::server_run())); }

struct tried {
  outcome o;
  events read;
  std::vector<std::string> notes;
};
tried try_text(const std::string& text) {
  const temporary_folder folder;
  write_text(folder.file("t.jsonl"), text);
  static std::vector<std::unique_ptr<kept_trace>> alive;  // what events point to
  alive.emplace_back(new kept_trace);
  tried t;
  t.o = cutrace_reading::read({folder.file("t.jsonl")}, *alive.back());
  t.read = alive.back()->events();
  t.notes = alive.back()->notes();
  CHECK(alive.back()->opened == 1);
  CHECK(alive.back()->ends == 1);
  return t;
}

constexpr const char* header = R"({"v":1,"type":"header","ts_ns":0,"dur_ns":0,"schema":"cutrace","pid":1})"
                               "\n";
constexpr const char* footer = R"({"v":1,"type":"footer","ts_ns":0,"dur_ns":0,"produced":1})"
                               "\n";
std::string mark(int at, const std::string& more = "", const char* type = "mark") {
  return R"({"v":1,"type":")" + std::string(type) + R"(","ts_ns":)" + std::to_string(at) + R"(,"dur_ns":0,"name":"m")" +
         more + "}\n";
}

std::string text_of(cutrace::text t) { return {t.data, t.size}; }

using intervals = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace

TEST_CASE("JSONL round trip") {
  for (const char* extension : {".jsonl", ".jsonl.gz"}) {
    for (const cutrace::jsonl_form form : {cutrace::jsonl_form::events, cutrace::jsonl_form::paired}) {
      CAPTURE(extension);
      CAPTURE(static_cast<int>(form));
      check_round_trip({}, form, extension);
      check_round_trip(late_marked(sample::server_run()), form, extension);
      check_round_trip(random_trace::trace(7, 400).events(), form, extension);
      // The paired form orders by time, and what ends before it begins has no order at all.
      if (form == cutrace::jsonl_form::paired) continue;
      check_round_trip(late_marked(hostile::named_events()), form, extension);
      check_round_trip(late_marked(hostile::extreme_events()), form, extension);
    }
  }
}

TEST_CASE("what the trace says of itself") {
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"));
  write(sink, late_marked(sample::server_run()));
  kept_trace kept;
  cutrace_reading::read({folder.file("t.jsonl")}, kept);
  CHECK(kept.process == "llm_server");
  CHECK(kept.info.process_id == sample::pid);
  CHECK(kept.info.rank == 3);
  CHECK(kept.info.world_size == 8);
  CHECK(kept.info.start.realtime_ns == sample::info().start.realtime_ns);
  CHECK(kept.stop.monotonic_ns == sample::summary(0).stop.monotonic_ns);
  CHECK(kept.totals().lost[0] == 12);
  CHECK(kept.totals().sink_count == 1);
  CHECK(kept.notes().size() == 2);
}

TEST_CASE("parts are one trace") {
  const temporary_folder folder;
  cutrace::jsonl_options options;
  options.file.rotate_bytes = 20000;
  const random_trace::trace trace(3, 100);
  {
    cutrace::jsonl_sink sink(folder.file("t.jsonl"), options);
    write(sink, trace.events());
  }
  std::vector<std::string> parts;
  for (const auto& f : std::filesystem::directory_iterator(folder.path())) parts.push_back(f.path().string());
  std::sort(parts.begin(), parts.end());
  REQUIRE(parts.size() > 3);
  kept_trace kept;
  const outcome o = cutrace_reading::read(parts, kept);
  CHECK(all_complaints(o) == "");
  CHECK(o.whole);
  CHECK(kept.opened == 1);
  check_same(kept.events(), trace.events());

  SUBCASE("without the last one") {
    parts.pop_back();
    kept_trace less;
    const outcome cut = cutrace_reading::read(parts, less);
    CHECK_FALSE(cut.whole);
    CHECK(complains(cut, "not given"));
  }
  SUBCASE("in another order, or one of them twice") {
    kept_trace mixed;
    std::swap(parts[1], parts[2]);
    CHECK_THROWS_WITH(cutrace_reading::read(parts, mixed),
                      doctest::Contains("part 2 of the trace stands behind part 3"));
    std::filesystem::copy_file(parts[0], folder.file("copy"));
    kept_trace doubled;
    CHECK_THROWS_WITH(cutrace_reading::read({parts[0], folder.file("copy")}, doubled),
                      doctest::Contains("part 1 of the trace stands behind part 1"));
    write_text(folder.file("joined"), content_of(parts[1]) + content_of(parts[0]));
    kept_trace joined;
    CHECK(complains(cutrace_reading::read({folder.file("joined")}, joined), "an earlier part"));
  }
  SUBCASE("in one file, as cat joins them") {
    std::string all;
    for (const std::string& p : parts) all += content_of(p);
    write_text(folder.file("joined"), all);
    kept_trace joined;
    const outcome one = cutrace_reading::read({folder.file("joined")}, joined);
    CHECK(all_complaints(one) == "");
    check_same(joined.events(), trace.events());
  }
}

TEST_CASE("a whole trace given twice, or together with its parts, is refused") {
  const temporary_folder folder;
  const random_trace::trace trace(3, 100);
  cutrace::jsonl_options options;
  options.file.rotate_bytes = 20000;
  cutrace::jsonl_sink plain(folder.file("t.jsonl")), zipped(folder.file("t.jsonl.gz")),
      rotating(folder.file("r.jsonl"), options);
  for (cutrace::jsonl_sink* const one : {&plain, &zipped, &rotating}) write(*one, trace.events());
  const auto refused = [&](const char* a, const char* b) {
    kept_trace kept;
    CHECK_THROWS_AS(cutrace_reading::read({folder.file(a), folder.file(b)}, kept), cutrace_reading::reading_error);
  };
  refused("t.jsonl", "t.jsonl.gz");
  refused("t.jsonl", "r.0001.jsonl");
  refused("t.jsonl", "r.0002.jsonl");
  refused("r.0001.jsonl", "t.jsonl");
}

TEST_CASE("a hole ends with the first event behind the missing part that does not come late") {
  const auto head = [](int part) {
    return std::string(header).insert(std::string(header).size() - 2, ",\"part\":" + std::to_string(part));
  };
  const temporary_folder folder;
  write_text(folder.file("1.jsonl"), head(1) + mark(5000) + mark(9000));
  const auto windows_with = [&](const std::string& third) {
    write_text(folder.file("3.jsonl"), head(3) + mark(8000, ",\"late\":true") + third);
    kept_trace kept;
    cutrace_reading::read({folder.file("1.jsonl"), folder.file("3.jsonl")}, kept);
    intervals windows;
    for (const cutrace::event& e : kept.events())
      if (e.kind == cutrace::event_kind::window) windows.emplace_back(e.start_ns, e.end_ns);
    return windows;
  };
  CHECK((windows_with(mark(50000) + mark(60000) + footer) == intervals{{0, 9000}, {50000, 60000}}));
  const std::string stop =
      R"({"v":1,"type":"footer","ts_ns":70000,"dur_ns":0,"produced":1,"clocks":{"trace_ns":70000}})"
      "\n";
  CHECK((windows_with(stop) == intervals{{0, 9000}}));
}

TEST_CASE("a recorded window around a missing part is cut to what was read") {
  const auto window = [](int from, int to, const char* more = "") {
    return R"({"v":1,"type":"window","ts_ns":)" + std::to_string(from) + R"(,"dur_ns":)" + std::to_string(to - from) +
           ",\"name\":\"recorded\"" + more + "}\n";
  };
  const char* late = R"(,"late":true)";
  // A program that paused its session between 60,000 and 90,000: one event says at 60,000 what was recorded before.
  const std::string parts[] = {mark(5000) + mark(9000), mark(20000), mark(30000) + mark(40000),
                               mark(55000) + window(0, 60000) + mark(95000), window(90000, 99000) + footer,
                               // A window may come behind events that are later than it.
                               window(0, 4000, late) + window(4500, 60000, late) + mark(100000)};
  const temporary_folder folder;
  const auto windows_of = [&](const std::vector<std::size_t>& given) {
    std::vector<std::string> files;
    for (const std::size_t i : given) {
      files.push_back(folder.file(std::to_string(i + 1) + ".jsonl"));
      write_text(
          files.back(),
          std::string(header).insert(std::string(header).size() - 2, ",\"part\":" + std::to_string(i + 1)) + parts[i]);
    }
    kept_trace kept;
    const outcome o = cutrace_reading::read(files, kept);
    CHECK(o.out_of_order == 0);
    std::size_t in_files = 0;  // pieces do not count, or they would hide events that are missing
    for (const std::size_t i : given)
      for (std::size_t at = 0; (at = parts[i].find("\"window\"", at)) != std::string::npos; ++at) ++in_files;
    CHECK(o.by_kind[static_cast<std::size_t>(cutrace::event_kind::window)] == in_files);
    intervals windows;
    std::int64_t newest_ns = 0;
    for (const cutrace::event& e : kept.events()) {
      if (e.kind == cutrace::event_kind::window) windows.emplace_back(e.start_ns, e.end_ns);
      if (e.end_ns < newest_ns) CHECK(e.late);
      newest_ns = std::max(newest_ns, e.end_ns);
    }
    return windows;
  };
  CHECK((windows_of({0, 1, 2, 3, 4}) == intervals{{0, 60000}, {90000, 99000}}));
  CHECK((windows_of({0, 2, 3, 4}) == intervals{{0, 9000}, {30000, 60000}, {90000, 99000}}));
  CHECK((windows_of({0, 3, 4}) == intervals{{0, 9000}, {55000, 60000}, {90000, 99000}}));
  CHECK((windows_of({0, 2}) == intervals{{0, 9000}, {30000, 40000}}));
  // The first parts were removed, as with keep=.
  CHECK((windows_of({2, 3, 4}) == intervals{{30000, 60000}, {90000, 99000}}));
  // Nothing is known of the time before the end of what comes first in a part.
  CHECK((windows_of({4}) == intervals{{99000, 99000}}));
  // It may also come first in a part.
  CHECK((windows_of({0, 5}) == intervals{{0, 4000}, {4500, 9000}}));
  CHECK((windows_of({5}) == intervals{{4000, 4000}, {60000, 60000}}));

  // A later part that is not given has the window that was open.
  CHECK((windows_of({0, 1, 2, 3}) == intervals{{0, 60000}}));

  // Many holes and many windows are not many times many events.
  std::string bomb;
  for (int i = 0; i < 1000; ++i)
    bomb += std::string(header).insert(std::string(header).size() - 2, ",\"part\":" + std::to_string(2 * i + 1)) +
            mark(100 * i) + mark(100 * i + 50);
  for (int i = 0; i < 1000; ++i) bomb += window(0, 100000 + i);
  CHECK(try_text(bomb).read.size() < 100000);
}

TEST_CASE("what was recorded behind the last window of a trace without its end is a window, too") {
  const auto line = [](const char* type, int from, int to, const char* more) {
    return std::string(R"({"v":1,"type":")") + type + "\",\"ts_ns\":" + std::to_string(from) +
           ",\"dur_ns\":" + std::to_string(to - from) + ",\"name\":\"x\"" + more + "}\n";
  };
  const auto windows_of = [](const std::string& text) {
    intervals windows;
    const tried t = try_text(text);
    for (const cutrace::event& e : t.read)
      if (e.kind == cutrace::event_kind::window) windows.emplace_back(e.start_ns, e.end_ns);
    CHECK(t.o.by_kind[static_cast<std::size_t>(cutrace::event_kind::window)] == 1);
    return windows;
  };
  const std::string first = header + mark(5000) + line("window", 0, 10000, "");
  const std::string call = line("api", 50000, 52000, R"(,"api":"driver","tid":1)");
  const std::string kernel = line("kernel", 11000, 60000, "");  // called in the window, begins behind it
  CHECK((windows_of(first + kernel) == intervals{{0, 10000}}));
  CHECK((windows_of(first + line("stage", 9000, 40000, "")) == intervals{{0, 10000}}));
  CHECK((windows_of(first + call + kernel) == intervals{{0, 10000}, {50000, 60000}}));
  CHECK((windows_of(first + mark(40000) + call) == intervals{{0, 10000}, {40000, 52000}}));
  // With its end the trace has all of its windows.
  CHECK((windows_of(first + call + footer) == intervals{{0, 10000}}));
}

TEST_CASE("of a file with any number of notes some MiB are kept, and the last note says so") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1000}}) {
    CAPTURE(size);
    cutrace_reading::trace_totals totals;
    for (int i = 0; i < 300000; ++i) totals.add_note(std::string(size, 'n'));
    std::size_t bytes = 0;
    for (const std::string& note : totals.notes) bytes += sizeof(note) + note.size();
    CHECK(bytes > std::size_t{7} << 20);
    CHECK(bytes < std::size_t{9} << 20);
    CHECK(totals.notes.back().find("further notes") != std::string::npos);
    CHECK(totals.notes[totals.notes.size() - 2] == std::string(size, 'n'));
  }
}

TEST_CASE("files of two traces are refused") {
  const temporary_folder folder;
  cutrace::trace_info other = sample::info();
  other.process_id = 77;
  cutrace::jsonl_sink a(folder.file("a.jsonl")), b(folder.file("b.jsonl"));
  write(a, late_marked(sample::server_run()));
  write(b, late_marked(sample::server_run()), other);
  kept_trace kept;
  CHECK_THROWS_AS(cutrace_reading::read({folder.file("a.jsonl"), folder.file("b.jsonl")}, kept),
                  cutrace_reading::reading_error);
}

TEST_CASE("a trace that is cut anywhere") {
  const std::string whole = sample_text();
  const std::size_t lines = late_marked(sample::server_run()).size() + 2;
  std::size_t at = 0;
  for (std::size_t line = 0; line + 1 < lines; ++line) {
    const std::size_t end = whole.find('\n', at) + 1;
    if (line > 0) {
      for (const std::size_t cut : {at, at + 1, (at + end) / 2, end - 2}) {
        CAPTURE(cut);
        const tried t = try_text(whole.substr(0, cut));
        CHECK(t.o.events == line - 1);
        CHECK_FALSE(t.o.whole);
        CHECK(complains(t.o, "no footer"));
        CHECK(complains(t.o, "cut") == true);
        CHECK(t.notes.size() == 1);
      }
    }
    at = end;
  }
}

TEST_CASE("what a trace without a footer lost is the sum of its loss events") {
  const auto loss = [](const char* cause, int count) {
    return R"({"v":1,"type":"loss","ts_ns":1,"dur_ns":0,"cause":")" + std::string(cause) + R"(","count":)" +
           std::to_string(count) + "}\n";
  };
  const temporary_folder folder;
  write_text(folder.file("t.jsonl"),
             header + mark(1) + loss("chunk_full", 500) + loss("buffer_limit", 7) + loss("chunk_full", 20));
  kept_trace kept;
  cutrace_reading::read({folder.file("t.jsonl")}, kept);
  const cutrace::stats& s = kept.totals();
  CHECK(s.lost[static_cast<std::size_t>(cutrace::loss_cause::chunk_full)] == 520);
  CHECK(s.lost[static_cast<std::size_t>(cutrace::loss_cause::buffer_limit)] == 7);
  CHECK(s.delivered == 4);
  CHECK(s.produced == 4 + 527);
}

TEST_CASE("a trace that is cut at any of 1,000 bytes holds each whole event before the cut") {
  const std::string whole = sample_text();
  const std::size_t first = whole.find('\n') + 1, last = whole.rfind('\n', whole.size() - 2) + 1;  // events lie between
  std::mt19937_64 random(47);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t cut = first + random() % (last - first);
    CAPTURE(cut);
    const tried t = try_text(whole.substr(0, cut));
    const std::ptrdiff_t lines = std::count(whole.data() + first, whole.data() + cut, '\n');
    REQUIRE(t.o.events == static_cast<std::size_t>(lines) + (cut != first && whole[cut] == '\n' ? 1 : 0));
  }
}

TEST_CASE("lines that are none") {
  for (const std::string bad : {"garbage", "[1,2]", "17", "{\"v\":1,\"type\":\"mark\"", "{]", "{\"a\":}", "\"text\"",
                                "null", "{\"v\":1,\"type\":\"mark\",\"ts_ns\":1,\"name\":\"\xff\xfe\"}",
                                "{\"v\":1,\"type\":\"mark\",\"ts_ns\":1,\"name\":\"\\ud800\"}"}) {
    CAPTURE(bad);
    const tried t = try_text(header + mark(1) + bad + "\n" + mark(2) + footer);
    CHECK(t.read.size() >= 2);
    REQUIRE(t.o.problems.total() == 1);
    const cutrace_reading::complaint& c = t.o.problems.kinds().front();
    CHECK(c.first.line == 3);
    CHECK(c.first.byte == (header + mark(1)).size());
    CHECK(t.o.whole);
  }
}

TEST_CASE("values of the wrong type and numbers out of range") {
  for (const char* field : {R"("pid":"one")",
                            R"("pid":-1)",
                            R"("pid":4294967296)",
                            R"("pid":1.5)",
                            R"("tid":[])",
                            R"("name":17)",
                            R"("stage_id":18446744073709551616)",
                            R"("correlation":1e3)",
                            R"("requests":17)",
                            R"("requests":["a"])",
                            R"("request_names":[1])",
                            R"("late":"yes")",
                            R"("dur_ns":9223372036854775808)",
                            R"("color":"red")",
                            R"("attribution":"by_magic")",
                            R"("payload":{})",
                            R"("domain":null)",
                            R"("args":{"a":nil})",
                            R"("args":{"a":"0xzz"})",
                            R"("payload":nul)",
                            R"("args":[])"}) {
    CAPTURE(field);
    const char* const type = std::strncmp(field, "\"args\"", 6) == 0 ? "api" : "mark";
    const tried t = try_text(header + mark(1, std::string(",") + field, type) + mark(2) + footer);
    CHECK(t.read.size() == 2);
    CHECK(t.o.problems.total() == 1);
    CHECK(t.o.problems.kinds().front().first.line == 2);
  }
  const tried of_another = try_text(header + mark(1, R"(,"grid":[1,2,3])") + mark(2) + footer);
  CHECK(of_another.o.problems.total() == 1);
  CHECK(text_of(of_another.read.front().more) == R"("grid":[1,2,3])");
  const tried none = try_text(header + std::string(R"({"v":1,"type":"mark","name":"m"})") + "\n" + mark(2) + footer);
  CHECK(none.read.size() == 1);
  CHECK(complains(none.o, "ts_ns"));
}

TEST_CASE("clocks that no machine has") {
  for (const char* trace : {"-9223372036854775808", "9223372036854775807"})
    for (const std::string host : {"0", "18446744073709551615"}) {
      const std::string clocks = std::string(R"(,"clocks":{"trace_ns":)") + trace + R"(,"realtime_ns":)" + host +
                                 R"(,"monotonic_ns":)" + host + R"(,"boottime_ns":)" + host + R"(,"error_ns":)" + host;
      const temporary_folder folder;
      std::ofstream(folder.file("t.jsonl"))
          << R"({"v":1,"type":"header","ts_ns":0,"dur_ns":0,"pid":1)" + clocks + "}}\n" + mark(1);
      cutrace::memory_sink kept;
      CHECK(cutrace_reading::read({folder.file("t.jsonl")}, kept).events == 1);
      cutrace::chrome_sink chrome(folder.file("t.json"));  // its head has a difference of them
      CHECK(cutrace_reading::read({folder.file("t.jsonl")}, chrome).events == 1);
    }
}

TEST_CASE("deep nesting, unknown fields and types, a later schema") {
  const std::string deep = ",\"x\":" + std::string(5000, '[') + std::string(5000, ']');
  const tried nested = try_text(header + mark(1, deep) + mark(2) + footer);
  CHECK(nested.read.size() >= 1);
  CHECK(nested.o.problems.total() >= 1);

  const tried later = try_text(R"({"v":9,"type":"header","ts_ns":0,"dur_ns":0,"schema":"cutrace","new":{"a":[1]}})"
                               "\n" +
                               mark(1, R"(,"fresh":{"deep":[1,{"x":2}]},"pid":5)") +
                               R"({"v":9,"type":"teleport","ts_ns":1,"dur_ns":0})"
                               "\n" +
                               mark(2) + footer);
  REQUIRE(later.read.size() == 3);
  CHECK(later.read.front().process_id == 5);
  CHECK(text_of(later.read.front().more) == R"("fresh":{"deep":[1,{"x":2}]})");
  CHECK(later.read[1].kind == cutrace::event_kind::other);
  CHECK(text_of(later.read[1].other.type) == "teleport");
  CHECK(later.read[2].more.size == 0);
  CHECK(complains(later.o, "schema 9 is later"));
  CHECK(complains(later.o, "unknown field \"fresh\""));
  CHECK(complains(later.o, "unknown field \"new\""));
  CHECK(complains(later.o, "unknown type of event \"teleport\""));
  CHECK(later.o.problems.total() == 4);
}

TEST_CASE("what is not known is written again as it stands") {
  const std::string teleport =
      R"({"v":1,"type":"teleport","ts_ns":7,"dur_ns":3,"name":"beam","pid":4,"tid":5,"stage":"s","stage_id":9,)"
      R"("requests":[1,2],"bytes":12.5e3,"from":{"x":[1,{"y":"\u00e9 \\ \""}]},"big":18446744073709551615,"none":null})"
      "\n";
  const std::string known =
      R"({"v":1,"type":"mark","ts_ns":20,"dur_ns":0,"name":"m","pid":0,"fresh":[true,"a\nb"],"esc\"aped":-1})"
      "\n";
  const temporary_folder folder;
  const std::string from = folder.file("from.jsonl"), to = folder.file("to.jsonl");
  write_text(from, header + teleport + known + footer);
  SUBCASE("line by line") {
    cutrace::jsonl_sink sink(to);
    const outcome o = cutrace_reading::read({from}, sink);
    CHECK(o.problems.total() == 3);
    CHECK(o.by_kind[static_cast<std::size_t>(cutrace::event_kind::other)] == 1);
    CHECK(content_of(to).find(teleport) != std::string::npos);
    CHECK(content_of(to).find(known) != std::string::npos);
  }
  SUBCASE("through the paired form") {
    const std::string paired = folder.file("paired.jsonl");
    cutrace::jsonl_options options;
    options.form = cutrace::jsonl_form::paired;
    cutrace::jsonl_sink sink(paired, options);
    cutrace_reading::read({from}, sink);
    cutrace::jsonl_sink again(to);
    cutrace_reading::read({paired}, again);
    CHECK(content_of(to).find(teleport) != std::string::npos);
    CHECK(content_of(to).find(known) != std::string::npos);
  }
  SUBCASE("many of them, longer than a batch's room") {
    std::string many;
    for (int i = 0; i < 20000; ++i)
      many += R"({"v":1,"type":"teleport","ts_ns":)" + std::to_string(i) + R"(,"dur_ns":0,"pid":1,"n":)" +
              std::to_string(i) + R"(,"pad":")" + std::string(static_cast<std::size_t>(i % 300), 'x') + "\"}\n";
    write_text(from, header + many + footer);
    cutrace::jsonl_sink sink(to);
    cutrace_reading::read({from}, sink);
    CHECK(content_of(to).find(many) != std::string::npos);
  }
}

TEST_CASE("what is kept is JSON, whatever stood there") {
  for (const char* broken : {R"("x":nul)", R"("x":01)", R"("x":[1,)", R"("x":{"a" 1})", R"("x":"\q")", R"("\q":1)"}) {
    CAPTURE(broken);
    const tried t = try_text(header + mark(1, std::string(",") + broken) + mark(2) + footer);
    CHECK(t.o.problems.total() >= 1);
    for (const cutrace::event& e : t.read) CHECK(e.more.size == 0);
  }
}

TEST_CASE("fields in any order") {
  const tried t = try_text(
      header + std::string(R"({"ts_ns":5,"name":"x","dur_ns":2,"value":-3,"type":"counter","v":1})") + "\n" + footer);
  REQUIRE(t.read.size() == 1);
  CHECK(all_complaints(t.o) == "");
  CHECK(t.read[0].kind == cutrace::event_kind::counter);
  CHECK(t.read[0].counter.value == -3);
}

TEST_CASE("a line of 100 MB is passed over") {
  const temporary_folder folder;
  {
    std::ofstream out(folder.file("t.jsonl"), std::ios::binary);
    out << header << mark(1) << R"({"v":1,"type":"mark","ts_ns":1,"dur_ns":0,"name":")";
    const std::string piece(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) out << piece;
    out << "\"}\n" << mark(2) << footer;
  }
  kept_trace kept;
  const outcome o = cutrace_reading::read({folder.file("t.jsonl")}, kept);
  CHECK(o.events == 2);
  CHECK(o.problems.total() == 1);
  CHECK(complains(o, "16 MiB"));
  CHECK(o.problems.kinds().front().first.line == 3);
}

TEST_CASE("events out of order are marked late and counted") {
  const tried t = try_text(header + mark(100) + mark(50) + mark(60, ",\"late\":true") + mark(200) + footer);
  REQUIRE(t.read.size() == 4);
  CHECK(t.read[1].late);
  CHECK_FALSE(t.read[3].late);
  CHECK(t.o.out_of_order == 1);
  CHECK(complains(t.o, "not marked late"));
}

TEST_CASE("one number for several things") {
  const events twice = {sample::stage("a", 1, 2, 5), sample::stage("b", 3, 4, 5), sample::kernel("k", 5, 6, 9),
                        sample::kernel("k", 7, 8, 9)};
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl"));
  write(sink, twice);
  kept_trace kept;
  CHECK(all_complaints(cutrace_reading::read({folder.file("t.jsonl")}, kept)) == "");
  check_same(kept.events(), twice);
  const std::string begin = R"({"ts":1,"op_id":4,"phase":"B","name":"m","details":{"v":1,"type":"mark"}})"
                            "\n";
  const std::string end = R"({"ts":1,"op_id":4,"phase":"E","name":"m","details":{"v":1,"type":"mark","dur_ns":0}})"
                          "\n";
  const tried t = try_text(header + begin + begin + end + end + footer);
  CHECK(t.read.size() == 1);
  CHECK(complains(t.o, "two operations with one number"));
  CHECK(complains(t.o, "an end without its begin"));
}

TEST_CASE("no header, no end, headers of two traces") {
  const tried headless = try_text(mark(1) + mark(2));
  CHECK(headless.read.size() == 2);
  CHECK(complains(headless.o, "no header"));
  CHECK(complains(headless.o, "no footer"));
  const tried two = try_text(header + mark(1) + footer +
                             R"({"v":1,"type":"header","ts_ns":0,"dur_ns":0,"schema":"cutrace","pid":2})"
                             "\n" +
                             mark(3) + footer);
  CHECK(two.read.size() == 1);
  CHECK(complains(two.o, "another trace"));
  const tried lines = try_text(header + mark(1) + R"({"v":1,"type":"footer","ts_ns":0,"dur_ns":0,"lines":9})" + "\n");
  CHECK(complains(lines.o, "counts 9 lines"));
}

TEST_CASE("files that are no trace") {
  const temporary_folder folder;
  kept_trace kept;
  const std::string path = folder.file("t");
  for (const std::string text : {"", "  \n\n", "hello", "{}", "{\"a\":1}", "[1,2,3]",
                                 "\x7f"
                                 "ELF\x02\x01"}) {
    CAPTURE(text);
    write_text(path, text);
    CHECK_THROWS_AS(cutrace_reading::read({path}, kept), cutrace_reading::reading_error);
  }
  CHECK(kept.opened == 0);
  CHECK_THROWS_AS(cutrace_reading::read({folder.file("missing")}, kept), cutrace_reading::reading_error);
  CHECK_THROWS_AS(cutrace_reading::read({folder.path()}, kept), cutrace_reading::reading_error);
}

TEST_CASE("compressed files that are cut or broken") {
  const temporary_folder folder;
  cutrace::jsonl_sink sink(folder.file("t.jsonl.gz"));
  const random_trace::trace trace(5, 300);
  write(sink, trace.events());
  const std::string whole = content_of(folder.file("t.jsonl.gz"));
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, whole.size() / 10}) {
    CAPTURE(size);
    write_text(folder.file("cut"), whole.substr(0, size));
    kept_trace kept;
    const outcome o = cutrace_reading::read({folder.file("cut")}, kept);
    CHECK(complains(o, "is cut short"));
    CHECK(kept.ends == 1);
  }
  std::string broken = whole;
  for (std::size_t i = broken.size() / 2; i < broken.size() / 2 + 50; ++i) broken[i] = static_cast<char>(~broken[i]);
  write_text(folder.file("broken"), broken);
  kept_trace kept;
  const outcome o = cutrace_reading::read({folder.file("broken")}, kept);
  CHECK(o.problems.total() != 0);
  write_text(folder.file("two"), whole + whole);  // two members
  kept_trace two;
  CHECK(cutrace_reading::read({folder.file("two")}, two).events >= trace.events().size());
}

}  // namespace jsonl_reader_test
