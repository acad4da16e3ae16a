// SPDX-License-Identifier: Apache-2.0
// What tracing costs an engine that makes many small kernels, copies and waits without graphs, as C++ inference engines
// do that compute each token on a stream of their own and set each input by a copy from pageable memory on the thread's
// default stream, which they wait for. At the begin of each token the host touches enough memory to drive tracers out
// of its caches. Then steps of given lengths, launches and waits.
//
//   engine_cost [--rounds N] [--limit SECONDS] [--only NAMES] [--nsys PATH] [--shorten N]
//   engine_cost --turns ROUNDS [--turn MS] [--only WORD]
//                                               clients by turns in one process, in an order drawn for each round
//   engine_cost --child CONFIGURATION           one measurement, as the table of configurations.hpp says
#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "arguments.hpp"
#include "calls.hpp"
#include "segments.hpp"
#include "table.hpp"
#include "traced.hpp"

namespace {

/// A step: so many kernels in so many milliseconds of the GPU, waited for so many times.
struct step_of {
  unsigned ms, launches, waits;
  std::string name() const {
    return "step." + std::to_string(ms) + "." + std::to_string(launches) + "." + std::to_string(waits);
  }
};
/// Leaves out steps whose kernels are shorter than 4 us: the host cannot launch as fast.
std::vector<step_of> all_steps() {
  std::vector<step_of> all;
  for (const unsigned ms : {1u, 5u, 20u})
    for (const unsigned launches : {50u, 250u, 1000u})
      for (const unsigned waits : {1u, 13u})
        if (ms * 1000 / launches >= 4) all.push_back({ms, launches, waits});
  return all;
}

class engine {
 public:
  static constexpr int layers = 12, kernels_a_layer = 21;
  static constexpr int launches = layers * kernels_a_layer, copies = layers + 1, waits = layers + 1;

  explicit engine(const bench::driver& gpu) : gpu_(gpu), busy_(gpu.busy_kernel()) {
    bench::driver::check(gpu.cuMemAlloc(&logits_, logits.size()), "cuMemAlloc");
    bench::driver::check(gpu.cuEventCreate(&event_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }

  void token() {
    CUTRACE_STAGE("token", tokens_++);
    for (std::size_t i = 0; i < host_work.size(); i += 64) host_work[i] = static_cast<char>(host_work[i] + 1);
    for (int layer = 0; layer < layers; ++layer) {
      set_input();
      for (int i = 0; i < kernels_a_layer; ++i) compute(2000);  // 1.2 us of an H200
    }
    bench::driver::check(gpu_.cuMemsetD8Async(logits_, 1, 64, gpu_.stream), "cuMemsetD8Async");
    bench::driver::check(gpu_.cuMemcpyDtoHAsync(logits.data(), logits_, logits.size(), gpu_.stream),
                         "cuMemcpyDtoHAsync");
    gpu_.synchronize();
    kernels += launches;
  }
  void step(const step_of& s) {
    CUTRACE_STAGE("step", s.launches);
    const double each_ns = s.ms * 1e6 / s.launches - 900;  // less what lies between two kernels
    for (unsigned i = 1; i <= s.launches; ++i) {
      compute(static_cast<std::uint64_t>(each_ns * 1.7));  // at 1.7 GHz, about
      if (s.waits != 1 && i % (s.launches / s.waits) == 0 && i / (s.launches / s.waits) < s.waits) gpu_.synchronize();
    }
    gpu_.synchronize();
    kernels += s.launches;
  }

  void set_input() {
    bench::driver::check(gpu_.cuMemcpyHtoDAsync(gpu_.device_memory, input.data(), input.size(), CU_STREAM_PER_THREAD),
                         "cuMemcpyHtoDAsync");
    bench::driver::check(gpu_.cuStreamSynchronize(CU_STREAM_PER_THREAD), "cuStreamSynchronize");
  }
  void compute(std::uint64_t cycles) {
    void* parameters[] = {&cycles};
    bench::driver::check(gpu_.cuLaunchKernel(busy_, 1, 1, 1, 32, 1, 1, 0, gpu_.stream, parameters, nullptr),
                         "cuLaunchKernel");
  }
  void record() { bench::driver::check(gpu_.cuEventRecord(event_, gpu_.stream), "cuEventRecord"); }
  void wait_for_event() { bench::driver::check(gpu_.cuEventSynchronize(event_), "cuEventSynchronize"); }
  void stream_waits() {
    bench::driver::check(gpu_.cuStreamWaitEvent(CU_STREAM_PER_THREAD, event_, 0), "cuStreamWaitEvent");
  }
  const bench::driver& gpu() const { return gpu_; }

  unsigned long long kernels = 0;  ///< that were launched in tokens and steps

 private:
  const bench::driver& gpu_;
  CUfunction busy_;
  CUevent event_{};
  CUdeviceptr logits_{};
  unsigned long long tokens_ = 0;
  std::vector<char> input = std::vector<char>(4096), logits = std::vector<char>(65536),
                    host_work = std::vector<char>(std::size_t{2} << 20);
};

/// Mean ns of a call of `one`, over `ns` of such calls, after a warm-up of a tenth of that time.
template <class One>
double cost(std::uint64_t ns, One one) {
  const auto repeat = [&](std::uint64_t for_ns) {
    const std::uint64_t begin = cutrace::clock::monotonic_ns();
    std::uint64_t n = 0, spent = 0;
    do {
      one();
      ++n;
      spent = cutrace::clock::monotonic_ns() - begin;
    } while (spent < for_ns);
    return static_cast<double>(spent) / static_cast<double>(n);
  };
  repeat(ns / 10);
  return repeat(ns);
}

int child(const std::string& name, std::uint64_t shorten) {
  return bench::measure_in_child(name, [&](const bench::driver& gpu, const bench::traced&) {
    engine e(gpu);
    cost(100000000 / shorten, [&] { e.token(); });
    bench::print_measured("token", cost(400000000 / shorten, [&] { e.token(); }) / 1000);
    for (const step_of& s : all_steps())
      bench::print_measured(s.name().c_str(), cost((s.ms * 3 + 12) * 1000000 / shorten, [&] { e.step(s); }) / 1000);
    return e.kernels;
  });
}

/// What may be CUPTI's client for a turn. None has latency timestamps (+latency): once on, they make launches dearer
/// for the rest of the process, even when switched off again. With such a client among these, all launches took a
/// quarter more in the end.
struct client {
  const char* name;
  bench::tracer who;
  const char* kinds;  ///< CUTRACE_KINDS
  const char* sink;
  std::uint32_t works = ~std::uint32_t{0};  ///< on which raw CUPTI has callbacks
  const char* watchdog = nullptr;
};
constexpr const char* plain = "kernel,memcpy,memset";
template <class... Works>
constexpr std::uint32_t calls_of(Works... w) {
  return ((1u << static_cast<unsigned>(w)) | ...);
}
using cutrace::cupti::function_work;
const client clients[] = {
    {"raw CUPTI, callbacks", bench::tracer::twin, plain, nullptr},
    {"raw CUPTI, spans", bench::tracer::spans, plain, nullptr},
    {"raw CUPTI, no callbacks", bench::tracer::records, plain, nullptr},
    {"raw CUPTI, callbacks of launches", bench::tracer::twin, plain, nullptr, calls_of(function_work::launch)},
    {"raw CUPTI, callbacks of copies and sets", bench::tracer::twin, plain, nullptr,
     calls_of(function_work::copy, function_work::set)},
    {"raw CUPTI, callbacks of waits", bench::tracer::twin, plain, nullptr, calls_of(function_work::synchronize)},
    {"raw CUPTI, kernels alone", bench::tracer::records, "kernel", nullptr},
    {"raw CUPTI, callbacks, +overhead", bench::tracer::twin, "kernel,memcpy,memset,overhead", nullptr},
    {"raw CUPTI, callbacks, +sync", bench::tracer::twin, "kernel,memcpy,memset,sync", nullptr},
    {"raw CUPTI, callbacks, +memory", bench::tracer::twin, "kernel,memcpy,memset,memory", nullptr},
    {"cutrace", bench::tracer::cutrace, "", "null"},
    {"cutrace, perfetto", bench::tracer::cutrace, "", "perfetto:/tmp/cutrace-engine-cost.pftrace"},
    {"cutrace, watchdog", bench::tracer::cutrace, "", "null", 0, "10s"},
    {"cutrace -overhead", bench::tracer::cutrace, "-overhead", "null"},
    {"cutrace +sync", bench::tracer::cutrace, "+sync", "null"},
    {"cutrace +event", bench::tracer::cutrace, "+event", "null"},
    {"cutrace +memory", bench::tracer::cutrace, "+memory", "null"},
    {"cutrace +runtime", bench::tracer::cutrace, "+runtime", "null"},
};

const client& client_named(const char* name) {
  for (const client& c : clients)
    if (std::strcmp(c.name, name) == 0) return c;
  std::fprintf(stderr, "engine_cost: no client has the name \"%s\"\n", name);
  std::exit(2);
}

/// One turn: `measure` while the client traces.
template <class Measure>
void turn(const client& c, unsigned long long& lost, Measure measure) {
  setenv("CUTRACE_KINDS", c.kinds, 1);
  if (c.who == bench::tracer::cutrace) {
    cutrace::session_options o;
    o.sinks = c.sink;
    o.watchdog = c.watchdog;
    cutrace::session trace(o);
    measure();
    trace.stop();
    lost += trace.stats().lost_total();
    return;
  }
  bench::raw_cupti raw;
  const bool started = raw.start(bench::form_of(c.who), c.works);
  if (started) measure();
  lost += bench::raw_cupti::finish().dropped;
  if (!started || !raw.leave()) std::exit(2);
}

using series = std::map<std::string, std::vector<double>>;

/// Waits of each kind, with their records and without.
void measure_waits(engine& e, series& ns, std::uint64_t turn_ns, std::mt19937& random, unsigned long long& lost) {
  const auto launch = [&e] { e.gpu().launch(); };
  const std::vector<std::pair<const char*, std::function<void()>>> waits = {
      {"idle stream", [&] { e.gpu().synchronize(); }},
      {"launch, stream", [&] { launch(), e.gpu().synchronize(); }},
      {"launch, event", [&] { launch(), e.record(), e.wait_for_event(); }},
      {"launch, stream waits for event, stream",
       [&] { launch(), e.record(), e.stream_waits(), e.gpu().synchronize(); }},
      {"copy, default stream of the thread", [&] { e.set_input(); }},
      {"launch, copy, default stream of the thread", [&] { launch(), e.set_input(); }},
  };
  const client both[] = {client_named("raw CUPTI, callbacks"), client_named("raw CUPTI, callbacks, +sync")};
  const int first = static_cast<int>(random() % 2);
  for (const int i : {first, 1 - first})
    turn(both[i], lost, [&] {
      for (const auto& w : waits)
        ns[std::string(w.first) + (i == 0 ? "" : " +sync")].push_back(cost(turn_ns / 4, w.second));
    });
  e.gpu().synchronize();
}

int by_turns(const bench::arguments& a) {
  const int rounds = static_cast<int>(a.number("--turns", 100));
  const auto turn_ns = static_cast<std::uint64_t>(a.number("--turn", 60) * 1e6);
  bench::print_machine();
  bench::forget_environment();
  std::mt19937 random{std::random_device{}()};
  series tokens, waits;
  unsigned long long lost = 0;
  std::vector<const client*> order;
  for (const client& c : clients)
    if (&c == clients || std::strcmp(c.name, "cutrace") == 0 ||
        std::strstr(c.name, a.text("--only").c_str()) != nullptr)
      if (bench::known_kinds({c.name, c.who, c.kinds})) order.push_back(&c);
  bench::driver gpu;
  std::unique_ptr<engine> e;
  const auto measured = [&](const client& c) {
    turn(c, lost, [&] {
      if (e == nullptr) {  // CUDA starts after the first client
        gpu.start();
        bench::stay_on_processor();
        e.reset(new engine(gpu));
      }
      tokens[c.name].push_back(cost(turn_ns, [&] { e->token(); }) / 1000);
    });
  };
  measured(clients[0]);
  tokens.clear();
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const client* c : order) measured(*c);
    measure_waits(*e, waits, turn_ns, random, lost);
  }
  const double us = bench::median(tokens[clients[0].name]);
  std::printf(
      "an engine's token: %d launches, %d copies, %d waits; traced by raw CUPTI with callbacks %.0f us: %.0f "
      "launches, %.0f copies, %.0f waits a second\n",
      engine::launches, engine::copies, engine::waits, us, engine::launches / us * 1e6, engine::copies / us * 1e6,
      engine::waits / us * 1e6);
  for (const client& c : clients)
    if (&c != clients && !tokens[c.name].empty()) {
      const std::string what = std::string("token, ") + c.name + " / raw CUPTI, callbacks";
      const bool ours = c.who == bench::tracer::cutrace && std::strlen(c.kinds) == 0;
      if (ours)
        bench::print_verdict(what.c_str(), tokens[c.name], tokens[clients[0].name], "us", 1.03);
      else
        bench::print_ratio(what.c_str(), tokens[c.name], tokens[clients[0].name], "us"), std::printf("\n");
    }
  if (!tokens["cutrace, watchdog"].empty() && !tokens["cutrace"].empty())
    bench::print_verdict("token, cutrace, watchdog / cutrace", tokens["cutrace, watchdog"], tokens["cutrace"], "us",
                         1.01);
  for (const auto& w : waits)
    if (const auto with = waits.find(w.first + " +sync"); with != waits.end()) {
      bench::print_ratio((w.first + ": +sync / without").c_str(), with->second, w.second, "ns");
      std::printf("\n");
    }
  std::printf("%llu lost\n", lost);
  return lost == 0 ? 0 : 1;
}

/// What tracing adds, in percent of the untraced step of the same round.
void print_steps(const bench::rounds& r) {
  std::printf("\nadded, %% of the untraced step  [95 %% interval of the median of the pairs]\n%-44s",
              "ms launches waits, untraced");
  for (const std::string& name : r.names())
    if (name != "none") std::printf("  %-22s", name.c_str());
  std::printf("\n");
  for (const step_of& s : all_steps()) {
    const bench::paired none = r.pairs(s.name().c_str(), "none", "none");
    if (none.ours.empty()) continue;
    std::printf("%2u %4u %2u, %-32.2f", s.ms, s.launches, s.waits, bench::median(none.ours) / 1000);
    for (const std::string& name : r.names()) {
      const bench::paired p = r.pairs(s.name().c_str(), name.c_str(), "none");
      if (name == "none" || p.ours.empty()) continue;
      const bench::ratio q = bench::bootstrap(p.ours, p.reference);
      char text[64];
      std::snprintf(text, sizeof(text), "%+.1f [%+.1f, %+.1f]", 100 * (q.value - 1), 100 * (q.low - 1),
                    100 * (q.high - 1));
      std::printf("  %-22s", text);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv, bench::own_arguments + std::string(" --nsys --turns --turn"));
  if (!a.text("--child").empty()) return child(a.text("--child"), static_cast<std::uint64_t>(a.shorten()));
  if (!a.text("--turns").empty()) return by_turns(a);
  bench::rounds r(a.begin());
  bench::run_configurations(r, a, "none,raw,cutrace,cutrace-perfetto,cutrace-sync,nsys");
  bench::print_table(r, {{"token", "an engine's token, us", 0}}, bench::beside::added);
  bench::print_comparisons(
      r, {{"token, cutrace / raw CUPTI", "token", "us", "cutrace", "raw", 1.06},
          {"token, cutrace / Nsight Systems", "token", "us", "cutrace", "nsys", 0.95},
          {"token, cutrace with Perfetto / Nsight Systems", "token", "us", "cutrace-perfetto", "nsys", 0.95},
          {"token, cutrace with +sync / without", "token", "us", "cutrace-sync", "cutrace", 0},
          {"token, cutrace with +latency / without", "token", "us", "cutrace-latency", "cutrace", 0},
          {"token, raw CUPTI without callbacks / with", "token", "us", "raw-records", "raw", 0},
          {"token, one activity buffer for all threads", "token", "us", "raw-shared", "raw", 0},
          {"token, device buffers in pinned host memory", "token", "us", "raw-pinned", "raw", 0},
          {"token, device buffers of 32 MiB", "token", "us", "raw-large", "raw", 0},
          {"token, cutrace with device buffers of 32 MiB", "token", "us", "cutrace-large", "cutrace", 0},
          {"token, the same / Nsight Systems", "token", "us", "cutrace-large", "nsys", 0},
          {"token, device buffers of 64 KiB", "token", "us", "raw-small", "raw", 0},
          {"token, raw CUPTI / untraced", "token", "us", "raw", "none", 0},
          {"token, cutrace / untraced", "token", "us", "cutrace", "none", 0},
          {"token, Nsight Systems / untraced", "token", "us", "nsys", "none", 0}});
  print_steps(r);
  r.print_endings();
  return r.clean() ? 0 : 1;
}
