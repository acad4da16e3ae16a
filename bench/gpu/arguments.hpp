// SPDX-License-Identifier: Apache-2.0
// The command line that the GPU benchmarks share: "--name value" pairs.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

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

  round_options rounds() const {
    round_options o;
    o.rounds = static_cast<int>(number("--rounds", o.rounds));
    o.limit_s = number("--limit", o.limit_s);
    return o;
  }
  /// The rows that --only names, else `usual`; both separated by commas. Those of Nsight Systems only with --nsys. Ends
  /// the program with a line about a name that is no row.
  std::vector<const configuration*> chosen(const char* usual) const {
    std::vector<const configuration*> rows;
    std::istringstream list(text("--only", usual));
    for (std::string name; std::getline(list, name, ',');) {
      const configuration* c = find_configuration(name);
      if (c == nullptr) {
        std::fprintf(stderr, "--only: there is no configuration %s\n", name.c_str());
        std::exit(2);
      }
      if (c->who != tracer::nsys || !text("--nsys").empty()) rows.push_back(c);
    }
    return rows;
  }

 private:
  std::map<std::string, std::string> values_;
};

/// A row as a child of this very program, which knows "--child NAME --shorten N".
inline contender child_of(const configuration& c, const arguments& a, const std::string& folder) {
  const bool wrapped = c.who == tracer::nsys;
  const std::string self =
      own_path() + " --child " + (wrapped ? "none" : c.name) + " --shorten " + a.text("--shorten", "1");
  const bool counts = c.who != tracer::none && !wrapped;
  return {c.name, {{wrapped ? nsys_prefix(a.text("--nsys"), c, folder) + self : self, "", wrapped}}, counts};
}

}  // namespace bench
