// SPDX-License-Identifier: Apache-2.0
// What a traced process would meet in libcupti, asked in a child, with the backend's calls in their order.
#pragma once

#include <string>
#include <vector>

#include "child_probe.hpp"
#include "driver_probe.hpp"
#include "setup.hpp"

namespace cutrace_tool::doctor {

/// The library that cutrace would open, and whether it lets itself be used.
struct cupti_facts {
  probe_result probe;
  bool built_in = false;        ///< this cutrace has the CUPTI backend
  std::string path;             ///< empty where none was opened
  std::string library_failure;  ///< the loader hung or crashed
  std::string why_not;          ///< none was opened, or it is of no use
  std::string version;          ///< of the library's interface, such as 130001; empty: not reported
  std::string mismatch;         ///< why library and driver do not fit; empty: no such reason
  std::string refusal;          ///< the whole reason why it cannot be used in a process of this environment
  bool replaceable = false;     ///< the refusal ends where CUDA_INJECTION64_PATH does not name another tool
  bool taken = false;           ///< refused since there is another subscriber
  std::string no_records;       ///< why kernels cannot be recorded
  bool subscribed = false;      ///< cuptiSubscribe succeeded
};
cupti_facts ask_cupti(const setup& s, const driver_facts& driver);

/// One file that looks like a libcupti.
struct cupti_file {
  std::string path;
  std::string fault;    ///< why it cannot be used; empty where it can
  std::string version;  ///< of its interface; empty: not reported
};
/// Files that look like a libcupti on the paths that cutrace searches, each once.
std::vector<cupti_file> find_cupti_files(const setup& s, const driver_facts& driver);

}  // namespace cutrace_tool::doctor
