// SPDX-License-Identifier: Apache-2.0
#include "cutrace/run_environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <cutrace/output/path_pattern.hpp>
#include <cutrace/run/sampling.hpp>
#include <cutrace/sinks/prometheus/address.hpp>
#include <cutrace/sinks/sink_registry.hpp>

#include "cutrace/doctor/executable.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/program_file.hpp"
#include "cutrace/run_sinks.hpp"
#if defined(CUTRACE_WITH_CUPTI)
#include <cstdint>
#include <cutrace/cupti/options.hpp>
#endif

namespace cutrace_tool {

namespace {

/// Of a variable that stands there twice, the one that getenv finds: the first.
std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string text = *one;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

/// LD_PRELOAD is a list by colons or spaces. Libraries of cutrace in it are those of an outer `cutrace run`.
std::string without_own(const std::string& list) {
  std::string others;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find_first_of(" :", at), list.size());
    const std::string one = list.substr(at, end - at);
    const std::string name = one.substr(one.rfind('/') + 1);  // npos + 1 is 0
    if (!one.empty() && name.compare(0, 18, "libcutrace_preload") != 0 && name.compare(0, 16, "libcutrace_watch") != 0)
      others += (others.empty() ? "" : ":") + one;
    at = end + 1;
  }
  return others;
}

void check_time(const char* option, const std::string& value, std::uint32_t least_ms) {
  std::uint32_t ms = 0;
  if (!value.empty() && (!cutrace::detail::sampling::parse_time(value, ms) || ms < least_ms))
    throw usage_error(std::string(option) + "=\"" + value +
                      "\" cannot be used; accepted: " + cutrace::detail::sampling::accepted_time);
}

void check_kinds(const std::string& kinds) {
#if defined(CUTRACE_WITH_CUPTI)
  try {
    if (!kinds.empty()) cutrace::cupti::options().set_kinds(kinds);
  } catch (const std::exception& e) {
    throw usage_error(std::string("--kinds: ") + e.what());
  }
#else
  static_cast<void>(kinds);  // a backend with CUPTI checks them
#endif
}

/// The program writes one trace, and the process that gets the probes' records another. Both go to `status_folder`,
/// from which they are read and joined in the end.
void join_layers(run_environment& made, const std::string& status_folder) {
  std::string& sinks = made.variables["CUTRACE_SINKS"];
  for (cutrace::sink_spec& spec : cutrace::detail::parse_sink_specs(sinks.c_str(), "--sink"))
    if (spec.name() == "prometheus" && cutrace::prometheus::is_address(spec.take_path()))
      throw usage_error(
          "--method all joins the traces of a process when it has ended, too late for prometheus at an address; use "
          "--method cupti for it, or let it write a file: prometheus:FILE.prom");
  if (status_folder.find_first_of(",?") != std::string::npos)
    throw usage_error("\"" + status_folder + "\" holds a comma or a question mark; choose another folder with --out");
  made.joined_sinks = sinks;
  const std::string folder = cutrace::detail::pattern_of_path(status_folder);
  sinks = "jsonl:" + folder + "/calls.%p%u.jsonl";
  made.variables["CUTRACE_CALL_JOINS"] = "1";
  made.writers = {{"CUTRACE_SINKS", "jsonl:" + folder + "/probes.%p%u.jsonl"},
                  {"CUTRACE_RUN", status_folder + "/probes"},
                  {"CUTRACE_BACKEND", "ebpf"}};
}

}  // namespace

run_environment compose_environment(const run_options& options, const std::string& library, const std::string& watch,
                                    const std::string& out, const std::string& status_folder, unsigned columns) {
  check_time("--start-after", options.start_after, 0);
  check_time("--duration", options.duration, 1);
  check_kinds(options.kinds);
  run_environment made;
  made.variables = own_environment();
  std::map<std::string, std::string>& v = made.variables;
  const bool preload = options.method == "preload", outside = options.method == "ioctl" || options.method == "ebpf";
  const bool joined = options.method == "all";
  std::string inherited, without_effect;
  // What a method refuses as an option has no effect as a variable.
  const auto choose = [&](const char* name, const std::string& value, bool refused) {
    std::string& list = refused ? without_effect : inherited;
    if (!value.empty())
      v[name] = value;
    else if (v.count(name) != 0 && !v[name].empty())
      list += std::string(list.empty() ? "" : ", ") + name + "=" + v[name];
    if (refused && joined) v.erase(name);  // or the half of the trace that is made inside would obey it
  };
  choose("CUTRACE_KINDS", options.kinds, outside || preload);
  choose("CUTRACE_GRAPHS", options.graphs, outside || preload);
  choose("CUTRACE_START_AFTER", options.start_after, outside || joined);
  choose("CUTRACE_DURATION", options.duration, outside || joined);
  choose("CUTRACE_SAMPLE", {}, outside);
  choose("CUTRACE", {}, false);

  const std::string name = options.name.empty() ? name_for_files(options.program) : options.name;
  // Those that an outer `cutrace run` composed are not the user's.
  const std::string from_user = v.count("CUTRACE_RUN") == 0 ? v["CUTRACE_SINKS"] : std::string();
  if (!options.sinks.empty()) {
    if (!from_user.empty()) made.notes.push_back("--sink replaces CUTRACE_SINKS of the environment");
    v["CUTRACE_SINKS"] = compose_sinks(options.sinks, out, name, "--sink", columns);
  } else if (!from_user.empty()) {
    inherited += std::string(inherited.empty() ? "" : ", ") + "CUTRACE_SINKS=" + from_user;
    v["CUTRACE_SINKS"] = compose_sinks({from_user}, out, name, "CUTRACE_SINKS", columns);
  } else {
    v["CUTRACE_SINKS"] = compose_sinks({"ascii,jsonl"}, out, name, "--sink", columns);
  }
  if (!inherited.empty()) made.notes.push_back("taken from the environment: " + inherited);
  if (!without_effect.empty())
    made.notes.push_back("without effect, since --method " + options.method +
                         (joined    ? " traces the program from its beginning to its end: "
                          : preload ? " has no records of the GPU: "
                                    : " sees the program from outside: ") +
                         without_effect);

  std::string& preloaded = v["LD_PRELOAD"];
  preloaded = without_own(preloaded);
  std::string by_way_of;
  const bool ours = !outside && !doctor::what_runs(options.program[0], by_way_of).is_foreign();
  if (preload && ours) {
    if (library.find_first_of(" :") != std::string::npos)
      throw usage_error("LD_PRELOAD takes no path with a space or a colon: " + library);
    preloaded = library + (preloaded.empty() ? "" : ":" + preloaded);
    v["CUTRACE_BACKEND"] = "preload";
    if (options.gpu_events) v["CUTRACE_GPU_EVENTS"] = "1";
  } else if (!outside && v.count("CUTRACE_BACKEND") != 0 && v["CUTRACE_BACKEND"] == "preload") {
    v.erase("CUTRACE_BACKEND");
  }
  if (ours && watch.find_first_of(" :") != std::string::npos) {
    made.notes.push_back("LD_PRELOAD takes no path with a space or a colon, " + watch +
                         ": where the program leaves by _exit or a signal, its trace stays open");
  } else if (ours) {
    // Behind all others: their wrappers get each call first, as they would without this library.
    preloaded += (preloaded.empty() ? "" : ":") + watch;
    // Where AddressSanitizer's runtime is a library (gcc), it ends the program when another one comes before it,
    // although it works behind ours. An option that the user gives comes later in the list, and so prevails.
    std::string& sanitizer = v["ASAN_OPTIONS"];
    const std::string order = "verify_asan_link_order=0";
    if (sanitizer.compare(0, order.size(), order) != 0) sanitizer = order + (sanitizer.empty() ? "" : ":" + sanitizer);
  }
  if (preloaded.empty()) v.erase("LD_PRELOAD");

  if (outside) {  // the program is left alone: variables of an outer `cutrace run` and of this one are removed
    if (v.count("CUTRACE_RUN") != 0)
      for (const char* variable : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "CUTRACE_BACKEND"})
        v.erase(variable);
    made.writers = {
        {"CUTRACE_SINKS", v["CUTRACE_SINKS"]}, {"CUTRACE_RUN", status_folder}, {"CUTRACE_BACKEND", options.method}};
    for (const char* variable : {"CUTRACE_SINKS", "CUTRACE_RUN", "CUTRACE_RUN_PID"}) v.erase(variable);
    return made;
  }

  const auto take_over = [&](const char* variable) {
    const std::string before = v[variable];
    if (!before.empty() && before != library)
      made.notes.push_back(std::string(variable) + "=" + before + " of the environment is replaced");
    v[variable] = library;
  };
  if (!preload)
    take_over("CUDA_INJECTION64_PATH");
  else if (v.count("CUTRACE_RUN") != 0)
    v.erase("CUDA_INJECTION64_PATH");  // of an outer `cutrace run`
  const std::string nvtx_before = v.count("NVTX_INJECTION64_PATH") != 0 ? v["NVTX_INJECTION64_PATH"] : std::string();
  if (options.nvtx == "off") {
    if (nvtx_before == library) v.erase("NVTX_INJECTION64_PATH");
  } else if (options.nvtx == "on" || nvtx_before.empty()) {
    take_over("NVTX_INJECTION64_PATH");
  } else if (nvtx_before != library) {
    made.notes.push_back("NVTX ranges go to NVTX_INJECTION64_PATH of the environment, " + nvtx_before +
                         "; --nvtx on brings them into this trace");
  }

  if (joined) join_layers(made, status_folder);
  v["CUTRACE_RUN"] = status_folder;
  v.erase("CUTRACE_RUN_PID");
  return made;
}

}  // namespace cutrace_tool
