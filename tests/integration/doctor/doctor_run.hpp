// SPDX-License-Identifier: Apache-2.0
// Runs `cutrace doctor --json` and finds its findings.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../support/child_process.hpp"
#include "../../support/temporary_folder.hpp"

namespace doctor_run {

using nlohmann::json;
using environment = std::map<std::string, std::string>;
using words = std::vector<std::string>;

/// Empties the variables of this list, which the shell of the tests may have set, unless `more` sets them.
inline environment clean(environment more) {
  for (const char* name :
       {"LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUTRACE", "CUTRACE_BACKEND",
        "CUTRACE_KINDS", "CUTRACE_CUPTI_LIBRARY", "CUTRACE_INJECT_LIBRARY", "CUTRACE_PRELOAD_LIBRARY",
        "CUTRACE_SIM_FAULTS", "CUTRACE_DOCTOR_ROOT", "CUDA_HOME", "CUDA_PATH", "CUDA_MPS_PIPE_DIRECTORY"})
    more.emplace(name, "");
  return more;
}

inline environment on_standin(environment more = {}) {
  more.emplace("LD_LIBRARY_PATH", STANDIN_FOLDER);
  more.emplace("CUTRACE_CUPTI_LIBRARY", STANDIN_CUPTI);
  return more;
}

struct outcome {
  test_support::finished_process process;
  json report;

  const json& finding(const std::string& id) const {
    for (const json& f : report.at("findings"))
      if (f.at("id") == id) return f;
    static const json none = {{"state", "absent"}, {"what", ""}, {"remedy", ""}};
    return none;
  }
  std::string state(const std::string& id) const { return finding(id).at("state"); }
  std::string what(const std::string& id) const { return finding(id).at("what"); }
  bool reported(const std::string& id, const std::string& part) const {
    return what(id).find(part) != std::string::npos;
  }
  std::string remedy(const std::string& id) const { return finding(id).at("remedy"); }
  /// State of a method whose worst finding other than "clock" is "unknown". "clock" looks at the real processor even on
  /// a made machine. Where the processor's time stamp counter is not invariant, "clock" is "limited", which is worse
  /// than "unknown".
  std::string unknown_at_worst() const { return state("clock") == "ok" ? "unknown" : "limited"; }
  const json& method(const std::string& name) const {
    for (const json& m : report.at("methods"))
      if (m.at("name") == name) return m;
    static const json none = {{"machine", "absent"}, {"works", false}, {"because", json::array()}};
    return none;
  }
  bool because(const std::string& name, const std::string& id) const {
    for (const json& b : method(name).at("because"))
      if (b == id) return true;
    return false;
  }
};

inline test_support::finished_process run_text(const environment& env, words more = {}) {
  const temporary_folder folder;
  words command{COMMAND, "doctor"};
  command.insert(command.end(), more.begin(), more.end());
  return test_support::run_process(command, folder.path(), clean(env));
}

/// Whatever is found, the command ends by itself, says nothing on stderr, and its exit code is the one it gives.
inline outcome run(const environment& env, words more = {}) {
  more.push_back("--json");
  outcome o{run_text(env, more), {}};
  INFO(o.process.output);
  INFO(o.process.errors);
  REQUIRE_FALSE(o.process.hung);
  REQUIRE(o.process.signal == 0);
  CHECK(o.process.errors.empty());
  o.report = json::parse(o.process.output);
  CHECK(o.process.exit_status == o.report.at("exit").get<int>());
  for (const json& f : o.report.at("findings")) {
    CAPTURE(f);
    CHECK_FALSE(f.at("what").get<std::string>().empty());
    if (f.at("state") == "broken") CHECK_FALSE(f.at("remedy").get<std::string>().empty());
    if (f.at("state") == "ok") CHECK(f.at("remedy").get<std::string>().empty());
  }
  return o;
}

/// A folder of files that doctor takes for /proc, /sys and /dev.
class made_machine {
 public:
  made_machine& file(const std::string& path, const std::string& text = "") {
    const std::string whole = folder_.path() + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole) << text << '\n';
    return *this;
  }
  std::string root() const { return folder_.path(); }
  /// What doctor says of it; the driver is the stand-in.
  outcome examined(environment more = {}) const {
    more.emplace("CUTRACE_DOCTOR_ROOT", root());
    return run(on_standin(more));
  }

 private:
  temporary_folder folder_;
};

}  // namespace doctor_run
