// SPDX-License-Identifier: Apache-2.0
// Perfetto traces, and exactly what they do not keep: `as_kept` takes it away from the events that were written.
#include <unistd.h>

#include <cstring>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <cutrace/output/utf8.hpp>
#include <cutrace/sinks/perfetto.hpp>
#include <map>
#include <random>

#include "reading.hpp"
#include "trace/perfetto_tables.hpp"
#include "trace/request_list.hpp"

namespace perfetto_reader_test {

using namespace reading_test;
using cutrace::event;
using cutrace::event_kind;

namespace {

std::string plain(cutrace::text t) {
  std::string out;
  cutrace::detail::append_printable(out, {t.data, t.size}, 8192);
  return out;
}
cutrace::text printable(cutrace::text t) { return t.size == 0 ? cutrace::text{} : keep(plain(t)); }

/// Events as the reader gives them back: without what docs/files.md lists as not kept.
class as_kept {
 public:
  explicit as_kept(bool arguments) : arguments_(arguments) {}

  events of(const events& all) {
    events kept;
    for (const event& e : all)
      if (e.kind == event_kind::api) calls_[e.correlation_id] = e;
    for (const event& e : all) {
      if (e.kind == event_kind::context || e.kind == event_kind::stream) continue;
      if ((e.kind == event_kind::process || e.kind == event_kind::thread) && e.name.size == 0) continue;
      kept.push_back(one(e));
    }
    return kept;
  }

 private:
  event one(event e) {
    e.name = printable(e.name);
    e.depth = 0;
    const bool gpu = e.is_gpu_work() || e.is_cuda_event();
    const bool in_stage = gpu || e.kind == event_kind::alarm;
    if (e.kind != event_kind::stage && !in_stage) e.stage_name = {};
    if (in_stage && e.stage_id == 0) e.stage_name = {};
    if (in_stage && e.stage_id != 0) e.stage_name = printable(e.stage_name);
    if (e.kind == event_kind::stage) e.stage_name = e.name;
    e.stage_id = 0;
    e.capture_stage_id = 0;
    const bool has_requests =
        in_stage || e.kind == event_kind::stage || e.kind == event_kind::mark || e.kind == event_kind::memory;
    if (!has_requests) e.request_count = e.request_total = 0;
    switch (e.kind) {
      case event_kind::stage:
        e.stage.parent = 0;
        break;
      case event_kind::api:
        e.api.function = 0;
        if (!arguments_) e.api.argument_count = 0;
        if (cutrace::analysis::arrow_of_call(e.name) != cutrace::analysis::call_arrow::to_work) e.correlation_id = 0;
        break;
      case event_kind::sync:
        e.correlation_id = 0;
        e.thread_id = 0;
        e.joined = cutrace::attribution::none;
        if (e.sync.what != cutrace::sync_kind::context && !cutrace::detail::is_no_stream(e.stream)) {
          e.context = 0;
        } else {
          e.stream = 0xFFFFFFFFu;
        }
        e.sync.event_id = 0;
        break;
      case event_kind::counter:
        e.thread_id = 0;
        e.counter.change = values_.count(plain(e.name)) != 0 ? e.counter.value - values_[plain(e.name)] : 0;
        values_[plain(e.name)] = e.counter.value;
        break;
      case event_kind::nvtx:
        e.stage.origin = cutrace::stage_origin::nvtx;
        break;
      default:
        break;
    }
    lose_common(e);
    // The reader finds the call by its correlation id, if the file has the call and the call starts GPU work.
    if (gpu) {
      const bool known = cutrace::detail::knows_call(e);
      const auto call = calls_.find(e.correlation_id);
      if (known && call != calls_.end()) {
        e.thread_id = call->second.thread_id;
        e.call_name = call->second.name;
        e.call_start_ns = call->second.start_ns;
      } else {
        e.thread_id = 0;
        e.call_name = {};
        e.call_start_ns = e.start_ns;
      }
      if (e.kind == event_kind::kernel) {
        e.kernel.mangled_name = printable(e.kernel.mangled_name);
        if (e.kernel.mangled_name.data == e.name.data) e.kernel.mangled_name = {};
      }
    }
    return e;
  }

  bool arguments_;
  std::map<std::uint64_t, event> calls_;
  std::map<std::string, std::int64_t> values_;
};

/// Numbers of stages are of the reader's own making, and descriptions of devices come a little later.
events comparable(events all) {
  for (event& e : all) e.stage_id = e.capture_stage_id = 0;
  std::stable_sort(all.begin(), all.end(), [](const event& a, const event& b) {
    return (a.kind == event_kind::device) > (b.kind == event_kind::device);
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const event& a, const event& b) { return a.is_description() > b.is_description(); });
  return all;
}
/// The file does not keep when descriptions were made, nor when the calls of sync and memory events began.
events timeless(events all) {
  for (event& e : all) {
    if (e.is_description()) e.start_ns = e.end_ns = 0;
    if (e.kind == event_kind::process || e.kind == event_kind::device) e.thread_id = 0;
    if (e.kind == event_kind::sync || e.kind == event_kind::memory) e.call_start_ns = e.start_ns;
  }
  return all;
}

void check_round_trip(const events& all, bool arguments, const std::string& extension) {
  const temporary_folder folder;
  const std::string path = folder.file("t" + extension);
  cutrace::perfetto_options options;
  options.arguments = arguments;
  cutrace::perfetto_sink sink(path, options);
  write(sink, all);
  kept_trace kept;
  const outcome o = cutrace_reading::read({path}, kept);
  CHECK(all_complaints(o) == "");
  CHECK(o.what == cutrace_reading::format::perfetto);
  CHECK(o.whole);
  check_same(comparable(timeless(kept.events())), comparable(timeless(as_kept(arguments).of(all))));
}

std::string sample_bytes(const events& all) { return written_by<cutrace::perfetto_sink>(all); }

}  // namespace

TEST_CASE("Perfetto round trip") {
  for (const char* extension : {".pftrace", ".pftrace.gz"}) {
    for (const bool arguments : {false, true}) {
      CAPTURE(extension);
      CAPTURE(arguments);
      check_round_trip(late_marked(sample::server_run()), arguments, extension);
      check_round_trip(random_trace::trace(11, 500).events(), arguments, extension);
    }
  }
}

TEST_CASE("an alarm of a kernel keeps its grid and block, as three numbers that are checked") {
  events all = sample::server_run();
  const std::uint32_t grid[] = {4294967295, 65535, 1}, block[] = {256, 1, 2};
  for (event& e : all) {
    if (e.kind != event_kind::alarm) continue;
    std::copy(std::begin(grid), std::end(grid), e.alarm.grid);
    std::copy(std::begin(block), std::end(block), e.alarm.block);
  }
  check_round_trip(late_marked(all), true, ".pftrace");
  const std::string bytes = sample_bytes(all), text = "256x1x2";
  const std::size_t at = bytes.find(text);
  REQUIRE(at != std::string::npos);
  for (const char* broken : {"256x1x!", "256x1 2", "x256x12", "25612xx", "2561112", "256x1x2"}) {
    CAPTURE(broken);
    const temporary_folder folder;
    write_text(folder.file("t.pftrace"), std::string(bytes).replace(at, text.size(), broken));
    kept_trace kept;
    const outcome o = cutrace_reading::read({folder.file("t.pftrace")}, kept);
    CHECK((all_complaints(o).find("not three numbers, as 64x1x1: \"" + std::string(broken) + '"') ==
           std::string::npos) == (broken == text));
  }
}

TEST_CASE("an alarm keeps the stage and the requests of its work") {
  cutrace::request_ref requests[3];
  requests[0].id = 17;
  requests[1].id = 18;
  requests[2].name = sample::text_of("chat-0007");
  requests[2].id = cutrace_reading::request_list::hash("chat-0007");
  events all = sample::server_run();
  std::uint32_t count = 0;
  for (event& e : all) {
    if (e.kind != event_kind::alarm) continue;
    e.stage_name = sample::text_of("answer");
    e.stage_id = 4711;
    e.requests = requests;
    e.request_count = ++count;  // a number, then a set
    e.request_total = count == 2 ? 5 : count;
  }
  REQUIRE(count == 2);
  check_round_trip(late_marked(all), false, ".pftrace");
  count = 0;
  for (event& e : all) {
    if (e.kind != event_kind::alarm) continue;
    e.requests = requests + 1;
    e.request_count = e.request_total = ++count == 1 ? 2 : 0;  // with a name, then none
  }
  check_round_trip(late_marked(all), false, ".pftrace");
}

TEST_CASE("texts with control characters and broken bytes are whole, as names are") {
  events all;
  event mark = sample::base(event_kind::mark, "mark", 100, 100);
  mark.stage.origin = cutrace::stage_origin::nvtx;
  mark.stage.domain = sample::text_of("a\nb\tc\xFF");
  mark.stage.category_name = sample::text_of("\n\n\n\n");
  all.push_back(mark);
  const temporary_folder folder;
  cutrace::perfetto_sink sink(folder.file("t.pftrace"));
  write(sink, all);
  kept_trace kept;
  cutrace_reading::read({folder.file("t.pftrace")}, kept);
  event read;
  for (const event& e : kept.events())
    if (e.kind == event_kind::mark) read = e;
  CHECK(plain(read.stage.domain) == "a\\x0ab\\x09c\xEF\xBF\xBD");
  CHECK(plain(read.stage.category_name) == "\\x0a\\x0a\\x0a\\x0a");
}

TEST_CASE("Perfetto traces with hostile names and numbers are read without a complaint") {
  for (const events& all : {hostile::named_events(), hostile::extreme_events()}) {
    const temporary_folder folder;
    cutrace::perfetto_options options;
    options.arguments = true;
    cutrace::perfetto_sink sink(folder.file("t.pftrace"), options);
    write(sink, late_marked(all));
    kept_trace kept;
    const outcome o = cutrace_reading::read({folder.file("t.pftrace")}, kept);
    std::uint64_t wanted[cutrace::event_kind_count] = {};
    for (const event& e : all) ++wanted[static_cast<std::size_t>(e.kind)];
    for (const event_kind kind : {event_kind::stage, event_kind::api, event_kind::kernel, event_kind::memcpy,
                                  event_kind::memset, event_kind::sync, event_kind::counter, event_kind::loss})
      CHECK(o.by_kind[static_cast<std::size_t>(kind)] >= wanted[static_cast<std::size_t>(kind)]);
    for (const cutrace_reading::complaint& c : o.problems.kinds())
      CHECK_MESSAGE(c.what.find("not marked late") != std::string::npos, c.what);  // times beyond the limits are moved
  }
}

TEST_CASE("what a Perfetto trace says of itself") {
  const temporary_folder folder;
  write_text(folder.file("t"), sample_bytes(late_marked(sample::server_run())));
  kept_trace kept;
  cutrace_reading::read({folder.file("t")}, kept);
  CHECK(kept.process == "llm_server");
  CHECK(kept.info.process_id == sample::pid);
  CHECK(kept.info.rank == 3);
  CHECK(kept.info.world_size == 8);
  CHECK(kept.info.start.trace_ns == 0);
  CHECK(kept.info.start.realtime_ns == sample::info().start.realtime_ns);
  CHECK(kept.info.start.error_ns == 120);
  CHECK(kept.stop.trace_ns == sample::summary(0).stop.trace_ns);
  CHECK(kept.totals().lost[0] == 12);
  CHECK(kept.totals().sink_count == 1);
  CHECK(std::string(kept.totals().sinks[0].name) == "sample");
  REQUIRE(kept.notes().size() == 2);
  CHECK(kept.notes()[0] == "cupti: \"quoted\" note");
}

TEST_CASE("a request that is named by digits behind a zero stays a name") {
  const cutrace::request_ref batch[] = {sample::request_name("0017"), sample::request_id(17), sample::request_id(0),
                                        sample::request_name("00")};
  events all = {sample::base(event_kind::process, "llm_server", 0, 0)};
  for (const std::uint32_t count : {4u, 1u}) {
    event e = sample::base(event_kind::stage, "decode", 100, 200);
    e.stage_id = 1;
    e.requests = batch;
    e.request_count = e.request_total = count;
    all.push_back(e);
  }
  check_round_trip(all, false, ".pftrace");
}

TEST_CASE("a request keeps its name, whatever else the name could mean in a list of requests") {
  const char* const names[] = {
      "a, b", "17", "x and 3 more",         "\"",   "\"a\"", "\"a, b", "a \\ \"b\", c", "a,",
      ", ",   "\\", "18446744073709551616", "more", " more", "0",      "a\"",           "1, 2 and 9 more"};
  std::vector<cutrace::request_ref> batch;
  for (const char* name : names) {
    batch.push_back(sample::request_name(name));
    batch.push_back(sample::request_id(17));
  }
  events all = {sample::base(event_kind::process, "llm_server", 0, 0)};
  for (std::size_t from = 0; from < batch.size(); ++from)
    for (std::size_t count = 1; from + count <= batch.size(); ++count) {
      event e = sample::base(event_kind::stage, "decode", 100, 200);
      e.stage_id = 1;
      e.requests = batch.data() + from;
      e.request_count = e.request_total = static_cast<std::uint32_t>(count);
      all.push_back(e);
    }
  check_round_trip(all, false, ".pftrace");
}

TEST_CASE("the end of a Perfetto trace says which sinks failed, and why") {
  const temporary_folder folder;
  cutrace::perfetto_sink to(folder.file("t.pftrace"));
  to.open(sample::info());
  cutrace::trace_summary summary = sample::summary(0, 0);
  summary.totals.sink_count = 3;
  const char* const why[] = {"No space left on device", "the file has reached its limit (max=)", ""};
  for (std::size_t i = 0; i < 3; ++i) {
    cutrace::sink_stats& one = summary.totals.sinks[i];
    std::strcpy(one.name, i == 0 ? "jsonl" : "chrome");
    one.delivered = 10;
    one.written = 7;
    one.lost = 3;
    one.failed = i == 0;
    std::strcpy(one.failure, why[i]);
  }
  to.close(summary);
  kept_trace kept;
  const outcome o = cutrace_reading::read({folder.file("t.pftrace")}, kept);
  CHECK(all_complaints(o) == "");
  REQUIRE(kept.totals().sink_count == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const cutrace::sink_stats& one = kept.totals().sinks[i];
    CHECK(one.written == 7);
    CHECK(one.lost == 3);
    CHECK(one.failed == (i == 0));
    CHECK(std::string(one.failure) == why[i]);
  }
}

TEST_CASE("requests of Perfetto traces") {
  const cutrace::request_ref batch[] = {sample::request_id(17), sample::request_name("chat-0007"),
                                        sample::request_id(18)};
  event e = sample::in_stage(sample::stage("decode", 1000, 2000, 4), "decode", 4, batch, 3);
  e.request_total = 40;
  const temporary_folder folder;
  write_text(folder.file("t"), sample_bytes({e}));
  kept_trace kept;
  cutrace_reading::read({folder.file("t")}, kept);
  const events read = kept.events();
  REQUIRE(read.size() >= 1);
  const event& back = read.back();
  REQUIRE(back.request_count == 3);
  CHECK(back.request_total == 40);
  CHECK(back.requests[0].id == 17);
  CHECK(std::string(back.requests[1].name.data) == "chat-0007");
  CHECK(back.requests[2].id == 18);
}

TEST_CASE("parts of a Perfetto trace") {
  const temporary_folder folder;
  cutrace::perfetto_options options;
  options.file.rotate_bytes = 20000;
  const random_trace::trace trace(3, 400);
  {
    cutrace::perfetto_sink sink(folder.file("t.pftrace"), options);
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
  std::string joined;
  for (const std::string& p : parts) joined += content_of(p);
  write_text(folder.file("joined"), joined);
  kept_trace one;
  CHECK(all_complaints(cutrace_reading::read({folder.file("joined")}, one)) == "");
  check_same(comparable(one.events()), comparable(kept.events()));
  const auto refused = [](const std::vector<std::string>& files) {
    kept_trace none;
    CHECK_THROWS_AS(cutrace_reading::read(files, none), cutrace_reading::reading_error);
  };
  std::filesystem::copy_file(parts[0], folder.file("copy"));
  refused({parts[0], folder.file("copy")});
  refused({parts[0], parts[1], folder.file("copy")});
  refused({parts[1], parts[0]});
  std::uint64_t kernels = 0;
  for (const event& e : trace.events()) kernels += e.kind == event_kind::kernel;
  CHECK(o.by_kind[static_cast<std::size_t>(event_kind::kernel)] == kernels);
  parts.pop_back();
  kept_trace less;
  CHECK(complains(cutrace_reading::read(parts, less), "not given"));
}

TEST_CASE("a Perfetto trace ends when its session was asked to end, although its clocks were read once more later") {
  const temporary_folder folder;
  cutrace::perfetto_sink sink(folder.file("t.pftrace"));
  const std::string boot = cutrace::detail::read_boot_id();
  cutrace::trace_info info = sample::info();
  info.process_id = static_cast<std::uint32_t>(::getpid());
  info.boot_id = boot.c_str();
  info.start = cutrace::detail::read_anchor(0);
  info.start.monotonic_ns -= 10000000000;  // so that a flush reads the clocks
  info.start.trace_ns = 7000;
  sink.open(info);
  event mark;
  mark.kind = event_kind::mark;
  mark.name = {"m", 1};
  mark.start_ns = mark.end_ns = 9000;
  sink.write({&mark, 1});
  sink.flush();
  cutrace::trace_summary summary = sample::summary(0, 0);
  summary.stop = info.start;
  for (std::uint64_t* const clock : {&summary.stop.realtime_ns, &summary.stop.monotonic_ns, &summary.stop.boottime_ns})
    *clock += 5000;
  summary.stop.trace_ns += 5000;
  sink.close(summary);
  kept_trace kept;
  CHECK(all_complaints(cutrace_reading::read({folder.file("t.pftrace")}, kept)) == "");
  CHECK(kept.info.start.trace_ns == 7000);
  CHECK(kept.stop.trace_ns == 12000);
  CHECK(kept.stop.monotonic_ns == summary.stop.monotonic_ns);
}

TEST_CASE("parts of a Perfetto trace of which the first ones hold descriptions alone") {
  const temporary_folder folder;
  cutrace::perfetto_options options;
  options.file.rotate_ns = 1;  // each flush begins a part
  event mark;
  mark.kind = event_kind::mark;
  mark.name = {"m", 1};
  mark.start_ns = mark.end_ns = 9000;
  cutrace::trace_info info = sample::info();
  info.start.trace_ns = 7000;
  {
    cutrace::perfetto_sink sink(folder.file("t.pftrace"), options);
    sink.open(info);
    for (std::uint32_t id = 1; id <= 3; ++id) {
      event thread;
      thread.kind = event_kind::thread;
      thread.thread_id = id;
      thread.name = {"t", 1};
      sink.write({&thread, 1});
      sink.flush();
    }
    sink.write({&mark, 1});
    sink.close(sample::summary(0, 0));
  }
  std::vector<std::string> parts;
  for (const auto& f : std::filesystem::directory_iterator(folder.path())) parts.push_back(f.path().string());
  std::sort(parts.begin(), parts.end());
  REQUIRE(parts.size() > 3);
  kept_trace kept;
  CHECK(all_complaints(cutrace_reading::read(parts, kept)) == "");
  CHECK(kept.events().back().kind == event_kind::mark);
  CHECK(kept.info.start.trace_ns == 7000);
  CHECK_THROWS_AS(cutrace_reading::read({parts[0], parts[1], parts[1], parts.back()}, kept),
                  cutrace_reading::reading_error);
}

TEST_CASE("a whole Perfetto trace given twice is refused") {
  const temporary_folder folder;
  cutrace::perfetto_sink plain(folder.file("t.pftrace")), zipped(folder.file("t.pftrace.gz"));
  for (cutrace::perfetto_sink* const one : {&plain, &zipped}) write(*one, late_marked(sample::server_run()));
  kept_trace kept;
  CHECK_THROWS_AS(cutrace_reading::read({folder.file("t.pftrace"), folder.file("t.pftrace.gz")}, kept),
                  cutrace_reading::reading_error);
}

TEST_CASE("a Perfetto trace that is cut anywhere") {
  const events all = late_marked(sample::server_run());
  const std::string whole = sample_bytes(all);
  const temporary_folder folder;
  std::uint64_t before = 0;
  for (std::size_t size = 200; size < whole.size(); size += 37) {
    CAPTURE(size);
    write_text(folder.file("t"), whole.substr(0, size));
    kept_trace kept;
    const outcome o = cutrace_reading::read({folder.file("t")}, kept);
    CHECK_FALSE(o.whole);
    CHECK(complains(o, "no end of the trace"));
    CHECK(kept.ends == 1);
    CHECK(o.events >= before);
    before = o.events;
  }
  CHECK(before > 20);
}

/// Memory stays in proportion to the number of entries, wherever their numbers begin.
TEST_CASE("the table of interned ids against a std::map") {
  std::mt19937_64 random(1);
  using table = cutrace_reading::interned_table<std::uint64_t>;
  for (int round = 0; round < 200; ++round) {
    table t;
    std::map<std::uint64_t, std::uint64_t> expected;
    const std::size_t before = cutrace_reading::memory_budget::of_process().used();
    for (int cleared = 0; cleared < 3; ++cleared) {
      const std::uint64_t from = 1 + random() % (random() % 2 == 0 ? 200 : table::limit), step = 1 + random() % 8;
      for (std::uint64_t i = 0; i < 100; ++i) {
        std::uint64_t n = from + i * step;
        if (random() % 8 == 0) n = random() % (table::limit + 2);
        std::uint64_t* const given = t.add(n);
        CHECK((given != nullptr) == (n != 0 && n < table::limit));
        if (given == nullptr) continue;
        CHECK(*given == 0);  // a number that is added again has a new entry
        *given = expected[n] = i + 1;
      }
      for (const auto& [n, value] : expected) {
        const std::uint64_t* const found = t.find(n);
        REQUIRE(found != nullptr);
        CHECK(*found == value);
      }
      for (const std::uint64_t n : {from - 1, from + 1, from + 100 * step, table::limit - 1, table::limit, UINT64_MAX})
        CHECK((t.find(n) != nullptr) == (expected.count(n) != 0));
      CHECK(cutrace_reading::memory_budget::of_process().used() - before < 100 * 1024);
      t.clear();
      expected.clear();
      CHECK(t.find(from) == nullptr);
    }
  }
}

TEST_CASE("broken packets") {
  const std::string whole = sample_bytes(late_marked(sample::server_run()));
  const temporary_folder folder;
  const auto read = [&](const std::string& bytes) {
    write_text(folder.file("t"), bytes);
    kept_trace kept;
    return cutrace_reading::read({folder.file("t")}, kept);
  };
  const std::uint64_t events = read(whole).events;
  const std::string packet("\x0a\x04\x50\x01\x5a\x7f", 6);  // an event that is longer than its packet
  const outcome broken = read(whole + packet + whole.substr(whole.size() - 1, 0));
  CHECK(broken.events == events);
  CHECK(complains(broken, "a broken packet"));
  CHECK(broken.problems.kinds().front().first.byte == whole.size());
  CHECK(complains(read(whole + std::string("\x0a\x04\x52\x01\x5a\x00", 6)), "wrong type"));
  CHECK(complains(read(whole + std::string("\x0a\x05\x50\x01\xf8\x7f\x01", 7)), "unknown field"));
  CHECK(complains(read(whole + std::string("\x12\x02\x50\x01", 4)), "an unknown field of the trace"));
  CHECK(complains(read(whole + "\x0a\xff\xff\xff\xff\x7f"), "more than 64 MiB"));
  CHECK(complains(read(whole + "\xff\xff"), "no packet begins here") == false);
  CHECK(complains(read(whole + std::string("\x09\x01", 2)), "no packet begins here"));
  CHECK(complains(read(whole + std::string("\x0a\x06\x50\x63\x5a\x02\x48\x02", 8)), "an end without its begin"));
}

TEST_CASE("device memory that is freed is not allocated, and memory of the host not the device's") {
  using operation = cutrace::memory_operation;
  event pinned = sample::memory(operation::allocate, 0x2000, 4096, 90, 3);
  pinned.memory.memory = cutrace::memory_kind::pinned;
  check_round_trip({sample::base(event_kind::process, "llm_server", 0, 0, 0), pinned,
                    sample::memory(operation::allocate, 0x1000, 4096, 100, 1),
                    sample::memory(operation::free, 0x1000, 4096, 200, 2)},
                   false, ".pftrace");
}

TEST_CASE("times are those of the session, also where work of a GPU comes first") {
  const temporary_folder folder;
  cutrace::trace_info info = sample::info();
  info.start.trace_ns = 1650000;
  {
    cutrace::perfetto_sink sink(folder.file("t"));
    write(sink, {sample::device(0, "NVIDIA H200"), sample::kernel("k", 2000000, 2001000, 7)}, info);
  }
  kept_trace kept;
  CHECK(all_complaints(cutrace_reading::read({folder.file("t")}, kept)) == "");
  CHECK(kept.info.start.trace_ns == 1650000);
  std::int64_t begin_ns = 0;
  bool described = false;
  for (const event& e : kept.events()) {
    if (e.kind == event_kind::kernel) begin_ns = e.start_ns;
    described = described || e.kind == event_kind::device;
  }
  CHECK(begin_ns == 2000000);
  CHECK(described);
}

TEST_CASE("as many GPUs as a report distinguishes keep their descriptions") {
  events all = {sample::base(event_kind::process, "llm_server", 0, 0, 0)};
  for (std::uint32_t i = 0; i < cutrace::analysis::trace_log::device_limit; ++i)
    all.push_back(sample::device(i, "NVIDIA H200"));
  check_round_trip(all, false, ".pftrace");
}

TEST_CASE("GPU work that runs long after its call belongs to the run of the stage that made the call") {
  events all;
  for (std::uint64_t i = 1; i <= 1500; ++i) {
    const auto at = static_cast<std::int64_t>(1000 * i);
    all.push_back(sample::api("cuLaunchKernel", at + 10, at + 20, i));
    all.push_back(sample::stage("step", at, at + 500, i));
    if (i <= 500) continue;
    const std::uint64_t of = i - 500;
    event work = sample::kernel("k", at + 600, at + 700, of);
    all.push_back(sample::in_stage(sample::called_at(work, static_cast<std::int64_t>(1000 * of + 10)), "step", of));
  }
  const temporary_folder folder;
  write_text(folder.file("t"), sample_bytes(all));
  kept_trace kept;
  CHECK(all_complaints(cutrace_reading::read({folder.file("t")}, kept)) == "");
  std::map<std::int64_t, std::uint64_t> runs;  // number by begin
  std::size_t kernels = 0;
  for (const event& e : kept.events())
    if (e.kind == event_kind::stage) runs[e.start_ns] = e.stage_id;
  for (const event& e : kept.events()) {
    if (e.kind != event_kind::kernel) continue;
    ++kernels;
    CHECK(runs[e.call_start_ns - 10] == e.stage_id);
  }
  CHECK(runs.size() == 1500);
  CHECK(kernels == 1000);
}

TEST_CASE("GPU work of a merged trace belongs to a run of its own rank, whatever the others do for the same request") {
  const cutrace::request_ref request = sample::request_id(7);
  events all;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      // The runs of the ranks overlap; work of even ones is read before their stages have ended.
      const auto at = static_cast<std::int64_t>(10000 * i + 100 * rank);
      const std::int64_t late = rank % 2 == 0 ? 0 : 6000;
      const std::uint64_t id = rank << 32 | i;
      event call = sample::api("cuLaunchKernel", at + 10, at + 20, id);
      event work =
          sample::in_stage(sample::called_at(sample::kernel("k", at + 1000 + late, at + 2000 + late, id), at + 10),
                           "step", id, &request, 1);
      event stage = sample::in_stage(sample::stage("step", at, at + 5000, id), "step", id, &request, 1);
      call.process_id = work.process_id = stage.process_id = 100 + static_cast<std::uint32_t>(rank);
      call.thread_id = work.thread_id = stage.thread_id = call.process_id;
      work.context = 1 + 1000 * static_cast<std::uint32_t>(rank);
      work.stream = 7 + 1000 * rank;
      for (const event& e : {call, work, stage}) all.push_back(e);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
  const temporary_folder folder;
  write_text(folder.file("t"), sample_bytes(all));
  kept_trace kept;
  CHECK(all_complaints(cutrace_reading::read({folder.file("t")}, kept)) == "");
  const std::vector<event> read = kept.events();
  std::map<std::uint64_t, const event*> runs;
  for (const event& e : read)
    if (e.kind == event_kind::stage) CHECK(runs.emplace(e.stage_id, &e).second);
  CHECK(runs.size() == 1200);
  std::size_t wrong = 0;
  for (const event& e : read) {
    if (e.kind != event_kind::kernel) continue;
    const auto run = runs.find(e.stage_id);
    wrong +=
        run == runs.end() || run->second->process_id != e.process_id || run->second->start_ns != e.call_start_ns - 10;
  }
  CHECK(wrong == 0);
}

TEST_CASE("memory does not grow with the runs of stages, each for another request") {
  constexpr std::uint64_t batch = 1000;
  const temporary_folder folder;
  std::uint64_t runs = 200000;
  bool ends = true;
  SUBCASE("stages that end, after their work's calls") {}
  SUBCASE("work alone, as of a part of one device: no stage ever ends") { ends = false, runs = 500000; }
  {
    cutrace::perfetto_sink sink(folder.file("t.pftrace"));
    sink.open(sample::info());
    for (std::uint64_t from = 0; from < runs; from += batch) {
      std::vector<cutrace::request_ref> requests;
      events all;
      for (std::uint64_t i = from; i < from + batch; ++i) requests.push_back(sample::request_id(i + 5));
      for (std::uint64_t i = from; i < from + batch; ++i) {
        const auto at = static_cast<std::int64_t>(1000 * i);
        const cutrace::request_ref* const of = &requests[i - from];
        if (ends) all.push_back(sample::api("cuLaunchKernel", at + 10, at + 20, i + 1));
        if (ends) all.push_back(sample::in_stage(sample::stage("step", at, at + 500, i + 1), "step", i + 1, of, 1));
        all.push_back(sample::in_stage(sample::called_at(sample::kernel("k", at + 600, at + 700, i + 1), at + 10),
                                       "step", i + 1, of, 1));
      }
      sink.write({all.data(), all.size()});
    }
    sink.close(sample::summary(3 * runs));
  }
  struct watching : cutrace::sink {
    void write(cutrace::event_view) override {
      used = std::max(used, cutrace_reading::memory_budget::of_process().used());
    }
    std::size_t used = 0;
  } watch;
  const std::size_t before = cutrace_reading::memory_budget::of_process().used();
  cutrace_reading::read({folder.file("t.pftrace")}, watch);
  CHECK(watch.used - before < std::size_t{16} << 20);
}

}  // namespace perfetto_reader_test
