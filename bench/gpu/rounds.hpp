// SPDX-License-Identifier: Apache-2.0
// Contenders measured in rounds, one process a measurement: CUPTI slows a process even when it is off again. Each round
// begins with another contender, and every other one goes backwards, so that none always follows the same neighbour.
//
// A contender may measure the same in several states: it then calls its metrics "STATE.METRIC", and wherever a name of
// a contender is asked for, "CONTENDER STATE" will do.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "child.hpp"

namespace bench {

struct contender {
  std::string name;
  std::vector<job> jobs;  ///< one process each
  bool counts = false;    ///< its tracer prints how many records it saw; 0 means that it did not trace
};

struct round_options {
  int rounds = 11;
  double limit_s = 225;  ///< no round is begun that is not expected to end within it; 0: no limit
  int child_limit_s = 60;
};

/// Two contenders' values of the same rounds.
struct paired {
  std::vector<double> ours, reference;
};

class rounds {
 public:
  explicit rounds(const round_options& o) : options_(o) {
    char pattern[] = "/tmp/cutrace-bench-XXXXXX";
    if (mkdtemp(pattern) != nullptr) folder_ = pattern;
  }
  rounds(const rounds&) = delete;
  rounds& operator=(const rounds&) = delete;
  ~rounds() {
    if (!folder_.empty() && std::system(("rm -rf " + folder_).c_str()) != 0) std::perror(folder_.c_str());
  }

  /// For what foreign programs write; gone with this object.
  const std::string& folder() const { return folder_; }

  /// A contender that fails is left out of later rounds; one in a foreign program (a profiler: job::wrapped) only after
  /// its third failure or a timeout. Failures are printed on stderr as they come, and again by print_endings.
  void run(const std::vector<contender>& all) {
    for (const contender& c : all) lanes_.push_back({c});
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    double longest = 0;
    for (done_ = 0; done_ < options_.rounds; ++done_) {
      const double before = elapsed();
      if (options_.limit_s > 0 && done_ > 0 && before + longest > options_.limit_s) break;
      const std::size_t n = lanes_.size();
      const std::size_t turn = static_cast<std::size_t>(done_);
      for (std::size_t k = 0; k < n; ++k) {
        lane& l = lanes_[((turn % 2 == 0 ? k : n - 1 - k) + turn) % n];
        const double start = elapsed();
        measure(l);
        l.last_s = elapsed() - start;
      }
      double of_failed = 0;  // what later rounds do without
      for (lane& l : lanes_) {
        l.close_round(turn + 1);
        of_failed += l.failed ? l.last_s : 0;
        l.last_s = 0;
      }
      longest = std::max(longest, elapsed() - before - of_failed);
    }
    std::printf("%d of %d rounds in %.0f s", done_, options_.rounds, elapsed());
    std::printf(done_ < options_.rounds ? "; the limit of %.0f s (LIMIT) left no time for more\n" : "\n",
                options_.limit_s);
  }

  /// Pairs of the rounds in which both were measured.
  paired pairs(const char* metric, const char* ours, const char* reference) const {
    paired p;
    const lane *a = find(ours), *b = find(reference);
    if (a == nullptr || b == nullptr) return p;
    for (int i = 0; i < done_; ++i) {
      const double x = a->value(in_state(ours, metric), i), y = b->value(in_state(reference, metric), i);
      if (std::isnan(x) || std::isnan(y)) continue;
      p.ours.push_back(x);
      p.reference.push_back(y);
    }
    return p;
  }

  int done() const { return done_; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const lane& l : lanes_) all.push_back(l.who.name);
    return all;
  }
  /// In how many rounds it failed.
  int failures(const char* name) const {
    const lane* l = find(name);
    return l != nullptr ? l->failures : 0;
  }
  /// Whether no contender failed, and each tracer saw all records that it should have seen and no others.
  bool clean() const {
    for (const lane& l : lanes_)
      if (l.failures != 0 || l.records < l.expected || l.too_many() || l.lost != 0 || l.saw_nothing()) return false;
    return done_ > 0;
  }

  /// Behind the tables: what each tracer saw of what there was, and what there is to say of those that ended badly.
  void print_endings() const {
    std::printf("records of kernels and graphs, seen of expected:");
    for (const lane& l : lanes_) {
      if (l.records == 0 && l.expected == 0 && !l.saw_nothing()) continue;
      std::printf(" %s %llu%s", l.who.name.c_str(), l.records, l.saw_nothing() ? " (IT DID NOT TRACE)" : "");
      if (l.expected != 0)
        std::printf(" of %llu%s", l.expected,
                    l.records < l.expected ? " (MISSING)"
                    : l.too_many()         ? " (MORE THAN THERE WERE)"
                                           : "");
      if (l.lost != 0) std::printf(" (%llu LOST)", l.lost);
      std::printf(";");
    }
    std::printf("\n");
    for (const lane& l : lanes_)
      if (!l.ended.empty()) std::printf("%s\n", l.ended.c_str());
  }

 private:
  struct lane {
    contender who;
    std::map<std::string, std::vector<double>> values = {};  ///< by metric and round, NaN where it was not measured
    int failures = 0;
    bool failed = false;  ///< for good
    double last_s = 0;    ///< that it took in this round
    unsigned long long records = 0, expected = 0, lost = 0;
    std::string said = {}, ended = {};  ///< outcome::said, the first one; how it first ended badly

    bool too_many() const { return expected != 0 && records > expected; }
    bool saw_nothing() const { return who.counts && !failed && records == 0; }
    double value(const std::string& metric, int round) const {
      const auto at = values.find(metric);
      const std::size_t i = static_cast<std::size_t>(round);
      return at == values.end() || i >= at->second.size() ? std::nan("") : at->second[i];
    }
    void close_round(std::size_t n) {
      for (auto& v : values) v.second.resize(n, std::nan(""));
    }
  };

  const lane* find(const std::string& name) const {
    for (const lane& l : lanes_)
      if (l.who.name == name.substr(0, name.find(' '))) return &l;
    return nullptr;
  }
  static std::string in_state(const std::string& name, const char* metric) {
    const std::size_t space = name.find(' ');
    return space == std::string::npos ? metric : name.substr(space + 1) + "." + metric;
  }

  void measure(lane& l) {
    if (l.failed) return;
    for (const job& j : l.who.jobs) {
      const outcome o = run_child(j, options_.child_limit_s, folder_);
      if (!o.ok) {
        l.failed = ++l.failures == (j.wrapped ? 3 : 1) || o.late;
        std::fprintf(stderr, "%s FAILED in round %d: %s\n", l.who.name.c_str(), done_ + 1, o.complaint.c_str());
      }
      if (!o.complaint.empty() && (l.ended.empty() || (!o.ok && l.failures == 1)))
        l.ended = l.who.name + (o.ok ? " was measured, and then ended badly, in round " : " FAILED in round ") +
                  std::to_string(done_ + 1) + "\n    " + o.complaint;
      if (!o.ok) return;
      l.failed = o.late;  // though measured: it would use up the time of the others
      if (l.said.empty() && !o.said.empty()) {
        l.said = o.said;
        std::fprintf(stderr, "%s says: %s\n", l.who.name.c_str(), o.said.c_str());
      }
      for (const auto& v : o.values) {
        std::vector<double>& series = l.values[v.first];
        series.resize(static_cast<std::size_t>(done_), std::nan(""));
        series.push_back(v.second);
      }
      l.records += o.records;
      l.expected += o.expected;
      l.lost += o.lost;
    }
  }

  round_options options_;
  std::string folder_;
  std::vector<lane> lanes_;
  int done_ = 0;
};

}  // namespace bench
