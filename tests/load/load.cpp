// SPDX-License-Identifier: Apache-2.0
// A generator of servers: threads that open stages for requests and launch, at a rate, in batches, by graphs, with open
// spans, with threads that come and go. What it did stands in memory of its own, and a sink compares every event with
// that: stage, requests, thread, call and times. Every missing event must be counted.
//
//   load threads=32 rate=2000 seconds=5 [batch=0] [text=0] [launches=1] [graph=0] [spans=0] [life=0] [hand=0]
//        [busy_ms=0 busy_rate=0] [stall_ms=0] [memory=48] [window=0] [flush=0] [complete=0] [prompt=0] [exact=0]
//   load seed=7            a load drawn from that seed
//
//   rate      units (a stage with its launches) a second and thread; 0: as fast as it goes
//   batch     requests of a unit; 0: one number. text=1: one text
//   launches  kernels of a unit. graph=N: a graph of N kernels besides
//   spans     spans that are open all the time, each with the requests of a unit
//   life      units after which a thread ends and another one takes over
//   hand=1    each unit's kernels are launched by another thread, which adopts its stage
//   memory    limit of the session, in MiB; window, flush: ms, 0: the session's default
//   stall_ms  how long the collector stands still, at the first kernel
//   busy_ms   one more thread has kernels of that length on the GPU, one after another, and does `busy_rate` units a
//             second beside them
//   complete=1  nothing may be lost or lacking
//   wait=1      threads wait for room (overflow_policy::wait), and nothing may be lost
//   prompt=1    but for those of the busy thread, records come within the window
//   exact=1     nothing is without its times
#include <cuda.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sink.hpp>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../support/gpu_program.hpp"
#include "../support/process_memory.hpp"
#include "../support/sanitized.hpp"
#include "raw_client.hpp"

namespace {

using test_support::report;

std::int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

struct plan {
  std::map<std::string, long> of = {{"threads", 8},   {"rate", 100},   {"seconds", 2}, {"batch", 0},  {"text", 0},
                                    {"launches", 1},  {"graph", 0},    {"spans", 0},   {"life", 0},   {"hand", 0},
                                    {"memory", 48},   {"complete", 0}, {"seed", 0},    {"trace", 1},  {"busy_ms", 0},
                                    {"busy_rate", 0}, {"window", 0},   {"flush", 0},   {"prompt", 0}, {"exact", 0},
                                    {"wait", 0},      {"stall_ms", 0}};
  long operator[](const char* key) const { return of.at(key); }

  void read(const char* word) {
    const char* equals = std::strchr(word, '=');
    const std::string key = equals != nullptr ? std::string(word, equals) : word;
    if (equals == nullptr || of.count(key) == 0) {
      std::printf("load: %s: keys are", word);
      for (const auto& one : of) std::printf(" %s", one.first.c_str());
      std::printf("\n");
      std::exit(2);
    }
    of[key] = std::atol(equals + 1);
  }
  /// Of any size that this machine bears.
  void draw(unsigned long seed) {
    std::mt19937_64 random(seed);
    const auto one_of = [&](std::vector<long> all) { return all[random() % all.size()]; };
    of["threads"] = one_of({1, 2, 8, 32, 100, 300});
    of["rate"] = one_of({0, 20, 100, 500, 2000});
    of["batch"] = one_of({0, 0, 0, 1, 7, 256, 1500});
    of["text"] = of["batch"] == 0 ? one_of({0, 0, 1}) : 0;
    of["launches"] = one_of({0, 1, 1, 3});
    of["graph"] = one_of({0, 0, 0, 5, 40});
    of["spans"] = one_of({0, 0, 10, 3000});
    of["life"] = one_of({0, 0, 1, 20});
    of["hand"] = one_of({0, 0, 1});
    of["memory"] = one_of({16, 48, 48, 256});
    of["seconds"] = 1;
  }
  std::string words() const {
    std::string all;
    for (const auto& one : of) all += " " + one.first + "=" + std::to_string(one.second);
    return all;
  }
};

/// What a unit of work was. Written by its thread, read by the sink, which finds the unit of a stage or call by its
/// request ids, and that of a kernel by its `form`.
struct unit {
  std::atomic<std::uint32_t> thread, launcher;
  std::atomic<std::int64_t> begin_ns, end_ns;
  std::uint8_t stage_seen, calls_seen, kernels_seen;
};

class truth {
 public:
  explicit truth(std::size_t most) : most_(most) {
    void* at =
        ::mmap(nullptr, most * sizeof(unit), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) std::exit(3);
    units_ = static_cast<unit*>(at);
  }
  /// 0: there is no room for more.
  std::uint64_t next() {
    const std::uint64_t n = next_.fetch_add(1);
    return n < most_ ? n : 0;
  }
  unit& operator[](std::uint64_t n) { return units_[n]; }
  bool knows(std::uint64_t n) const { return n != 0 && n < std::min<std::uint64_t>(next_.load(), most_); }
  std::uint64_t count() const { return std::min<std::uint64_t>(next_.load(), most_) - 1; }

 private:
  std::size_t most_;
  unit* units_;
  std::atomic<std::uint64_t> next_{1};
};

constexpr std::uint64_t ids_a_unit = 2048;

/// Encodes a unit's number in a kernel's grid and dynamic shared memory. The grid alone would make late units slow.
struct form {
  static constexpr std::uint64_t blocks = 1024;
  static unsigned grid(std::uint64_t n) { return static_cast<unsigned>(n % blocks + 1); }
  static unsigned shared_bytes(std::uint64_t n) { return static_cast<unsigned>(n / blocks); }
  static std::uint64_t unit_of(const cutrace::event& e) {
    return e.kernel.dynamic_shared_bytes * blocks + e.kernel.grid[0] - 1;
  }
  static constexpr long units = blocks * 48000;  ///< each GPU has that much shared memory for a block
};

class checker final : public cutrace::sink {
 public:
  checker(const plan& p, truth& t) : plan_(p), truth_(t) {}
  const char* name() const noexcept override { return "checker"; }
  void open(const cutrace::trace_info& info) override {
    start_ns_ = static_cast<std::int64_t>(info.start.monotonic_ns) - info.start.trace_ns;
  }
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) take(e);
  }

  std::uint64_t stages = 0, calls = 0, kernels = 0, nodes = 0, spans = 0;
  std::uint64_t without_stage = 0, without_requests = 0, without_call = 0, lacking = 0;
  std::uint64_t busy = 0, late = 0, timeless = 0;
  std::int64_t slowest_ns = 0, slowest_busy_ns = 0;  ///< from a kernel's end until it was written
  std::atomic<std::uint32_t> busy_thread{0};
  std::map<std::string, std::uint64_t> wrong;

 private:
  using kind = cutrace::event_kind;
  static bool is(cutrace::text t, const char* what) { return std::string(t.data, t.size) == what; }

  void take(const cutrace::event& e) {
    const bool launch = e.kind == kind::api && (is(e.name, "cuLaunchKernel") || is(e.name, "cuGraphLaunch"));
    if (e.kind != kind::stage && e.kind != kind::kernel && !launch) return;
    if (e.end_ns < e.start_ns) ++wrong["end before begin"];
    if (e.kind == kind::kernel && !std::exchange(has_stood_still_, true))
      std::this_thread::sleep_for(std::chrono::milliseconds(plan_["stall_ms"]));
    const bool node = e.kind == kind::kernel && e.kernel.graph_node_id != 0;
    const bool span = e.kind == kind::stage && is(e.name, "span");
    const bool long_one = e.kind == kind::kernel && is(e.name, "spin");
    ++(span ? spans : e.kind == kind::stage ? stages : launch ? calls : node ? nodes : long_one ? busy : kernels);
    if (e.kind == kind::kernel) time_of(e, long_one);
    const bool no_call = e.kind == kind::kernel &&
                         (e.joined == cutrace::attribution::no_callback || e.joined == cutrace::attribution::expired);
    const bool no_stage = !no_call && e.stage_id != 0 && e.stage_name.size == 0;
    const bool no_requests = !no_stage && e.request_total != 0 && e.request_count == 0;
    without_call += no_call;
    without_stage += no_stage;
    without_requests += no_requests;
    lacking += no_call || no_stage || no_requests;
    const std::uint64_t of_form = e.kind == kind::kernel && !node && !long_one ? form::unit_of(e) : 0;
    if (of_form != 0 && !truth_.knows(of_form)) return void(++wrong["a kernel of no unit"]);
    if (of_form != 0 && ++truth_[of_form].kernels_seen > plan_["launches"]) ++wrong["a kernel twice"];
    if (no_call || no_stage || no_requests) return;
    if (!span && !is(e.kind == kind::stage ? e.name : e.stage_name, "unit")) return void(++wrong["another stage"]);
    const std::uint64_t n = unit_of(e);
    if (!truth_.knows(n)) return void(++wrong["requests of no unit"]);
    if (of_form != 0 && n != of_form) return void(++wrong["requests of another unit"]);
    if (span) return;
    unit& u = truth_[n];
    const bool adopted = e.kind == kind::stage && e.stage.adopted;
    if (e.kind == kind::stage && !adopted && ++u.stage_seen > 1) ++wrong["a stage twice"];
    if (launch && ++u.calls_seen > plan_["launches"] + (plan_["graph"] != 0)) ++wrong["a call twice"];
    const std::uint32_t thread = e.kind == kind::stage && !adopted ? u.thread.load() : u.launcher.load();
    if (e.thread_id != thread) ++wrong["another thread"];
    const std::int64_t host_begin = start_ns_ + (e.kind == kind::kernel ? e.call_start_ns : e.start_ns);
    if (host_begin < u.begin_ns.load() - slack_ns) ++wrong["before its unit"];
    const std::int64_t end = u.end_ns.load();
    if (end != 0 && host_begin > end + slack_ns) ++wrong["after its unit"];
    if (e.kind == kind::kernel && e.start_ns + slack_ns < e.call_start_ns) ++wrong["before its call"];
  }

  void time_of(const cutrace::event& e, bool long_one) {
    timeless += e.incomplete;
    if (e.incomplete) return;
    const std::int64_t took_ns = now_ns() - start_ns_ - e.end_ns;
    const bool of_busy = e.thread_id == busy_thread.load();
    if (long_one) slowest_busy_ns = std::max(slowest_busy_ns, took_ns);
    if (!of_busy) slowest_ns = std::max(slowest_ns, took_ns);
    late += e.late && !of_busy;
    if (long_one && e.duration_ns() + slack_ns < plan_["busy_ms"] * 1000000) ++wrong["a long kernel that is short"];
  }

  /// The unit that the event's requests name; 0: they are not those of one unit.
  std::uint64_t unit_of(const cutrace::event& e) const {
    const long batch = plan_["batch"];
    if (plan_["text"] != 0) {
      const std::string text(e.requests[0].name.data, e.requests[0].name.size);
      return e.request_count == 1 && text.rfind("request ", 0) == 0 ? std::strtoull(text.c_str() + 8, nullptr, 10) : 0;
    }
    if (batch == 0) return e.request_count == 1 ? e.requests[0].id : 0;
    const std::uint64_t n = e.requests[0].id / ids_a_unit;
    if (e.request_total != static_cast<std::uint64_t>(batch) || e.request_count != e.request_total) return 0;
    for (std::uint32_t i = 0; i < e.request_count; ++i)
      if (e.requests[i].id != n * ids_a_unit + i) return 0;
    return n;
  }

  static constexpr std::int64_t slack_ns = 100000;  ///< of the clock's bound and of reading clocks around a unit
  const plan& plan_;
  truth& truth_;
  std::int64_t start_ns_ = 0;
  bool has_stood_still_ = false;
};

/// The threads of a server.
class server {
 public:
  server(const plan& p, truth& t, const test_support::gpu_device& gpu) : plan_(p), truth_(t), gpu_(gpu) {
    if (plan_["graph"] == 0) return;
    CUstream stream{};
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CUgraph graph{};
    DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    gpu_.launch(stream, static_cast<int>(plan_["graph"]));
    DO(cuStreamEndCapture, stream, &graph);
    for (long i = 0; i < plan_["threads"]; ++i) {
      graphs_.emplace_back();
      DO(cuGraphInstantiateWithFlags, &graphs_.back(), graph, 0);
    }
  }

  void run(std::atomic<std::uint32_t>* busy_thread = nullptr) {
    std::vector<cutrace::span> open;
    for (long i = 0; i < plan_["spans"]; ++i) open_span(open);
    end_ns_ = now_ns() + plan_["seconds"] * 1000000000;
    std::vector<std::thread> all;
    for (long i = 0; i < plan_["threads"]; ++i) all.emplace_back([this, i] { lead(i); });
    if (plan_["busy_ms"] != 0) all.emplace_back([this, busy_thread] { be_busy(busy_thread); });
    for (std::thread& t : all) t.join();
    test_support::must(static_cast<int>(CU(cuCtxSynchronize)()), "cuCtxSynchronize");
  }

  std::atomic<std::uint64_t> units{0}, launched{0}, nodes{0}, spans{0}, busy{0};

 private:
  void open_span(std::vector<cutrace::span>& open) {
    const std::uint64_t n = truth_.next();
    if (n == 0) return;
    with_requests(n, [&](const cutrace::request& q) { open.push_back(CUTRACE_SPAN("span", q)); });
    ++spans;
  }

  template <class Use>
  void with_requests(std::uint64_t n, Use use) {
    if (plan_["text"] != 0) return use(cutrace::request("request " + std::to_string(n)));
    const std::size_t batch = static_cast<std::size_t>(plan_["batch"]);
    if (batch == 0) return use(cutrace::request(n));
    static thread_local std::vector<std::uint64_t> ids;
    ids.resize(batch);
    for (std::size_t i = 0; i < batch; ++i) ids[i] = n * ids_a_unit + i;
    use(cutrace::request::batch(ids.data(), ids.size()));
  }

  /// Runs place `place` of `threads`: one thread at a time works there, for `life` units each or for all of them.
  void lead(long place) {
    const long life = plan_["life"];
    std::uint64_t done = 0;
    if (life == 0) return work(place, ~std::uint64_t{0}, done);
    while (now_ns() < end_ns_ && !full_)
      std::thread([&] { work(place, static_cast<std::uint64_t>(life), done); }).join();
  }

  void work(long place, std::uint64_t most, std::uint64_t& done) {
    gpu_.use();
    CUstream stream{};
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    const std::int64_t period = plan_["rate"] != 0 ? 1000000000 / plan_["rate"] : 0;
    std::int64_t next = now_ns();
    const std::uint64_t until = most == ~std::uint64_t{0} ? most : done + most;
    for (; done < until && now_ns() < end_ns_; ++done) {
      const std::uint64_t n = truth_.next();
      if (n == 0) {
        full_ = true;
        break;
      }
      do_unit(place, n, stream);
      for (next += period; period != 0 && now_ns() < next;)
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<std::int64_t>(1, next - now_ns())));
      if (period == 0 && done % 64 == 63) DO(cuStreamSynchronize, stream);  // else work piles up without end
    }
    DO(cuStreamSynchronize, stream);
    DO(cuStreamDestroy, stream);
  }

  /// Long kernels, one after another, and units beside each.
  void be_busy(std::atomic<std::uint32_t>* self) {
    if (self != nullptr) *self = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    gpu_.use();
    CUstream long_ones{}, stream{};
    DO(cuStreamCreate, &long_ones, CU_STREAM_NON_BLOCKING);
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    const std::int64_t length_ns = plan_["busy_ms"] * 1000000, rate = plan_["busy_rate"];
    while (now_ns() < end_ns_ && !full_) {
      const std::uint64_t n = truth_.next();
      if (n == 0) break;
      unit& u = truth_[n];
      u.thread = u.launcher = static_cast<std::uint32_t>(::syscall(SYS_gettid));
      u.begin_ns = now_ns();
      with_requests(n, [&](const cutrace::request& q) {
        CUTRACE_STAGE("unit", q);
        gpu_.spin(long_ones, static_cast<std::uint64_t>(length_ns));
      });
      u.end_ns = now_ns();
      ++units, ++busy;
      for (std::int64_t next = now_ns(), end = next + length_ns; rate != 0 && now_ns() < end;) {
        const std::uint64_t one = truth_.next();
        if (one == 0) break;
        do_unit(0, one, stream);
        for (next += 1000000000 / rate; now_ns() < std::min(next, end);)
          std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<std::int64_t>(1, next - now_ns())));
      }
      DO(cuStreamSynchronize, long_ones);
    }
    DO(cuStreamSynchronize, stream);
    DO(cuStreamDestroy, stream);
    DO(cuStreamDestroy, long_ones);
  }

  void do_unit(long place, std::uint64_t n, CUstream stream) {
    unit& u = truth_[n];
    const auto self = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    u.thread = u.launcher = self;
    u.begin_ns = now_ns();
    with_requests(n, [&](const cutrace::request& q) {
      CUTRACE_STAGE("unit", q);
      if (plan_["hand"] != 0) {
        const cutrace::context handed = cutrace::context::capture();
        std::thread([&] {
          gpu_.use();
          u.launcher = static_cast<std::uint32_t>(::syscall(SYS_gettid));
          const cutrace::adopted_stage keep(handed);
          launch(place, n, stream);
        }).join();
      } else {
        launch(place, n, stream);
      }
    });
    u.end_ns = now_ns();
    ++units;
  }

  void launch(long place, std::uint64_t n, CUstream stream) {
    for (long k = 0; k < plan_["launches"]; ++k) {
      DO(cuLaunchKernel, gpu_.kernel, form::grid(n), 1, 1, 32, 1, 1, form::shared_bytes(n), stream, nullptr, nullptr);
      ++launched;
    }
    if (graphs_.empty()) return;
    DO(cuGraphLaunch, graphs_[static_cast<std::size_t>(place)], stream);
    nodes += static_cast<std::uint64_t>(plan_["graph"]);
  }

  const plan& plan_;
  truth& truth_;
  const test_support::gpu_device& gpu_;
  std::vector<CUgraphExec> graphs_;
  std::int64_t end_ns_ = 0;
  std::atomic<bool> full_{false};
};

/// The most that the process ever holds beyond what it held first.
class growth {
 public:
  growth() : first_(test_support::resident_bytes()), watch_([this] { look(); }) {}
  std::int64_t end() {
    ended_ = true;
    watch_.join();
    return static_cast<std::int64_t>(most_) - static_cast<std::int64_t>(first_);
  }

 private:
  void look() {
    while (!ended_) {
      most_ = std::max(most_, test_support::resident_bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  std::uint64_t first_, most_ = 0;
  std::atomic<bool> ended_{false};
  std::thread watch_;
};

/// Memory that the same load takes without a trace, by this program in another process; on a GPU, with the minimal
/// client of CUPTI (raw_client.hpp).
std::int64_t untraced_growth(const plan& p) {
  plan same = p;
  same.of["trace"] = 0;
  same.of["seconds"] = std::min(p["seconds"], 10L);
  same.of["busy_ms"] = std::min(p["busy_ms"], 5000L);
  char self[4096] = {};
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) return 0;
  std::FILE* f = ::popen((std::string(self) + same.words()).c_str(), "r");
  long long grown = 0;
  if (f == nullptr || std::fscanf(f, "grew %lld", &grown) != 1) grown = 0;
  if (f != nullptr) ::pclose(f);
  return grown;
}

std::string losses(const cutrace::stats& s) {
  std::string all;
  for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i)
    if (s.lost[i] != 0)
      all +=
          std::string(" ") + cutrace::to_string(static_cast<cutrace::loss_cause>(i)) + " " + std::to_string(s.lost[i]);
  for (std::size_t i = 0; i < cutrace::quality_count; ++i)
    if (s.quality_of[i] != 0)
      all += std::string(" ") + cutrace::to_string(static_cast<cutrace::quality>(i)) + " " +
             std::to_string(s.quality_of[i]);
  return all.empty() ? " nothing lost, nothing lacking" : all;
}

int run_untraced(const plan& p, truth& t, const test_support::gpu_device& gpu) {
  server work(p, t, gpu);
  growth g;
  std::atomic<bool> done{false};
  std::thread flusher;
  const bool raw = !gpu.is_standin();
  if (raw && !raw_client::start()) return 1;
  if (raw)
    flusher = std::thread([&] {
      for (; !done; std::this_thread::sleep_for(std::chrono::milliseconds(100))) raw_client::flush();
    });
  work.run();
  done = true;
  if (raw) flusher.join();
  std::printf("grew %lld\n",
              static_cast<long long>(g.end()) - static_cast<long long>(raw_client::buffers::all().bytes.load()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  plan p;
  for (int i = 1; i < argc; ++i) p.read(argv[i]);
  if (p["seed"] != 0 && p["trace"] != 0) {
    const long seed = p["seed"];
    p.draw(static_cast<unsigned long>(seed));
  }
  // As many units as the machine can do in that time, and no more.
  const long paced = (p["threads"] * (p["rate"] != 0 ? p["rate"] : 1000000) + p["busy_rate"]) * p["seconds"];
  const long most = std::min(std::max(4000000L, 300000 * p["seconds"]), form::units - 1000);
  truth units(static_cast<std::size_t>(std::min(paced + p["spans"], most)) + 1000);
  const test_support::gpu_device gpu;
  if (p["trace"] == 0) return run_untraced(p, units, gpu);

  std::printf("load%s\n", p.words().c_str());
  const std::int64_t without = untraced_growth(p);
  cutrace::session_options o;
  o.sinks = "null";
  o.backend = "cupti";
  o.memory_limit_bytes = static_cast<std::size_t>(p["memory"]) << 20;
  if (p["wait"] != 0) o.overflow = cutrace::overflow_policy::wait;
  if (p["window"] != 0) o.window_ms = static_cast<std::uint32_t>(p["window"]);
  if (p["flush"] != 0) o.flush_period_ms = static_cast<std::uint32_t>(p["flush"]);
  server work(p, units, gpu);
  growth grown;
  cutrace::session trace(o);
  checker& seen = trace.emplace_sink<checker>(p, units);
  work.run(&seen.busy_thread);
  // All that comes by itself is delivered in this time; what only stop() fetches is then late.
  if (p["prompt"] != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  const cutrace::stats running = trace.stats();
  trace.stop();
  const cutrace::stats s = trace.stats();
  const std::int64_t owned = grown.end() - without;

  const std::uint64_t parts = p["hand"] != 0 ? work.units.load() : 0;
  const std::uint64_t all_calls = work.launched + work.busy + (p["graph"] != 0 ? work.units - work.busy : 0);
  const std::uint64_t all_kernels = work.launched + work.nodes + work.busy;
  std::printf("     units %llu kernels %llu nodes %llu spans %llu;%s\n", (unsigned long long)work.units.load(),
              (unsigned long long)work.launched.load(), (unsigned long long)work.nodes.load(),
              (unsigned long long)work.spans.load(), losses(s).c_str());
  std::string wrong;
  for (const auto& one : seen.wrong) wrong += " " + one.first + ": " + std::to_string(one.second) + ";";
  report(seen.wrong.empty(), "each event is what was done", wrong);
  report(s.produced == s.delivered + s.lost_total(), "produced is delivered and lost");
  const auto quality = [&](cutrace::quality q) { return s.quality_of[static_cast<std::size_t>(q)]; };
  const std::uint64_t host_done = work.units + parts + work.spans, host_seen = seen.stages + seen.spans;
  const std::uint64_t lost_chunks = s.lost[static_cast<std::size_t>(cutrace::loss_cause::chunk_full)];
  const std::uint64_t lost_buffers = s.lost[static_cast<std::size_t>(cutrace::loss_cause::buffer_limit)];
  // At most, since lost calls of other functions, synchronisations and descriptions are counted, too.
  report(host_seen <= host_done && host_done - host_seen + (all_calls - seen.calls) <= lost_chunks,
         "stages and calls are there or counted",
         std::to_string(host_seen) + " of " + std::to_string(host_done) + " stages, " + std::to_string(seen.calls) +
             " of " + std::to_string(all_calls) + " calls");
  const std::uint64_t kernels_seen = seen.kernels + seen.nodes + seen.busy;
  report(kernels_seen <= all_kernels && all_kernels - kernels_seen <= lost_buffers, "kernels are there or counted",
         std::to_string(kernels_seen) + " of " + std::to_string(all_kernels));
  report(seen.timeless == quality(cutrace::quality::incomplete), "those without times are counted",
         std::to_string(seen.timeless));
  report(seen.without_stage <= quality(cutrace::quality::stage_unknown) &&
             seen.without_requests <= quality(cutrace::quality::requests_unknown) &&
             seen.without_call <= quality(cutrace::quality::unattributed) && seen.lacking <= s.lacking,
         "what is lacking is counted",
         std::to_string(seen.without_stage) + " without stage, " + std::to_string(seen.without_requests) +
             " without requests, " + std::to_string(seen.without_call) + " without call, " +
             std::to_string(seen.lacking) + " in all; counted " + std::to_string(s.lacking));
  if (seen.without_stage + seen.without_requests + seen.without_call == 0)
    report(s.lacking == 0, "and nothing else is", std::to_string(s.lacking));
  std::printf("     written at most %lld ms after their end, of the busy thread's long ones %lld ms; late %llu\n",
              (long long)(seen.slowest_ns / 1000000), (long long)(seen.slowest_busy_ns / 1000000),
              (unsigned long long)seen.late);
  if (p["prompt"] != 0) report(seen.late == 0, "records come within the window", std::to_string(seen.late) + " late");
  if (p["exact"] != 0) report(seen.timeless == 0, "all have their times", std::to_string(seen.timeless) + " have none");
  if (p["complete"] != 0) report(s.lost_total() + s.lacking == 0, "nothing is lost or lacking");
  if (p["wait"] != 0) report(s.lost_total() == 0, "nothing is lost where threads wait");
  // The untraced run lacks what CUPTI itself takes when records pile up: 24 MiB are allowed for it.
  const bool piles_up = p["seed"] != 0 || p["wait"] != 0;
  const std::int64_t limit = static_cast<std::int64_t>(s.memory_limit_bytes) + (piles_up ? 24 << 20 : 4 << 20);
  if (!sanitized) {
    report(owned <= limit, "memory",
           "grew by " + std::to_string(owned >> 20) + " MiB more than untraced, of " + std::to_string(limit >> 20) +
               "; by its own account " + std::to_string(running.memory_bytes >> 20) + " MiB");
    report(running.memory_bytes <= s.memory_limit_bytes + (4 << 20), "and by its own account");
  }
  return test_support::failures != 0 ? 1 : 0;
}
