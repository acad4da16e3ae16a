// SPDX-License-Identifier: Apache-2.0
// libcupti: the one that cutrace would open, its version against the driver's, the others that lie about, and whether
// another tool of the process has it already.
#include "checks.hpp"
#include "cupti_probe.hpp"

namespace cutrace_tool::doctor {

namespace {

finding check_library(const driver_facts& d, const cupti_facts& c) {
  finding f{"cupti.library", for_cupti, state::ok, "", ""};
  if (!c.built_in) {
    f.state = state::broken;
    f.what = "this cutrace was built without CUPTI's headers: it records no GPU work";
    f.remedy = "build it where the headers of CUDA are (scripts/setup --with-cuda)";
    return f;
  }
  if (!c.why_not.empty() || c.path.empty()) {
    f.state = state::broken;
    f.what = !c.why_not.empty() ? c.why_not : c.library_failure;
    f.remedy =
        "install CUPTI of the driver's major version (package cuda-cupti, or pip install nvidia-cuda-cupti), and "
        "name its file in CUTRACE_CUPTI_LIBRARY where it lies elsewhere";
    if (!variable("CUTRACE_CUPTI_LIBRARY").empty())
      f.remedy = "let CUTRACE_CUPTI_LIBRARY name a whole libcupti.so, or unset it";
    return f;
  }
  f.what = c.path + (c.version.empty() ? std::string(", which does not say its version") : ", CUPTI " + c.version);
  if (!c.mismatch.empty()) {
    f.state = state::limited;
    f.what = c.mismatch;
    f.remedy = "install CUPTI of CUDA " + std::to_string(d.version / 1000) + ", the driver's major version";
  } else if (d.version == 0) {
    f.what += "; not compared with the driver, because there is none that gives its version";
  }
  return f;
}

finding check_subscriber(const setup& s, const driver_facts& d, const cupti_facts& c) {
  finding f{"cupti.subscriber", for_cupti, state::ok, "CUPTI lets itself be used: no other tool has it", ""};
  if (c.subscribed && c.probe.finished()) {
    if (c.no_records.empty()) return f;
    f.state = state::broken;
    f.what = "CUPTI can be used, but kernels cannot be recorded: " + c.no_records;
    f.remedy = c.no_records.find("INSUFFICIENT_PRIVILEGES") != std::string::npos
                   ? "the administrator can allow it with the module option NVreg_RestrictProfilingToAdminUsers=0"
                   : "NVIDIA's CUPTI manual explains the code; dmesg (lines of NVRM) may say more";
    return f;
  }
  const std::string failure = c.probe.failure(s.patience_seconds);
  if (!c.refusal.empty() || (!failure.empty() && c.library_failure.empty())) {
    f.state = state::broken;
    f.what = !c.refusal.empty() ? c.refusal : failure;
    f.remedy = c.taken ? "one tool at a time: stop the other one, or take it out of LD_PRELOAD"
                       : "nvidia-smi and dmesg (lines of NVRM) say more";
    if (!c.replaceable) return f;
    // cutrace run replaces the variable's value: only programs that start a session themselves meet the other tool.
    f.state = state::limited;
    f.what = "CUDA_INJECTION64_PATH loads another tool into programs: " + f.what +
             "; cutrace run puts its own library in that place";
    f.remedy = "unset CUDA_INJECTION64_PATH (" + variable("CUDA_INJECTION64_PATH") +
               ") for programs with a session of their own";
    return f;
  }
  f.state = state::unknown;
  f.what = "not checked, because " + std::string(!c.built_in   ? "this cutrace was built without CUPTI"
                                                 : !d.usable() ? "there is no driver that works"
                                                 : c.path.empty() || !c.why_not.empty()
                                                     ? "there is no libcupti that can be used"
                                                     : "CUDA did not start with the tools that the "
                                                       "environment names");
  return f;
}

/// Every libcupti on the paths that cutrace searches, usable or not.
finding check_others(const setup& s, const driver_facts& d, const cupti_facts& c) {
  finding f{"cupti.files", for_cupti, state::ok, "", ""};
  if (!c.built_in) {
    f.state = state::unknown;
    f.what = "not checked, because this cutrace was built without CUPTI";
    return f;
  }
  std::string good, bad;
  for (const cupti_file& file : find_cupti_files(s, d)) {
    if (file.fault.empty())
      good += (good.empty() ? "" : ", ") + file.path + (file.version.empty() ? "" : " (CUPTI " + file.version + ")");
    else
      bad += (bad.empty() ? "" : "; ") +
             (file.fault.find(file.path) == std::string::npos ? file.path + ": " : std::string()) + file.fault;
  }
  f.what = good.empty() ? "no usable libcupti on the usual paths" : "on the usual paths: " + good;
  if (!bad.empty()) {
    f.state = state::limited;
    f.what += "; of no use: " + bad;
    f.remedy = "reinstall or remove the broken file: a tracer that loads it records no GPU work";
  }
  return f;
}

}  // namespace

findings check_cupti(const setup& s, const driver_facts& driver) {
  const cupti_facts c = ask_cupti(s, driver);
  return {check_library(driver, c), check_subscriber(s, driver, c), check_others(s, driver, c)};
}

}  // namespace cutrace_tool::doctor
