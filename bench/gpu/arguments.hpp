// SPDX-License-Identifier: Apache-2.0
// The command line that the GPU benchmarks share, "--name value" pairs, and what follows from it: which configurations
// are measured, each in a child of the program itself.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "../support/pairs.hpp"
#include "configurations.hpp"
#include "rounds.hpp"

namespace bench {

class arguments {
 public:
  /// `known`: "--rounds --limit ...". Ends the program with a line about an argument that is not among them.
  arguments(int argc, char** argv, const std::string& known) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if ((" " + known + " ").find(" " + name + " ") == std::string::npos || i + 1 == argc) {
        std::fprintf(stderr, "%s: unknown argument or missing value: %s (%s)\n", argv[0], name.c_str(), known.c_str());
        std::exit(2);
      }
      values_[name] = argv[i + 1];
    }
  }
  std::string text(const char* name, const char* otherwise = "") const {
    const auto at = values_.find(name);
    return at == values_.end() ? otherwise : at->second;
  }
  double number(const char* name, double otherwise) const {
    const auto at = values_.find(name);
    return at == values_.end() ? otherwise : std::atof(at->second.c_str());
  }

  int shorten() const { return static_cast<int>(number("--shorten", 1)); }

  /// What the caller's environment says of tracing is forgotten, and the machine named.
  round_options begin() const {
    forget_environment();
    // Work that was shortened to try things out may run beside much else, where the collector starves at times.
    if (shorten() > 1) setenv("CUTRACE_MEMORY_LIMIT", "1G", 1);
    print_machine();
    round_options o;
    o.rounds = static_cast<int>(number("--rounds", o.rounds));
    o.limit_s = number("--limit", o.limit_s);
    o.child_limit_s = static_cast<int>(number("--child-limit", o.child_limit_s));
    return o;
  }
  /// Parted by commas.
  std::vector<std::string> list(const char* name, const char* otherwise) const {
    std::vector<std::string> words;
    std::istringstream text_of(text(name, otherwise));
    for (std::string word; std::getline(text_of, word, ',');) words.push_back(word);
    return words;
  }
  /// The rows that --only names, else `usual`; both parted by commas. Rows of Nsight Systems need --nsys. Rows
  /// with kinds that the backend does not know are left out, with a line on stdout. Ends the program with a line about
  /// a name that is no row.
  std::vector<const configuration*> chosen(const char* usual) const {
    std::vector<const configuration*> rows;
    for (const std::string& name : list("--only", usual)) {
      const configuration* c = find_configuration(name);
      if (c == nullptr) {
        std::fprintf(stderr, "--only: there is no configuration %s\n", name.c_str());
        std::exit(2);
      }
      if (c->who == tracer::nsys && text("--nsys").empty()) continue;
      if (known_kinds(*c))
        rows.push_back(c);
      else
        std::printf("%s is left out: the backend of this build does not know %s\n", c->name, c->environment);
    }
    return rows;
  }

 private:
  std::map<std::string, std::string> values_;
};

/// What each program knows that measures in children of itself.
constexpr const char* own_arguments = "--child --rounds --limit --child-limit --only --shorten";

/// The command that makes this very program measure `name`, as a child.
inline std::string child_command(const arguments& a, const std::string& name) {
  const std::string runtime = a.text("--runtime");
  return own_path() + " --child " + name + " --shorten " + a.text("--shorten", "1") +
         (runtime.empty() ? "" : " --runtime " + runtime);
}

/// Measures the chosen rows of configurations.hpp, and `others` beside them.
inline void run_configurations(rounds& r, const arguments& a, const char* usual,
                               const std::vector<contender>& others = {}) {
  std::vector<contender> all;
  for (const configuration* c : a.chosen(usual)) {
    const bool wrapped = c->who == tracer::nsys;
    const std::string command =
        wrapped ? nsys_prefix(a.text("--nsys"), *c, r.folder()) + child_command(a, "none") : child_command(a, c->name);
    all.push_back({c->name, {{command, "", wrapped}}, c->who != tracer::none && !wrapped});
  }
  all.insert(all.end(), others.begin(), others.end());
  r.run(all);
}

}  // namespace bench
