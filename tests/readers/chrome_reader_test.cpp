// SPDX-License-Identifier: Apache-2.0
// Chrome JSON of cutrace, read back with exactly the losses that docs/files.md lists; and a file that PyTorch's
// profiler wrote on an H200, counted by a second implementation.
#include <cutrace/sinks/chrome.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "reading.hpp"

namespace chrome_reader_test {

using namespace reading_test;
using cutrace::event;
using cutrace::event_kind;

namespace {

/// Events as they are read back: without what docs/files.md lists as not kept.
class as_kept {
 public:
  events of(const events& all) {
    note_calls(all);
    events kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const event& e = all[i];
      if (e.kind == event_kind::context || e.kind == event_kind::stream) continue;
      if ((e.kind == event_kind::process || e.kind == event_kind::thread) && e.name.size == 0) continue;
      kept.push_back(one(e));
    }
    return kept;
  }

 private:
  void note_calls(const events& all) {
    for (const event& e : all)
      if (e.kind == event_kind::api) calls_[e.correlation_id] = e;
  }

  event one(event e) {
    e.depth = 0;
    const bool gpu = e.is_gpu_work() || e.kind == event_kind::sync || e.is_cuda_event();
    const bool point = e.kind == event_kind::counter || e.kind == event_kind::loss;
    if (e.kind == event_kind::stage) e.stage_name = e.name;
    if (point) e.thread_id = 0;
    if (e.kind == event_kind::counter) {
      e.stage_id = 0;
      e.stage_name = {};
      e.request_count = e.request_total = 0;
    }
    switch (e.kind) {
      case event_kind::memory:
        e.call_start_ns = e.start_ns;
        break;
      case event_kind::kernel:
        e.kernel.static_shared_bytes += e.kernel.dynamic_shared_bytes;
        e.kernel.dynamic_shared_bytes = 0;
        e.kernel.local_bytes_per_thread = 0;
        e.kernel.mangled_name = {};
        e.kernel.submitted_ns = 0;
        break;
      case event_kind::memset:
        e.memset_.value = 0;
        break;
      case event_kind::counter:
        e.counter.change = 0;
        break;
      default:
        break;
    }
    lose_common(e);
    if (gpu) {
      const auto call = calls_.find(e.correlation_id);
      const bool known = cutrace::detail::knows_call(e) && call != calls_.end();
      e.thread_id = known ? call->second.thread_id : 0;
      e.call_name = known ? call->second.name : cutrace::text{};
      e.call_start_ns = known ? call->second.start_ns : e.start_ns;
    }
    return e;
  }

  std::map<std::uint64_t, event> calls_;
};

/// Descriptions come first and have no time; a call waits for the next event of its thread before it is written.
events comparable(events all) {
  for (event& e : all) {
    if (e.is_description()) e.start_ns = e.end_ns = 0;
    if (e.kind == event_kind::process || e.kind == event_kind::device) e.thread_id = 0;
    e.late = false;
  }
  std::stable_sort(all.begin(), all.end(), [](const event& a, const event& b) {
    if (a.is_description() != b.is_description()) return a.is_description();
    if (a.is_description()) return a.kind < b.kind;
    if (a.end_ns != b.end_ns) return a.end_ns < b.end_ns;
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return a.kind != b.kind ? a.kind < b.kind : a.correlation_id < b.correlation_id;
  });
  return all;
}

void check_round_trip(const events& all, const std::string& extension) {
  const temporary_folder folder;
  const std::string path = folder.file("t" + extension);
  cutrace::chrome_sink sink(path);
  write(sink, all);
  kept_trace kept;
  const outcome o = cutrace_reading::read({path}, kept);
  CHECK(all_complaints(o) == "");
  CHECK(o.what == cutrace_reading::format::chrome);
  CHECK(o.whole);
  check_same(comparable(kept.events()), comparable(as_kept().of(all)));
}

std::string sample_text(const events& all) { return written_by<cutrace::chrome_sink>(all); }
outcome try_text(const std::string& text, events* read = nullptr) {
  const temporary_folder folder;
  write_text(folder.file("t"), text);
  static std::vector<std::unique_ptr<kept_trace>> alive;  // what events point to
  alive.emplace_back(new kept_trace);
  outcome o = cutrace_reading::read({folder.file("t")}, *alive.back());
  if (read != nullptr) *read = alive.back()->events();
  CHECK(alive.back()->opened == 1);
  CHECK(alive.back()->ends == 1);
  return o;
}

}  // namespace

TEST_CASE("Chrome JSON round trip") {
  for (const char* extension : {".json", ".json.gz"}) {
    CAPTURE(extension);
    check_round_trip({sample::base(event_kind::process, "llm_server", 0, 0, 0)}, extension);
    check_round_trip(late_marked(sample::server_run()), extension);
    check_round_trip(random_trace::trace(13, 500).events(), extension);
  }
}

TEST_CASE("Chrome JSON with hostile names and numbers is read") {
  for (const events& all : {hostile::named_events(), hostile::extreme_events()}) {
    const outcome o = try_text(sample_text(late_marked(all)));
    std::uint64_t wanted[cutrace::event_kind_count] = {};
    for (const event& e : all) ++wanted[static_cast<std::size_t>(e.kind)];
    for (const event_kind kind : {event_kind::stage, event_kind::api, event_kind::kernel, event_kind::memcpy,
                                  event_kind::memset, event_kind::sync, event_kind::counter, event_kind::loss})
      CHECK(o.by_kind[static_cast<std::size_t>(kind)] >= wanted[static_cast<std::size_t>(kind)]);
    for (const cutrace_reading::complaint& c : o.problems.kinds())
      CHECK_MESSAGE(c.what.find("not marked late") != std::string::npos, sentence_of(c));
  }
}

TEST_CASE("memory of the host is not the device's") {
  event pinned = sample::memory(cutrace::memory_operation::allocate, 0x2000, 4096, 90, 3);
  pinned.memory.memory = cutrace::memory_kind::pinned;
  check_round_trip({sample::base(event_kind::process, "llm_server", 0, 0, 0), pinned}, ".json");
}

TEST_CASE("slices that were spread over several rows have their thread again") {
  // Two slices of one thread that overlap partly have two rows.
  const events all = {sample::base(event_kind::thread, "worker (a)", 0, 0, 77),
                      sample::stage("a", 1000, 3000, 1, 0, 0, 77), sample::stage("b", 2000, 4000, 2, 0, 0, 77)};
  events read;
  const outcome o = try_text(sample_text(all), &read);
  CHECK(all_complaints(o) == "");
  std::size_t stages = 0;
  for (const event& e : read) {
    if (e.kind == event_kind::thread) CHECK(std::string(e.name.data) == "worker (a)");
    if (e.kind != event_kind::stage) continue;
    ++stages;
    CHECK(e.thread_id == 77);
  }
  CHECK(stages == 2);
}

TEST_CASE("what Chrome JSON says of the trace") {
  const temporary_folder folder;
  write_text(folder.file("t"), sample_text(late_marked(sample::server_run())));
  kept_trace kept;
  cutrace_reading::read({folder.file("t")}, kept);
  CHECK(kept.process == "llm_server");
  CHECK(kept.info.rank == 3);
  CHECK(kept.info.start.realtime_ns == sample::info().start.realtime_ns);
  CHECK(kept.totals().lost[0] == 12);
  CHECK(kept.notes().size() == 2);
}

TEST_CASE("parts of a Chrome trace") {
  const temporary_folder folder;
  const random_trace::trace trace(3, 300);
  {
    cutrace::file_limits limits;
    limits.rotate_bytes = 60000;
    cutrace::chrome_sink sink(folder.file("t.json"), limits);
    write(sink, trace.events());
  }
  std::vector<std::string> parts;
  for (const auto& f : std::filesystem::directory_iterator(folder.path())) parts.push_back(f.path().string());
  std::sort(parts.begin(), parts.end());
  REQUIRE(parts.size() > 2);
  kept_trace kept;
  const outcome o = cutrace_reading::read(parts, kept);
  CHECK(all_complaints(o) == "");
  CHECK(o.whole);
  CHECK(kept.opened == 1);
  std::uint64_t wanted[cutrace::event_kind_count] = {};
  for (const event& e : trace.events()) ++wanted[static_cast<std::size_t>(e.kind)];
  for (const event_kind kind : {event_kind::stage, event_kind::api, event_kind::kernel, event_kind::thread})
    CHECK(o.by_kind[static_cast<std::size_t>(kind)] == wanted[static_cast<std::size_t>(kind)]);
}

TEST_CASE("a Chrome trace given twice is refused") {
  const temporary_folder folder;
  cutrace::chrome_sink plain(folder.file("t.json")), zipped(folder.file("t.json.gz"));
  for (cutrace::chrome_sink* const one : {&plain, &zipped}) write(*one, late_marked(sample::server_run()));
  kept_trace kept;
  CHECK_THROWS_AS(cutrace_reading::read({folder.file("t.json"), folder.file("t.json.gz")}, kept),
                  cutrace_reading::reading_error);
}

TEST_CASE("a Chrome trace that is cut anywhere") {
  const std::string whole = sample_text(late_marked(sample::server_run()));
  const std::size_t begin = whole.find("\"traceEvents\"") + 20;
  std::uint64_t before = 0;
  for (std::size_t size = begin; size < whole.size() - 3; size += 41) {
    CAPTURE(size);
    const outcome o = try_text(whole.substr(0, size));
    CHECK(complains(o, "cut"));
    CHECK(o.events >= before);
    if (size < whole.find("\n],")) before = o.events;
  }
  CHECK(before > 20);
}

TEST_CASE("events that are none") {
  const std::string head = "{\"traceEvents\": [\n";
  const std::string good =
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5.000,"dur":1.250,"args":{"device":0,"stream":7,"correlation":3,"grid":[1,2,3],"block":[4,5,6]}})";
  for (const std::string bad :
       {"17", "\"text\"", "{]", "{\"ph\":}", "{\"ph\":\"X\"", "{\"ph\":\"X\",\"name\":\"line\nbreak\"}", "{\"ts\":1}",
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\"}", "{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":\"soon\"}",
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":1e300}", "{\"ph\":\"X\",\"cat\":\"magic\",\"ts\":1}",
        "{\"ph\":\"Z\",\"cat\":\"kernel\",\"ts\":1}", "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"\xff\",\"ts\":1}"}) {
    CAPTURE(bad);
    events read;
    const outcome o = try_text(head + good + ",\n" + bad + ",\n" + good + "\n]}\n", &read);
    CHECK(o.problems.total() >= 1);
    CHECK(o.problems.kinds().front().first.line >= 3);
    REQUIRE(read.size() >= 2);
    CHECK(read.front().duration_ns() == 1250);
    CHECK(read.front().kernel.grid[2] == 3);
  }
  SUBCASE("several in a line, an array alone, blanks everywhere, no end") {
    events read;
    CHECK(all_complaints(try_text("{\"traceEvents\":[" + good + "," + good + ", " + good + "]}", &read)) == "");
    CHECK(read.size() == 3);
    for (const char* between : {" , ", "  ,{}, ", ",\t", "\t,", ",  ", " "}) {
      CAPTURE(between);
      static_cast<void>(try_text(head + good + between + good + "\n]}\n", &read));
      CHECK(read.size() == 2);
    }
    CHECK(all_complaints(try_text("[" + good + ",\n" + good + "]", &read)) == "");
    CHECK(read.size() == 2);
    CHECK(all_complaints(try_text("[" + good + ",\n" + good + ",\n", &read)) == "");
    CHECK(read.size() == 2);
    CHECK(all_complaints(try_text(
              " \n{ \"traceEvents\" :\n[ \n\n" + good + "\n , \n" + good + "\n] , \"x\" : {\"a\":[1]} }\n", &read)) ==
          "");
    CHECK(read.size() == 2);
  }
  SUBCASE("deep nesting") {
    const outcome o = try_text(head + good + ",\n{\"ph\":\"X\",\"x\":" + std::string(5000, '[') +
                               std::string(5000, ']') + "},\n" + good + "\n]}\n");
    CHECK(o.events >= 2);
    CHECK(o.problems.total() >= 1);
  }
  SUBCASE("an event of 100 MB") {
    const temporary_folder folder;
    {
      std::ofstream out(folder.file("t"), std::ios::binary);
      out << head << good << ",\n{\"ph\":\"X\",\"name\":\"";
      const std::string piece(1 << 20, 'x');
      for (int i = 0; i < 100; ++i) out << piece;
      out << "\"},\n" << good << "\n]}\n";
    }
    kept_trace kept;
    const outcome o = cutrace_reading::read({folder.file("t")}, kept);
    CHECK(o.events == 2);
    CHECK(complains(o, "16 MiB"));
  }
}

TEST_CASE("an event whose arguments stand before its category is read twice, however long its texts") {
  for (const std::size_t size : {std::size_t{10}, std::size_t{3000}, std::size_t{100000}}) {
    CAPTURE(size);
    events read;
    try_text(
        "{\"traceEvents\": [\n{\"args\":{\"device\":0,\"stream\":7,\"correlation\":3,\"grid\":[1,2,3]},\"name\":\"" +
            std::string(size, 'n') +
            "\",\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":5.000,\"dur\":1.250}\n]}\n",
        &read);
    std::size_t kernels = 0;
    for (const event& e : read) {
      if (e.kind != event_kind::kernel) continue;
      ++kernels;
      CHECK(e.name.size == size);
      CHECK(e.kernel.grid[2] == 3);
    }
    CHECK(kernels == 1);
  }
}

TEST_CASE("a line of many elements and of trailing commas takes linear time") {  // minutes, if each element strips them
  for (const std::string element : {"1,", "{}  {}  1,"}) {
    std::string line;
    for (int i = 0; i < 100000; ++i) line += element;
    CHECK(try_text("{\"traceEvents\": [" + line + std::string(1000000, ',') + "\n]}\n").problems.total() >= 1);
  }
}

TEST_CASE("times are exact") {
  events read;
  const std::string head = "{\"traceEvents\":[", tail = "]}";
  const auto event_at = [](const std::string& ts, const std::string& dur) {
    return R"({"ph":"X","cat":"overhead","name":"o","pid":1,"tid":1,"ts":)" + ts + ",\"dur\":" + dur + "}";
  };
  try_text(head + event_at("4362131675678.073", "0.001") + "," + event_at("4362131675678.075", "123456789.987654") +
               "," + event_at("4362131675679", "1e3") + tail,
           &read);
  REQUIRE(read.size() == 3);
  CHECK(read[0].start_ns == 0);
  CHECK(read[0].duration_ns() == 1);
  CHECK(read[1].start_ns == 927);
  CHECK(read[1].duration_ns() == 1000000);
  CHECK(read[2].start_ns == 2);
  CHECK(read[2].duration_ns() == 123456789987);
}

TEST_CASE("copies and sets of PyTorch files are asynchronous where their calls are") {
  const auto slice = [](const char* category, const char* name, int id, int tid) {
    return std::string(R"({"ph":"X","cat":")") + category + R"(","name":")" + name + R"(","pid":0,"tid":)" +
           std::to_string(tid) + ",\"ts\":" + std::to_string(id) +
           R"(,"dur":1,"args":{"device":0,"context":1,"stream":7,"bytes":64,"correlation":)" + std::to_string(id) +
           "}}";
  };
  events read;
  const outcome o = try_text(
      "{\"traceEvents\":[" + slice("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 7) + "," +
          slice("cuda_runtime", "cudaMemcpyAsync", 1, 9) + "," + slice("cuda_runtime", "cudaMemcpy", 2, 9) + "," +
          slice("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 2, 7) + "," +
          slice("cuda_runtime", "cudaMemsetAsync", 3, 9) + "," + slice("gpu_memset", "Memset (Device)", 3, 7) + "]}\n",
      &read);
  CHECK(all_complaints(o) == "");
  std::size_t seen = 0;
  for (const event& e : read) {
    if (e.kind == event_kind::memcpy) CHECK(e.memcpy_.asynchronous == (e.correlation_id == 1));
    if (e.kind == event_kind::memset) CHECK(e.memset_.asynchronous);
    seen += e.is_gpu_work();
  }
  CHECK(seen == 3);
}

TEST_CASE("a file that PyTorch wrote on an H200") {
  const std::string path = std::string(CUTRACE_TEST_DATA) + "/kineto_h200_steps.json.gz";
  kept_trace kept;
  const outcome o = cutrace_reading::read({path}, kept);
  CHECK(all_complaints(o) == "");
  CHECK(o.whole);

  // PyTorch's times are microseconds above 2^41: doubles hold them to half a nanosecond only.
  using exact_json =
      nlohmann::basic_json<std::map, std::vector, std::string, bool, std::int64_t, std::uint64_t, long double>;
  const exact_json file = exact_json::parse(text_of_file(path));
  using interval = std::pair<long double, long double>;
  std::vector<interval> theirs;
  std::map<std::string, std::uint64_t> count;
  std::map<std::string, double> by_name;
  for (const exact_json& e : file.at("traceEvents")) {
    ++count[e.value("cat", "")];
    if (e.value("cat", "") != "kernel") continue;
    const long double start = e.at("ts"), dur = e.at("dur");
    theirs.emplace_back(start, start + dur);
    by_name[e.at("name")] += static_cast<double>(dur);
  }
  CHECK(theirs.size() == 21000);
  CHECK(o.by_kind[static_cast<std::size_t>(event_kind::kernel)] == theirs.size());
  CHECK(o.by_kind[static_cast<std::size_t>(event_kind::api)] == count["cuda_runtime"] + count["cuda_driver"]);
  CHECK(o.by_kind[static_cast<std::size_t>(event_kind::stage)] == count["cpu_op"]);
  CHECK(o.by_kind[static_cast<std::size_t>(event_kind::device)] == 1);
  CHECK(o.by_kind[static_cast<std::size_t>(event_kind::window)] == 1);

  std::sort(theirs.begin(), theirs.end());
  long double busy_us = 0, until = 0;
  for (const interval& i : theirs) {
    busy_us += std::max(0.0L, i.second - std::max(i.first, until));
    until = std::max(until, i.second);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> ours;
  std::map<std::string, double> our_names;
  std::uint64_t joined = 0, in_stage = 0, late = 0;
  for (const event& e : kept.events()) {
    late += e.late;
    if (e.kind != event_kind::kernel) continue;
    ours.emplace_back(e.start_ns, e.end_ns);
    our_names[std::string(e.name.data, e.name.size)] += static_cast<double>(e.duration_ns()) / 1000;
    joined += e.call_name.size != 0 && e.call_start_ns <= e.start_ns && e.thread_id == 1035;
    in_stage += e.stage_name.size != 0;
    CHECK(e.process_id == 1035);
  }
  CHECK(late == 0);
  CHECK(joined == 21000);
  CHECK(in_stage == 21000);
  std::sort(ours.begin(), ours.end());
  std::int64_t busy_ns = 0, end_ns = INT64_MIN;
  for (const auto& i : ours) {
    busy_ns += std::max<std::int64_t>(0, i.second - std::max(i.first, end_ns));
    end_ns = std::max(end_ns, i.second);
  }
  CHECK(static_cast<double>(busy_ns) / 1000 == doctest::Approx(static_cast<double>(busy_us)).epsilon(1e-7));
  REQUIRE(our_names.size() == by_name.size());
  for (const auto& n : by_name) CHECK(our_names.at(n.first) == doctest::Approx(n.second).epsilon(1e-9));
  CHECK(kept.info.start.realtime_ns > 1790857026000000000u);
}

TEST_CASE("a missing part of a Chrome trace is a hole between windows") {
  const temporary_folder folder;
  {
    cutrace::file_limits limits;
    limits.rotate_bytes = 60000;
    cutrace::chrome_sink sink(folder.file("t.json"), limits);
    write(sink, random_trace::trace(3, 300).events());
  }
  std::vector<std::string> parts;
  for (const auto& f : std::filesystem::directory_iterator(folder.path())) parts.push_back(f.path().string());
  std::sort(parts.begin(), parts.end());
  REQUIRE(parts.size() > 3);
  kept_trace first;
  cutrace_reading::read({parts[0]}, first);
  std::int64_t hole_ns = 0;
  for (const event& e : first.events())
    if (!e.is_description()) hole_ns = std::max(hole_ns, e.end_ns);
  parts.erase(parts.begin() + 1);
  kept_trace kept;
  cutrace_reading::read(parts, kept);
  events windows;
  for (const event& e : kept.events())
    if (e.kind == event_kind::window) windows.push_back(e);
  REQUIRE(windows.size() == 2);
  CHECK(windows[0].start_ns == 0);
  CHECK(windows[0].end_ns == hole_ns);
  CHECK(windows[1].start_ns > hole_ns);
}

TEST_CASE("files of PyTorch's profiler are no parts of one trace") {
  const temporary_folder folder;
  const std::string text =
      R"({"traceEvents": [{"ph":"X","cat":"overhead","name":"o","pid":1,"tid":1,"ts":5.000,"dur":1.250}]})";
  write_text(folder.file("0.json"), text);
  write_text(folder.file("1.json"), text);
  kept_trace kept;
  CHECK_THROWS_WITH_AS(cutrace_reading::read({folder.file("0.json"), folder.file("1.json")}, kept),
                       doctest::Contains("cutrace merge"), cutrace_reading::reading_error);
}

/// Kernels of merged processes with their calls, by their ends. `change(i, rank, call, work)` for each.
template <class Change>
events launches_of_ranks(std::uint64_t launches, std::uint64_t ranks, Change change) {
  events all;
  for (std::uint64_t i = 1; i <= launches; ++i) {
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::int64_t>(10000 * i + 10 * rank);
      event call = sample::api("cuLaunchKernel", at, at + 5, rank << 32 | i);
      event work = sample::called_at(sample::kernel("gemm", at + 1000, at + 2000, rank << 32 | i), at);
      call.process_id = work.process_id = call.thread_id = work.thread_id = 100 + static_cast<std::uint32_t>(rank);
      change(i, rank, call, work);
      all.push_back(call);
      all.push_back(work);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
  return all;
}

/// All of the GPU's work in `all`, of launches_of_ranks, is read, and each piece has the process of its own rank.
void check_processes_of_work(const events& all, std::size_t count) {
  events read;
  CHECK(all_complaints(try_text(sample_text(all), &read)) == "");
  std::size_t of_others = 0, work = 0;
  for (const event& e : read) {
    work += e.is_gpu_work();
    of_others += e.is_gpu_work() && e.process_id != 100 + (e.correlation_id >> 32);
  }
  CHECK(work == count);
  CHECK(of_others == 0);
}

TEST_CASE("GPU work of a merged trace has the call and the process of its own rank") {
  const events all = launches_of_ranks(200, 8, [](std::uint64_t, std::uint64_t, event&, event&) {});
  events read;
  CHECK(all_complaints(try_text(sample_text(all), &read)) == "");
  std::size_t kernels = 0;
  for (const event& e : read) {
    if (e.kind != event_kind::kernel) continue;
    ++kernels;
    CHECK(e.process_id == 100 + (e.correlation_id >> 32));
    CHECK(e.thread_id == e.process_id);
    CHECK(e.call_start_ns == e.start_ns - 1000);
  }
  CHECK(kernels == 1600);
}

TEST_CASE("GPU work of a merged trace whose call is not known has the process of its context") {
  const events all = launches_of_ranks(3000, 2, [](std::uint64_t i, std::uint64_t rank, event& call, event& work) {
    if (i == 1000) call.end_ns += 9000000;  // it ends 900 launches later, so far behind its work
    work.context = 1 + 1000 * static_cast<std::uint32_t>(rank);
  });
  check_processes_of_work(all, 6000);
}

TEST_CASE("losses of a merged trace belong to the process that lost") {
  events all;
  for (const std::uint32_t pid : {sample::pid, sample::pid + 1, 1u}) {  // 1: as in a container, and a pid of GPUs here
    all.push_back(sample::loss(cutrace::loss_cause::chunk_full, pid, 1000));
    all.back().process_id = pid;
  }
  events read;
  CHECK(all_complaints(try_text(sample_text(all), &read)) == "");
  std::size_t losses = 0;
  for (const event& e : read) {
    if (e.kind != event_kind::loss) continue;
    ++losses;
    CHECK(e.process_id == e.loss.count);
  }
  CHECK(losses == 3);
}

TEST_CASE("GPU work of a merged trace has its process also before anything else shows the process of its context") {
  const events all = launches_of_ranks(3000, 2, [](std::uint64_t i, std::uint64_t, event& call, event& work) {
    if (i == 1) call.end_ns += 20000000;  // it ends 2000 launches later
    if (i < 10) work.context = 1 + static_cast<std::uint32_t>(call.process_id);
    if (i == 2) work.joined = cutrace::attribution::no_callback;  // and in a context in which no call is ever known
    if (i == 2) work.context += 1000;
  });
  check_processes_of_work(all, 6000);
}

}  // namespace chrome_reader_test
