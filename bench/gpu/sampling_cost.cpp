// SPDX-License-Identifier: Apache-2.0
// What sampling mode costs: inside a window, between windows, and over a whole cycle; per launch of one thread and of
// four, and per replay of a graph of 100 nodes. Beside it the least that a CUPTI client in this place can do: the raw
// twin, with everything on, and with everything off that had been on (what CUPTI still costs then is not cutrace's).
//
//   sampling_cost [--rounds N] [--limit SECONDS] [--shorten N] [--only NAMES]
//   sampling_cost --child none|always|raw|sampled|both            one measurement
//
// Processes differ by more than the one per cent that is allowed between windows. So the twin and cutrace take turns in
// one process ("both"), as one CUPTI client after the other, a segment of 30 ms in each state: drift and what a process
// happens to be like are the same for all, and the ratio of a process's medians is a pair. But each also bears the
// costs that the other leaves behind. Processes with one tracer each ("raw", "sampled") would show these, with wider
// intervals. For launches, whose cost drifts within a process, too, the two take quick turns as well.
#include <memory>

#include "arguments.hpp"
#include "segments.hpp"
#include "table.hpp"
#include "traced.hpp"

namespace {

using bench::counted;

cutrace::session_options null_sink(const char* windows) {
  cutrace::session_options o;
  o.sinks = "null";
  o.sample = windows;
  return o;
}

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "sampling_cost: %s\n", why);
  std::exit(2);
}

/// A session whose windows this program opens.
class sampled_client {
 public:
  sampled_client() : trace_(new cutrace::session(null_sink("requests"))) {}
  void record() {
    if (!trace_->open_window(10000)) give_up("no window within ten seconds");
  }
  /// The flush waits for the window to have closed.
  void rest() {
    trace_->close_window();
    if (!trace_->flush(20000)) give_up("a window did not close and flush within twenty seconds");
  }
  void end(counted& n) {
    trace_->stop();
    n.add(trace_->stats());
  }

 private:
  std::unique_ptr<cutrace::session> trace_;
};

class raw_client {
 public:
  raw_client() {
    if (!raw_.start(bench::raw_cupti::form::twin)) std::exit(2);
  }
  void record() { require(raw_.record(true)); }
  void rest() { require(raw_.record(false)); }
  void end(counted& n) {
    n.add(bench::raw_cupti::finish());
    require(raw_.leave());
  }

 private:
  static void require(bool ok) {
    if (!ok) std::exit(2);
  }
  bench::raw_cupti raw_;
};

/// How long things last; --shorten divides it.
struct durations {
  explicit durations(unsigned shorten)
      : segment_ns(30000000 / shorten),
        window_ms(std::max(10u, 15 / shorten)),
        period_ms(std::max(40u, 1500 / shorten)) {}
  std::uint64_t segment_ns;
  unsigned window_ms, period_ms;  ///< 1 %, like 200 ms in 20 s, but windows begin 13 times as often
};
constexpr int turns = 6;

/// CUDA is started after the first tracer, and used by all.
class program {
 public:
  explicit program(unsigned shorten) : times(shorten) {}
  bench::segments& work() {
    if (work_ == nullptr) {
      gpu_.start();
      work_.reset(new bench::segments(gpu_, times.segment_ns));
    }
    return *work_;
  }
  const durations times;

 private:
  bench::driver gpu_;
  std::unique_ptr<bench::segments> work_;
};

template <class Client>
void turn(program& p, Client& client, const char* on, const char* off, counted& n) {
  const unsigned long long before = p.work().kernels();
  client.record();
  p.work().measure(on);
  client.rest();
  n.expected += p.work().kernels() - before;
  p.work().measure(off);
}

template <class Client>
void take_turns(program& p, int count, const char* on, const char* off, counted& n) {
  Client client;
  for (int i = 0; i < count; ++i) turn(p, client, on, off, n);
  client.end(n);
}

/// Launches while nothing is recorded, the two clients in quick turns: each has everything on for a moment and off
/// again, and is then measured for 8 ms. A difference of one per cent shows only between adjacent turns. Printed is
/// 1,000 times the median of the ratios cutrace / raw CUPTI, and 1,000 for raw CUPTI.
void measure_neighbours(program& p, int pairs, unsigned shorten, counted& n) {
  const std::uint64_t segment_ns = 8000000 / shorten;
  std::vector<double> ratios[bench::segments::launches];
  for (int i = 0; i < pairs; ++i) {
    double raw[bench::segments::launches] = {}, ours[bench::segments::launches] = {};
    const auto measure = [&](auto& client, double* into) {
      client.record();
      client.rest();
      for (std::size_t w = 0; w < bench::segments::launches; ++w) {
        p.work().cost(w, segment_ns / 4);
        into[w] = p.work().cost(w, segment_ns);
      }
      client.end(n);
    };
    for (const bool raw_turn : {i % 2 == 0, i % 2 != 0}) {
      if (raw_turn) {
        raw_client c;
        measure(c, raw);
      } else {
        sampled_client c;
        measure(c, ours);
      }
    }
    for (std::size_t w = 0; w < bench::segments::launches; ++w) ratios[w].push_back(1000 * ours[w] / raw[w]);
  }
  for (std::size_t w = 0; w < bench::segments::launches; ++w) {
    const std::string metric = std::string(p.work().metric(w)) + "_near";
    bench::print_measured(("between." + metric).c_str(), bench::median(ratios[w]));
    bench::print_measured(("off." + metric).c_str(), 1000);
  }
}

/// Runs each work for the length of one whole sampling period, wherever in a period that begins.
void measure_cycle(program& p) {
  const std::string windows = std::to_string(p.times.window_ms) + "ms/" + std::to_string(p.times.period_ms) + "ms";
  cutrace::session trace(null_sink(windows.c_str()));
  p.work().measure("cycle", std::uint64_t{p.times.period_ms} * 1000000);
  trace.stop();
  if (bench::records_of(trace.stats()) == 0) give_up("there was no window in the cycle");
}

int child(const std::string& name, unsigned shorten) {
  program p(shorten);
  counted n;
  if (name == "none") {
    for (int i = 0; i < turns; ++i) p.work().measure("");
  } else if (name == "always") {
    cutrace::session trace(null_sink(nullptr));
    for (int i = 0; i < turns; ++i) p.work().measure("");
    trace.stop();
    n.add(trace.stats());
    n.expected = p.work().kernels();
  } else if (name == "raw") {
    take_turns<raw_client>(p, turns, "on", "off", n);
  } else if (name == "sampled") {
    take_turns<sampled_client>(p, turns, "inside", "between", n);
    measure_cycle(p);
  } else if (name == "both") {
    for (int i = 0; i < 2 * turns; ++i) {
      if (i % 4 == 0 || i % 4 == 3)  // neither is always the one that comes after
        take_turns<raw_client>(p, 1, "on", "off", n);
      else
        take_turns<sampled_client>(p, 1, "inside", "between", n);
    }
    measure_neighbours(p, 40, shorten, n);
  } else {
    std::fprintf(stderr, "there is no contender %s\n", name.c_str());
    return 2;
  }
  p.work().print();
  if (n.expected != 0) n.print();
  return 0;
}

struct work {
  const char *metric, *name, *unit;
  double budget_inside;
};
constexpr work works[] = {{"launch", "launch", "ns", 1.15},
                          {"launch_4", "launch, four threads", "ns", 1.15},
                          {"graph_100", "replay", "us", 1.03}};

void print_budgets(const bench::rounds& r) {
  for (const work& w : works) {
    const auto line = [&](const char* what, const char* ours, const char* reference, double budget) {
      const std::string label = std::string(w.name) + ": " + what;
      bench::print_comparisons(r, {{label.c_str(), w.metric, w.unit, ours, reference, budget}});
    };
    line("between / raw off", "both between", "both off", 1.01);
    line("between / raw off, by processes", "sampled between", "raw off", 1.01);
    const std::string near = std::string(w.metric) + "_near";
    bench::print_comparisons(r, {{(std::string(w.name) + ": between / raw off, neighbours").c_str(), near.c_str(),
                                  "per mille", "both between", "both off", 1.01}});
    line("inside / raw on", "both inside", "both on", w.budget_inside);
    line("inside / raw on, by processes", "sampled inside", "raw on", w.budget_inside);
    line("inside / always on", "sampled inside", "always", 0);
    line("cycle / untraced", "sampled cycle", "none", 0);
    line("raw off / untraced", "raw off", "none", 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bench::arguments a(argc, argv, bench::own_arguments);
  if (!a.text("--child").empty()) return child(a.text("--child"), static_cast<unsigned>(a.shorten()));
  bench::rounds r(a.begin());
  std::vector<bench::contender> all;
  for (const std::string& name : a.list("--only", "none,both,raw,sampled,always"))
    all.push_back({name, {{bench::child_command(a, name), "", false}}, name != "none"});
  r.run(all);
  std::printf("each figure a process's median of %d segments or more; what is added to the untraced process\n", turns);
  bench::print_table(r,
                     {{"launch", "ns a launch", 0},
                      {"launch_4", "ns a launch, four threads", 0},
                      {"graph_100", "us a replay, 100 nodes", 2}},
                     bench::beside::added,
                     {"none", "raw off", "sampled between", "both off", "both between", "sampled cycle", "raw on",
                      "sampled inside", "both on", "both inside", "always"});
  print_budgets(r);
  r.print_endings();
  return r.clean() ? 0 : 1;
}
