// SPDX-License-Identifier: Apache-2.0
// Eight threads pass markers as fast as they can while the collector runs; afterwards the sums must fit to the unit.
//
//   loss_identity --pool room|smallest|wait --load plain|mixed --stages N      N for each thread
//
// pool   room      chunks (buffers of records) for all of it: nothing may be lost
//        smallest  1 MiB: what does not fit is lost and counted
//        wait      1 MiB, and threads wait for the collector (so they may with `room`): nothing may be lost
// load   plain     stages with a number, one record each
//        mixed     texts, batches and run-time names besides: groups of several records that must stay together
#include <cstdio>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t thread_count = 8;
int failures = 0;

void expect_equal(std::uint64_t found, std::uint64_t wanted, const char* what) {
  if (found == wanted) return;
  ++failures;
  std::printf("FAILED: %s: %llu, expected %llu\n", what, static_cast<unsigned long long>(found),
              static_cast<unsigned long long>(wanted));
}
void expect(bool ok, const char* what) {
  if (ok) return;
  ++failures;
  std::printf("FAILED: %s\n", what);
}

/// One of 13, of one to four records: all of them fit into the smallest table of names.
std::string request_text(std::uint64_t i) { return std::string(1 + i % 13 * 15, static_cast<char>('a' + i % 13)); }

/// Counts what arrives and looks whether groups of records were put together again as they were written.
struct counting_sink : cutrace::sink {
  std::uint64_t events = 0, stages = 0, wrong = 0, losses_reported = 0;

  void write(cutrace::event_view view) override {
    for (const cutrace::event& e : view) {
      ++events;
      if (e.kind == cutrace::event_kind::loss) losses_reported += e.loss.count;
      if (e.kind != cutrace::event_kind::stage) continue;
      ++stages;
      wrong += right(e) ? 0 : 1;
    }
  }
  /// A stage whose description was lost comes without its requests: that is counted, not wrong.
  static bool right(const cutrace::event& e) {
    const std::string name(e.name.data, e.name.size);
    if (name == "numbered") return e.request_count == 1;
    if (name == "batched") return e.request_count == 0 || right_batch(e);
    if (name == "texted") return e.request_count == 0 || right_text(e.requests[0].name);
    return name == "named at run time" || name == "(name lost)";
  }
  static bool right_batch(const cutrace::event& e) {
    if (e.request_count != 1 + e.requests[0].id % 40) return false;
    for (std::uint32_t i = 0; i < e.request_count; ++i)
      if (e.requests[i].id != e.requests[0].id + i) return false;
    return true;
  }
  static bool right_text(const cutrace::text& t) {
    const std::string all(t.data, t.size);
    return !all.empty() && all == std::string(all.size(), all[0]);
  }
};

void plain(std::uint64_t n) {
  for (std::uint64_t i = 0; i < n; ++i) CUTRACE_STAGE("numbered", i);
}

void mixed(std::uint64_t n) {
  std::uint64_t ids[40];
  for (std::uint64_t i = 0; i < n; ++i) {
    switch (i % 4) {
      case 0: {
        CUTRACE_STAGE("numbered", i);
        break;
      }
      case 1: {
        CUTRACE_STAGE("texted", request_text(i));
        break;
      }
      case 2: {
        for (std::uint64_t k = 0; k < 40; ++k) ids[k] = i + k;
        CUTRACE_STAGE_BATCH("batched", ids, 1 + i % 40);
        break;
      }
      default: {
        CUTRACE_STAGE_DYNAMIC("named at run time", i);
        break;
      }
    }
  }
}

struct load {
  std::string pool = "room", kind = "plain";
  std::uint64_t stages = 1000000;
};

cutrace::session_options options_of(const load& l) {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "";
  o.memory_limit_bytes = std::size_t{1} << 20;
  if (l.pool == "room") {
    // 11/48 of the limit are chunks. Plain stages are one record, mixed ones three on average and eight at the most.
    const std::uint64_t records = thread_count * l.stages * (l.kind == "plain" ? 1 : 4) + thread_count * 2048;
    o.memory_limit_bytes = static_cast<std::size_t>(records * 64 * 48 / 11 * 11 / 10) + (std::size_t{8} << 20);
  }
  if (l.pool != "smallest") {
    o.overflow = cutrace::overflow_policy::wait;
    o.overflow_wait_us = 600 * 1000 * 1000;  // generous: a loaded machine must not make this test fail
  }
  return o;
}

void check(const load& l, const cutrace::stats& s, const counting_sink& sink) {
  const std::uint64_t passed = thread_count * l.stages;
  const auto kind = [&](cutrace::event_kind k) { return s.by_kind[static_cast<std::size_t>(k)]; };
  const std::uint64_t lost = s.lost[static_cast<std::size_t>(cutrace::loss_cause::chunk_full)];
  std::uint64_t kinds = 0;
  for (const std::uint64_t n : s.by_kind) kinds += n;
  expect_equal(s.produced, s.delivered + s.lost_total(), "produced = delivered + lost");
  expect_equal(s.pending, 0, "pending");
  expect_equal(kinds, s.delivered, "sum over kinds = delivered");
  expect_equal(s.lost_total(), lost, "nothing but full chunks loses anything here");
  expect_equal(kind(cutrace::event_kind::thread) >= thread_count, 1, "threads are described");
  expect_equal(sink.events, s.delivered, "events in the sink = delivered");
  expect_equal(sink.stages, kind(cutrace::event_kind::stage), "stages in the sink = stages delivered");
  expect_equal(sink.wrong, 0, "stages whose name or requests are not as written");
  expect_equal(sink.losses_reported, lost, "loss events report all that was lost");
  expect_equal(s.sinks[0].delivered, s.sinks[0].written, "the sink took everything");
  // A stage with text or batch is two groups of records: without the first one it is delivered, but lacks requests.
  expect_equal(kind(cutrace::event_kind::stage) + lost, passed, "stages delivered + lost = stages passed");
  if (l.pool == "smallest") {
    expect(lost != 0, "the smallest pool was too large to show a loss: pass more stages");
  } else {
    const std::uint64_t others = s.delivered - kind(cutrace::event_kind::stage);
    expect_equal(lost, 0, "lost");
    expect_equal(kind(cutrace::event_kind::stage), passed, "stages delivered");
    expect_equal(s.produced, passed + others, "produced = stages + descriptions of threads and the process");
    expect_equal(others, kind(cutrace::event_kind::thread) + kind(cutrace::event_kind::process),
                 "what is no stage is a description");
  }
  std::printf("passed %llu, delivered %llu stages, lost %llu, produced %llu, memory %llu KiB, collector %llu ms\n",
              static_cast<unsigned long long>(passed),
              static_cast<unsigned long long>(kind(cutrace::event_kind::stage)), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(s.produced), static_cast<unsigned long long>(s.memory_bytes >> 10),
              static_cast<unsigned long long>(s.collector_cpu_ns / 1000000));
}

load parse(int argc, char** argv) {
  load l;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--pool")
      l.pool = argv[i + 1];
    else if (name == "--load")
      l.kind = argv[i + 1];
    else if (name == "--stages")
      l.stages = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return l;
}

}  // namespace

int main(int argc, char** argv) {
  const load l = parse(argc, argv);
  counting_sink sink;
  cutrace::session trace(options_of(l));
  trace.add_sink(sink);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < thread_count; ++i)
    threads.emplace_back([&l] { l.kind == "plain" ? plain(l.stages) : mixed(l.stages); });
  for (std::thread& t : threads) t.join();
  trace.stop();
  check(l, trace.stats(), sink);
  return failures == 0 ? 0 : 1;
}
