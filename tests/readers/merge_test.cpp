// SPDX-License-Identifier: Apache-2.0
// Traces of several processes as one: times on the common clock, numbers that do not clash, nothing lost, in order.
#include "trace/merge.hpp"

#include <cutrace/sinks/chrome.hpp>
#include <map>
#include <set>

#include "reading.hpp"
#include "trace/merge_clocks.hpp"
#include "trace/merge_events.hpp"
#include "trace/merge_ids.hpp"

namespace merge_test {

namespace {

using namespace cutrace;
using namespace cutrace_reading;
using reading_test::kept_trace;

constexpr std::uint64_t realtime = 1790000000000000000u;

trace_facts facts(const char* boot, std::uint64_t monotonic_ns, std::uint64_t realtime_ns, std::int64_t trace_ns = 0) {
  trace_facts f;
  f.boot_id = boot;
  f.start = {trace_ns, realtime_ns, monotonic_ns, monotonic_ns, 100};
  return f;
}

/// A process and its trace file. All processes have the same pid, ids and times unless a test sets others.
struct process {
  std::string file, host = "node-1", boot = "boot-1";
  std::uint32_t pid = 100;
  std::int32_t rank = 0;
  std::uint64_t monotonic_ns = 1000000000, realtime_ns = realtime;
  std::int64_t trace_ns = 0;  ///< of the file's beginning
  unsigned char gpu = 1;      ///< each byte of its UUID
  int steps = 200;
  bool sampled = false, clocks = false;

  void write() const {
    reading_test::events all;
    event d = sample::device(0, "NVIDIA H200");
    for (unsigned char& b : d.device_.uuid) b = gpu;
    all.push_back(d);
    all.push_back(sample::base(event_kind::process, "server", 0, 0));
    all.push_back(sample::base(event_kind::thread, "main", 0, 0));
    for (int i = 0; i < steps; ++i) {
      const std::int64_t t = 1000 * i;
      const std::uint64_t id = static_cast<std::uint64_t>(i) + 1, outer = (std::uint64_t{1} << 40) + id;
      event inner = sample::stage("inner", t + 100, t + 900, outer + 5000, outer, 1);
      all.push_back(
          sample::in_stage(sample::api("cuLaunchKernel", t + 110, t + 120, id), "inner", outer + 5000, nullptr, 0));
      all.push_back(sample::in_stage(sample::called_at(sample::kernel("gemm", t + 200, t + 700, id), t + 110), "inner",
                                     outer + 5000, nullptr, 0));
      all.push_back(inner);
      all.push_back(sample::stage("step", t, t + 950, outer));
      all.push_back(sample::memory(memory_operation::allocate, 0x1000u * (id % 7 + 1), 4096, t + 960, id));
    }
    if (clocks)
      for (const char* name : {"GPU 0 SM clock MHz", "GPU 0 power mW", "GPU 0", "GPUs in use"})
        for (int i = 0; i < 3; ++i) all.push_back(sample::base(event_kind::counter, name, i, i));
    if (sampled) all.push_back(sample::base(event_kind::window, "recorded", 0, 1000 * steps));
    for (event& e : all) {
      if (e.process_id != 0) e.process_id = pid;
      if (e.thread_id != 0) e.thread_id = pid;
    }
    trace_info info = sample::info();
    info.process_id = pid;
    info.rank = rank;
    info.host_name = host.c_str();
    info.boot_id = boot.c_str();
    info.start = {trace_ns, realtime_ns, monotonic_ns, monotonic_ns, 100};
    jsonl_sink sink(file);
    reading_test::write(sink, all, info, 3);
  }
};

std::vector<std::string> written(const temporary_folder& folder, std::vector<process>& all) {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].file = folder.file((std::to_string(i) + ".jsonl").c_str());
    all[i].write();
    files.push_back(all[i].file);
  }
  return files;
}

bool has_note(const kept_trace& t, const std::string& words) {
  for (const std::string& n : t.notes())
    if (n.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("merge: clocks of one boot differ by MONOTONIC, of others by REALTIME") {
  const std::vector<trace_facts> traces = {facts("a", 5000, realtime + 700),
                                           facts("a", 2000, realtime + 999999, 40),  // REALTIME was set meanwhile
                                           facts("b", 90000, realtime + 1000650), facts("b", 91000, realtime + 5)};
  const clock_plan plan = plan_clocks(traces, {"0", "1", "2", "3"});
  CHECK(plan.first == 1);
  CHECK(plan.places[1].offset_ns == -40);  // the trace that began first: its start is time 0
  CHECK(plan.places[1].error_ns == 0);
  CHECK(plan.places[0].offset_ns == 3000);
  CHECK(plan.places[0].by_monotonic);
  CHECK(plan.places[0].error_ns == 200);
  CHECK(plan.places[2].offset_ns == 651);
  CHECK(!plan.places[2].by_monotonic);
  CHECK(plan.places[3].offset_ns == 651 + 1000);  // traces 2 and 3 are of one boot: MONOTONIC between them
  CHECK(plan.places[3].error_ns == 300);
  CHECK(plan.places[3].representative == 2);
}

TEST_CASE("merge: traces whose header lacks the real time, or the boot and its clock") {
  CHECK_THROWS_AS(plan_clocks({facts("a", 1, realtime), facts("", 0, 0)}, {"0", "1"}), reading_error);
  CHECK_THROWS_AS(plan_clocks({facts("a", 1, 0), facts("b", 2, realtime)}, {"0", "1"}), reading_error);
  CHECK(plan_clocks({facts("a", 10, 0), facts("a", 30, 0)}, {"0", "1"}).places[1].offset_ns == 20);
  // Other tools report REALTIME only; a trace without a boot id shares its boot with no other.
  const clock_plan plan = plan_clocks({facts("", 0, realtime + 5), facts("", 0, realtime)}, {"0", "1"});
  CHECK(plan.first == 1);
  CHECK(plan.places[0].offset_ns == 5);
  CHECK(!plan.places[0].by_monotonic);
  // Clocks at their limits wrap, and nothing else happens.
  plan_clocks({facts("a", UINT64_MAX, 1, INT64_MIN), facts("b", 1, UINT64_MAX, INT64_MAX), facts("a", 1, 1)},
              {"", "", ""});
}

TEST_CASE("merge: numbers are kept where they can be, and never shared") {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    id_space ids(seed % 2 == 0 ? 1 : 1000, seed % 3 == 0 ? 5000 : UINT64_MAX);
    std::map<std::pair<std::size_t, std::uint64_t>, std::uint64_t> given;
    std::set<std::uint64_t> used;
    for (int i = 0; i < 2000; ++i) {
      const std::size_t process = random() % 4;
      const std::uint64_t id = random() % 300 == 0 ? random() : random() % 400;
      const std::uint64_t out = ids.of(process, id);
      const auto known = given.emplace(std::make_pair(process, id), out);
      CHECK(known.first->second == out);
      if (known.second) CHECK(used.insert(out).second);
      if (seed % 3 == 0) CHECK(out < 5000);
    }
  }
  id_space ids(1000);
  CHECK(ids.of(0, 7) == 7);
  CHECK(ids.of(1, 7) == 1007);
  CHECK(ids.of(1, 8) == 8);
}

TEST_CASE("merge: two processes with the same numbers, on two hosts") {
  const temporary_folder folder;
  std::vector<process> all(2);
  all[0].rank = 0;
  all[1].rank = 1;
  all[1].host = "node-2";
  all[1].boot = "boot-2";
  all[1].gpu = 2;
  all[1].realtime_ns = realtime + 500300;
  const std::vector<std::string> files = written(folder, all);
  kept_trace trace;
  const std::vector<outcome> o = merge(files, trace);
  REQUIRE(o.size() == 2);
  for (const outcome& one : o) CHECK(reading_test::all_complaints(one) == "");
  CHECK(trace.opened == 1);
  CHECK(trace.ends == 1);
  std::map<event_kind, std::size_t> kinds;
  std::set<std::uint32_t> pids, devices, contexts;
  std::set<std::uint64_t> stages, correlations, streams;
  std::map<std::uint64_t, std::uint32_t> stage_pid;
  std::int64_t newest = INT64_MIN;
  for (const event& e : trace.events()) {
    ++kinds[e.kind];
    if (e.kind >= event_kind::process && e.kind <= event_kind::stream) continue;
    CHECK(e.end_ns >= newest);
    newest = e.end_ns;
    pids.insert(e.process_id);
    CHECK(e.thread_id == e.process_id);  // its main thread
    if (e.kind == event_kind::stage) {
      CHECK(stages.insert(e.stage_id).second);
      stage_pid[e.stage_id] = e.process_id;
    }
    if (e.kind == event_kind::api) CHECK(correlations.insert(e.correlation_id).second);
    if (e.kind == event_kind::kernel) {
      CHECK(correlations.count(e.correlation_id) == 1);
      devices.insert(e.device);
      CHECK(e.call_start_ns == e.start_ns - 90);
    }
  }
  CHECK(kinds[event_kind::kernel] == 400);
  CHECK(kinds[event_kind::stage] == 800);
  CHECK(kinds[event_kind::process] == 2);
  CHECK(pids.size() == 2);
  CHECK(pids.count(100) == 1);
  CHECK(devices == std::set<std::uint32_t>{0, 1});
  // Work and inner stages belong to stages of their own process; the second begins where REALTIME says.
  std::int64_t first_of_second = INT64_MAX;
  for (const event& e : trace.events()) {
    if (e.kind == event_kind::kernel) CHECK(stage_pid.at(e.stage_id) == e.process_id);
    if (e.kind == event_kind::stage && e.stage.parent != 0) CHECK(stage_pid.at(e.stage.parent) == e.process_id);
    if (e.kind == event_kind::kernel && e.process_id != 100) first_of_second = std::min(first_of_second, e.start_ns);
  }
  CHECK(first_of_second == 500300 + 200);
  std::set<std::string> names;
  for (const event& e : trace.events())
    if (e.kind == event_kind::process) names.insert(std::string(e.name.data, e.name.size));
  CHECK(names == std::set<std::string>{"llm_server (rank 0, node-1)", "llm_server (rank 1, node-2, pid 100)"});
  CHECK(trace.totals().lost_total() == 6);
  CHECK(trace.totals().delivered == 2 * (3 + 5 * 200));
  CHECK(has_note(trace, "by CLOCK_REALTIME, within"));
  CHECK(has_note(trace, "merged from 2 traces"));
  CHECK(has_note(trace, "llm_server (rank 1, node-2, pid 100): cupti: \"quoted\" note"));
}

TEST_CASE("merge: of another host's trace that lost its end nothing is said of its clocks at the end") {
  const temporary_folder folder;
  std::vector<process> all(2);
  all[1].host = "node-2";
  all[1].boot = "boot-2";
  const std::vector<std::string> files = written(folder, all);
  kept_trace whole, part, cut;
  merge(files, whole);
  CHECK(has_note(whole, "; its REALTIME moved by "));
  // A file that lacks events, as of a stage, has its end and clocks nevertheless.
  const std::string text = content_of(files[1]);
  const std::size_t footer = text.rfind("{\"v\"");
  reading_test::write_text(
      files[1], std::string(text).insert(text.find(",\"", footer), R"(,"missing":"all but stage step was cut off")"));
  merge(files, part);
  CHECK(has_note(part, "; its REALTIME moved by "));
  reading_test::write_text(files[1], text.substr(0, footer));
  merge(files, cut);
  CHECK(has_note(cut, "by CLOCK_REALTIME, within"));
  CHECK(!has_note(cut, "; its REALTIME moved by "));
}

TEST_CASE("merge: processes of one boot that share a GPU") {
  const temporary_folder folder;
  std::vector<process> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].rank = static_cast<std::int32_t>(i);
    all[i].pid = 100 + static_cast<std::uint32_t>(i);
    all[i].monotonic_ns += 7 * (3 - i);    // the last one began first
    all[i].realtime_ns += i * 1000000000;  // REALTIME was set twice, and does not matter
  }
  all[1].gpu = 9;
  const std::vector<std::string> files = written(folder, all);
  kept_trace trace;
  merge(files, trace);
  std::map<std::uint32_t, std::int64_t> first;
  std::map<std::uint32_t, std::uint32_t> device;
  std::set<std::pair<std::uint32_t, std::uint64_t>> lanes;
  std::set<std::uint32_t> contexts;
  for (const event& e : trace.events()) {
    if (e.kind != event_kind::kernel) continue;
    if (first.emplace(e.process_id, e.start_ns).second) {
      CHECK(lanes.insert({e.device, e.stream}).second);
      CHECK(contexts.insert(e.context).second);
    }
    device[e.process_id] = e.device;
  }
  CHECK(first == std::map<std::uint32_t, std::int64_t>{{100, 214}, {101, 207}, {102, 200}});
  CHECK(device[100] == device[102]);
  CHECK(device[100] != device[101]);
  CHECK(has_note(trace, "by CLOCK_MONOTONIC of the same boot"));
  CHECK(!has_note(trace, "by CLOCK_REALTIME"));
}

TEST_CASE("merge: counters of GPUs name the GPU by its number in the merged trace") {
  const temporary_folder folder;
  std::vector<process> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].pid = 100 + static_cast<std::uint32_t>(i);
    all[i].gpu = i == 1 ? 9 : 1;
    all[i].clocks = true;
  }
  kept_trace trace;
  merge(written(folder, all), trace);
  std::map<std::uint32_t, std::uint32_t> device;
  std::map<std::uint32_t, std::set<std::string>> names;
  for (const event& e : trace.events()) {
    if (e.kind == event_kind::kernel) device[e.process_id] = e.device;
    if (e.kind == event_kind::counter) names[e.process_id].insert(std::string(e.name.data, e.name.size));
  }
  for (std::uint32_t pid = 100; pid < 103; ++pid) {
    CAPTURE(pid);
    const std::string gpu = "GPU " + std::to_string(device.at(pid));
    CHECK(names.at(pid) == std::set<std::string>{gpu + " SM clock MHz", gpu + " power mW", "GPU 0", "GPUs in use"});
  }
  CHECK(device[101] != device[100]);
}

TEST_CASE("merge: a note says that processes were recorded in windows of their own") {
  const temporary_folder folder;
  for (const bool sampled : {false, true}) {
    std::vector<process> all(2);
    all[1].pid = 200;
    all[1].sampled = sampled;
    kept_trace trace;
    merge(written(folder, all), trace);
    CHECK(has_note(trace, "recorded in windows, each process in its own") == sampled);
  }
}

TEST_CASE("merge: a process that was recorded all the time has a window of that time beside those of a sampled one") {
  const temporary_folder folder;
  std::vector<process> all(3);
  all[1].pid = 200;
  all[1].sampled = true;
  all[1].monotonic_ns += 5000000;
  all[2].pid = 300;
  all[2].monotonic_ns += 9000000;
  const auto windows_of = [&](const kept_trace& trace) {
    std::vector<std::pair<std::int64_t, std::int64_t>> windows;
    for (const event& e : trace.events())
      if (e.kind == event_kind::window) windows.emplace_back(e.start_ns, e.end_ns);
    for (const event& e : trace.events())
      if (e.is_gpu_work())
        CHECK(std::any_of(windows.begin(), windows.end(),
                          [&](auto w) { return w.first <= e.start_ns && e.end_ns <= w.second; }));
    return windows;
  };
  kept_trace trace;
  merge(written(folder, all), trace);
  CHECK(windows_of(trace).size() == 3);
  // Of merged traces: one that has no windows, with another one.
  jsonl_sink pair(folder.file("pair.jsonl"));
  merge({all[0].file, all[2].file}, pair);
  kept_trace again;
  merge({folder.file("pair.jsonl"), all[1].file}, again);
  CHECK(windows_of(again).size() == 2);
}

TEST_CASE("merge: the window in which a session joined a trace begins with the session's file, not before") {
  const temporary_folder folder;
  std::vector<process> all(2);
  all[0].sampled = true;
  all[0].trace_ns = 50000;
  all[1].pid = 200;
  all[1].sampled = true;
  all[1].trace_ns = 900000;  // joined behind the window's end
  all[1].monotonic_ns += 5000000;
  kept_trace trace;
  merge(written(folder, all), trace);
  std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> windows;
  for (const event& e : trace.events())
    if (e.kind == event_kind::window) windows[e.process_id] = {e.start_ns, e.end_ns};
  CHECK(windows.at(100) == std::make_pair(std::int64_t{0}, std::int64_t{150000}));
  CHECK(windows.at(200).first == windows.at(200).second);
}

TEST_CASE("merge: the notes of as many processes as there can be are all read again") {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < 4 * merge_limit; ++i)
    notes.push_back("server (rank " + std::to_string(i / 4) + "): " + std::string(500, 'x') + std::to_string(i));
  std::vector<const char*> texts;
  for (const std::string& n : notes) texts.push_back(n.c_str());
  trace_summary summary = sample::summary(0, 0);
  summary.notes = texts.data();
  summary.note_count = static_cast<std::uint32_t>(texts.size());
  const temporary_folder folder;
  jsonl_sink jsonl(folder.file("t.jsonl"));
  chrome_sink chrome(folder.file("t.json"));
  for (sink* const one : std::initializer_list<sink*>{&jsonl, &chrome}) {
    one->open(sample::info());
    one->close(summary);
    kept_trace trace;
    read({one->destination()}, trace);
    CHECK(trace.notes() == notes);
  }
}

TEST_CASE("merge: of merged traces each process keeps its name") {
  const temporary_folder folder;
  std::vector<process> all(3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].rank = static_cast<std::int32_t>(i);
    all[i].pid = 100 + static_cast<std::uint32_t>(i);
    all[i].monotonic_ns += 1000 * i;
  }
  const std::vector<std::string> files = written(folder, all);
  {
    jsonl_sink two(folder.file("two.jsonl"));
    merge({files[0], files[1]}, two);
  }
  kept_trace trace;
  merge({folder.file("two.jsonl"), files[2]}, trace);
  std::map<std::uint32_t, std::string> names;
  for (const event& e : trace.events())
    if (e.kind == event_kind::process) names[e.process_id] = std::string(e.name.data, e.name.size);
  CHECK(names == std::map<std::uint32_t, std::string>{
                     {100, "llm_server (rank 0)"}, {101, "llm_server (rank 1)"}, {102, "llm_server (rank 2)"}});
}

TEST_CASE("merge: what cannot be merged, and sinks that fail") {
  const temporary_folder folder;
  std::vector<process> all(2);
  all[1].pid = 101;
  const std::vector<std::string> files = written(folder, all);
  kept_trace trace;
  CHECK_THROWS_WITH(merge({files[0], files[0]}, trace), doctest::Contains("the same process"));
  CHECK_THROWS_WITH(merge({files[0], folder.file("none.jsonl")}, trace), doctest::Contains("No such file"));
  reading_test::write_text(folder.file("text.jsonl"), "hello\n");
  CHECK_THROWS_WITH(merge({folder.file("text.jsonl"), files[0]}, trace), doctest::Contains("no trace"));
  CHECK(trace.opened == 0);
  struct throwing : sink {
    void write(event_view) override {
      if (++writes == 3) throw std::runtime_error("full");
    }
    int writes = 0;
  } bad;
  CHECK_THROWS_WITH(merge(files, bad), "full");
  // Cut in the middle: what can be read is merged, and reported.
  std::string half = content_of(files[1]);
  reading_test::write_text(files[1], half.substr(0, half.size() / 2));
  kept_trace rest;
  const std::vector<outcome> o = merge(files, rest);
  CHECK(o[0].problems.total() == 0);
  CHECK(reading_test::complains(o[1], "no footer"));
  CHECK(rest.ends == 1);
  CHECK(rest.events().size() > 1000);
}

TEST_CASE("merge: files of sessions that shared a trace are refused, those of one session after the other are not") {
  const temporary_folder folder;
  std::vector<process> all(2);
  all[1].monotonic_ns += 5000000;  // joined 5 ms later
  all[1].realtime_ns += 5000030;
  all[1].trace_ns = 5000000;
  kept_trace none;
  CHECK_THROWS_WITH(merge(written(folder, all), none), doctest::Contains("the same process"));
  CHECK(none.opened == 0);
  all[1].trace_ns = 0;  // a trace of its own
  kept_trace both;
  merge(written(folder, all), both);
  CHECK(both.ends == 1);
  // Without a monotonic clock REALTIME alone can say so. Nothing is known of its steps then.
  auto clockless = all;
  clockless[0].monotonic_ns = clockless[1].monotonic_ns = 0;
  kept_trace apart;
  merge(written(folder, clockless), apart);
  CHECK(apart.ends == 1);
  CHECK(!has_note(apart, "; its REALTIME moved by "));
  clockless[1].realtime_ns = clockless[0].realtime_ns;
  kept_trace twice;
  CHECK_THROWS_WITH(merge(written(folder, clockless), twice), doctest::Contains("the same process"));
  // A merged trace, whose time 0 is its beginning, and the trace that it begins with.
  all[1].pid = 200;
  all[0].trace_ns = 7000;
  const std::vector<std::string> files = written(folder, all);
  jsonl_sink merged(folder.file("merged.jsonl"));
  merge(files, merged);
  CHECK_THROWS_WITH(merge({folder.file("merged.jsonl"), files[0]}, none), doctest::Contains("the same process"));
}

TEST_CASE("merge: random traces, eight at once, lose and change nothing but numbers and times") {
  const temporary_folder folder;
  std::vector<std::string> files;
  std::map<std::string, std::size_t> before, after;
  for (std::uint32_t i = 0; i < 8; ++i) {
    const random_trace::trace made(i + 1, 200);
    const reading_test::events& events = made.events();
    trace_info info = sample::info();
    info.process_id = 100 + i;
    info.start = {0, realtime + i, 1000 + i, 1000 + i, 5};
    files.push_back(folder.file((std::to_string(i) + ".jsonl").c_str()));
    jsonl_sink sink(files.back());
    reading_test::write(sink, events, info);
    for (const event& e : events)
      if (e.kind < event_kind::process)
        ++before[std::string(e.name.data, e.name.size) + "/" + std::to_string(e.duration_ns())];
  }
  kept_trace trace;
  merge(files, trace);
  for (const event& e : trace.events())
    if (e.kind < event_kind::process)
      ++after[std::string(e.name.data, e.name.size) + "/" + std::to_string(e.duration_ns())];
  CHECK(before == after);
}

TEST_CASE("what is enclosed in a call stays with the call of its own process") {
  merged_ids ids;
  for (std::size_t p = 0; p < 3; ++p) {
    event call = sample::api("cuMemAlloc", 0, 100, 7);
    event nested = sample::api("cuMemAlloc_v2", 10, 90, 8);
    nested.api.enclosing = 7;
    event asked = sample::ioctl("NV_ESC_RM_ALLOC", 20, 30);
    event waited = sample::system("sched", "switched out", 40, 50, sample::main_thread, 7);
    for (event* e : {&call, &nested, &asked, &waited}) ids.renumber(p, *e);
    CHECK((call.correlation_id == 7) == (p == 0));
    CHECK(nested.api.enclosing == call.correlation_id);
    CHECK(asked.ioctl_.enclosing == call.correlation_id);
    CHECK(waited.system.enclosing == call.correlation_id);
  }
  event alone = sample::system("irq", "nvidia", 0, 0, 0);
  ids.renumber(1, alone);
  CHECK(alone.system.enclosing == 0);
}

TEST_CASE("an alarm stays with the GPU of its work, and no stream stays none") {
  merged_ids ids;
  for (std::size_t p = 0; p < 3; ++p) {
    event work = sample::kernel("k", 0, 10, 7);
    event alarm = sample::alarm("fault", "kernel", "k", 20, 1);
    alarm.device = work.device;
    alarm.context = work.context;
    alarm.stream = work.stream;
    event unplaced = sample::alarm("stuck", "call", "c", 20, 1);
    unplaced.context = unplaced.device = 0;
    event wait = sample::sync(sync_kind::context, 0, 10, 8, 0xFFFFFFFFu);
    for (event* e : {&work, &alarm, &unplaced, &wait}) ids.renumber(p, *e);
    CHECK((work.device == 0) == (p == 0));
    CHECK(alarm.device == work.device);
    CHECK(alarm.context == work.context);
    CHECK(alarm.stream == work.stream);
    CHECK(unplaced.device == 0);
    CHECK(wait.device == work.device);
    CHECK(wait.stream == 0xFFFFFFFFu);
  }
}

}  // namespace merge_test
