// SPDX-License-Identifier: Apache-2.0
// A program of these tests under `cutrace run --method ebpf`, on their driver, quietly into JSONL.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "../run_command/run_support.hpp"

namespace ebpf_support {

using run_support::jsonl_trace;
using run_support::run;

/// An environment with the driver.
inline std::map<std::string, std::string> with(std::map<std::string, std::string> more = {}) {
  more.emplace("LD_LIBRARY_PATH", DRIVER_FOLDER);
  return more;
}

struct traced {
  run r;
  explicit traced(const std::vector<std::string>& program,
                  const std::map<std::string, std::string>& environment = with(), std::vector<std::string> options = {})
      : r(
            [&] {
              options.insert(options.end(), {"--method", "ebpf", "--sink", "jsonl", "--quiet"});
              return options;
            }(),
            [&] {
              std::vector<std::string> all{SUBJECT};
              all.insert(all.end(), program.begin(), program.end());
              return all;
            }(),
            environment) {
    CAPTURE(r.ended.errors);
    CHECK_FALSE(r.ended.hung);
  }
  jsonl_trace trace() const {
    REQUIRE_MESSAGE(r.files(".jsonl").size() == 1, r.ended.errors);
    return jsonl_trace(r.files(".jsonl")[0]);
  }
};

inline std::string notes(const jsonl_trace& t) { return t.footer.at("notes").dump(); }

}  // namespace ebpf_support
