// SPDX-License-Identifier: Apache-2.0
// Options of a session, completed from the environment and checked. A value that cannot be used is an error that names
// the option and what it accepts.
#pragma once

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/base/process_info.hpp>
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <cutrace/run/sampling.hpp>
#include <cutrace/session.hpp>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// What a process knows of the command that traces it, `cutrace run`, which sets these variables:
//   CUTRACE_RUN      folder for status blocks. The sinks of CUTRACE_SINKS are then the process's, not a session's: they
//                    open with its first session and close when it exits.
//   CUTRACE_RUN_PID  the one process that is traced, where those that it starts are not

enum class command_says : unsigned char {
  nothing,  ///< no command runs this process
  trace,
  leave_out,  ///< it was started by the program that is traced, which is meant to be traced alone
};

inline command_says what_command_says() noexcept {
  if (environment("CUTRACE_RUN") == nullptr) return command_says::nothing;
  const char* only = environment("CUTRACE_RUN_PID");
  if (only == nullptr) return command_says::trace;
  return std::strtol(only, nullptr, 10) == static_cast<long>(::getpid()) ? command_says::trace
                                                                         : command_says::leave_out;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// What the value of a switch in the environment says.

/// nullopt: neither a yes nor a no.
inline std::optional<bool> switch_value(const char* v) noexcept {
  for (const char* yes : {"1", "on", "true", "yes"})
    if (strcasecmp(v, yes) == 0) return true;
  for (const char* no : {"0", "off", "false", "no"})
    if (strcasecmp(v, no) == 0) return false;
  return std::nullopt;
}

}  // namespace detail
CUTRACE_END_NAMESPACE

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What CUTRACE_WATCHDOG asks for, see watchdog.hpp.
struct watchdog_settings {
  struct named {
    std::string name;
    std::uint32_t bound_ms;
  };
  std::uint32_t bound_ms = 0;           ///< 0: off
  std::vector<std::string> except;      ///< see work_watch::bounds
  std::vector<named> stages, requests;  ///< see work_watch::bounds

  static constexpr const char* accepted =
      "a time such as 10s or 500ms, at least 100ms, and behind it \",except=NAME\" for each kernel that may take "
      "longer, \",stage=NAME:TIME\" and \",request=NAME:TIME\" for stages and requests that may not";

  /// "10s,except=persistent_kernel,except=poll*,stage=decode:2s,request=*:30s"
  static bool parse(std::string_view text, watchdog_settings& to) {
    watchdog_settings s;
    for (bool first = true;; first = false) {
      const std::size_t comma = text.find(',');
      const std::string_view word = text.substr(0, comma);
      const std::string_view key = word.substr(0, word.find('=')),
                             value = word.substr(std::min(key.size() + 1, word.size()));
      if (first) {
        if (!parse_bound(word, s.bound_ms)) return false;
      } else if (key == "except" && !value.empty()) {
        s.except.emplace_back(value);
      } else if (key == "stage" || key == "request") {
        const std::size_t colon = value.rfind(':');  // names may have colons
        named n{std::string(value.substr(0, colon)), 0};
        if (colon == std::string_view::npos || n.name.empty() || !parse_bound(value.substr(colon + 1), n.bound_ms))
          return false;
        (key == "stage" ? s.stages : s.requests).push_back(std::move(n));
      } else {
        return false;
      }
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
    to = std::move(s);
    return true;
  }

 private:
  static bool parse_bound(std::string_view text, std::uint32_t& ms) {
    return sampling::parse_time(std::string(text).c_str(), ms) && ms >= 100;
  }
};

struct settings {
  std::string sinks;
  const char* sinks_option = "CUTRACE_SINKS";
  std::string backend = "auto";
  const char* backend_option = "CUTRACE_BACKEND";
  std::size_t memory_limit_bytes = std::size_t{48} << 20;
  std::uint32_t overflow_wait_us = 0;
  bool emit_nvtx = false;
  bool command_line = true;  ///< the trace's header has the command line
  sampling samples;
  std::uint32_t window_ms = 500;  ///< ordering window, not one of sampling
  std::uint32_t flush_period_ms = 100;
  bool by_command = false;  ///< traced by `cutrace run`, which prints the messages itself
  std::uint32_t stop_deadline_ms = 5000;
  std::uint32_t sink_deadline_ms = 30000;
  std::uint32_t leave_wait_ms = 200;  ///< for the end of the trace, where the program leaves without exit
  error_handler on_error = nullptr;
  void* on_error_user = nullptr;
  watchdog_settings watchdog;
  bool control = false;
  alarm_handler on_alarm = nullptr;
  void* on_alarm_user = nullptr;
};

/// Reports why a session does nothing, where the program's code is not to blame. `traced`: by another session.
CUTRACE_NOINLINE inline void report_untraced(error_handler handler, void* user, const char* why,
                                             bool traced = false) noexcept {
  char line[1200];
  std::snprintf(line, sizeof(line), "%s; %s", why,
                traced ? "this session does nothing, the trace of another one goes on" : "the program runs untraced");
  if (handler != nullptr)
    handler("session", line, user);
  else
    write_error_line("cutrace: %s", line);
}

/// Runs `action`, whose errors are the environment's or the machine's. @throws untraced for each of them
template <class Action>
auto not_the_program(Action action) -> decltype(action()) {
  try {
    return action();
  } catch (const error& e) {
    throw untraced(e.what());
  } catch (const std::bad_alloc&) {
    throw untraced("out of memory");
  } catch (const std::exception& e) {
    throw untraced(e.what());
  }
}

/// A line about variables whose names only look like those that cutrace reads; empty where there is none. Nothing else
/// would show that what they ask for is not done.
CUTRACE_NOINLINE inline std::string about_unknown_variables() {
  static const std::vector<std::string_view> users{
      "CUTRACE",
      "CUTRACE_BACKEND",
      "CUTRACE_COMMAND_LINE",
      "CUTRACE_CONTROL",
      "CUTRACE_CUPTI_LIBRARY",
      "CUTRACE_CUPTI_QUERIES",
      "CUTRACE_DURATION",
      "CUTRACE_EBPF_FUNCTIONS",
      "CUTRACE_EBPF_INTERRUPT",
      "CUTRACE_EBPF_KERNEL",
      "CUTRACE_EBPF_LINKS",
      "CUTRACE_EBPF_RING",
      "CUTRACE_FLUSH_PERIOD_MS",
      "CUTRACE_GPU_EVENTS",
      "CUTRACE_GRAPHS",
      "CUTRACE_INJECT_LIBRARY",
      "CUTRACE_KINDS",
      "CUTRACE_LEAVE_WAIT_MS",
      "CUTRACE_MEMORY_LIMIT",
      "CUTRACE_NVTX",
      "CUTRACE_OVERFLOW",
      "CUTRACE_PRELOAD_LIBRARY",
      "CUTRACE_SAMPLE",
      "CUTRACE_SINKS",
      "CUTRACE_SINK_DEADLINE_MS",
      "CUTRACE_START_AFTER",
      "CUTRACE_WATCHDOG",
      "CUTRACE_WATCH_LIBRARY",
      "CUTRACE_WINDOW_MS",
  };
  // What follows CUTRACE_ in those of the command, of builds and of the simulated GPU.
  static constexpr std::string_view others[] = {"BPF_ROOT",      "CALL_JOINS", "DIR", "DOCTOR_ROOT",
                                                "IOCTL_DEVICES", "ROOT",       "RUN", "RUN_PID"};
  constexpr int named = 3;
  std::string names;
  int count = 0;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text = *one, name = text.substr(0, text.find('='));
    if (name.substr(0, 7) != "CUTRACE" || std::find(users.begin(), users.end(), name) != users.end()) continue;
    const std::string_view rest = name.substr(std::min<std::size_t>(8, name.size()));
    if (rest.substr(0, 4) == "SIM_" || rest.substr(0, 5) == "TEST_" ||
        std::find(std::begin(others), std::end(others), rest) != std::end(others))
      continue;
    if (++count > named) continue;
    const std::string_view meant = nearest_word(name, users);
    names.append(names.empty() ? "" : ", ").append(name);
    if (!meant.empty()) names.append(" (did you mean ").append(meant).append("?)");
  }
  if (count > named) names += " and " + std::to_string(count - named) + " more";
  return count == 0 ? names : "the environment has " + names + ", which cutrace does not know and leaves alone";
}

[[noreturn]] CUTRACE_NOINLINE inline void reject(const char* option, const std::string& value, const char* accepted) {
  throw config_error((std::string(option) + "=\"" + value + "\" cannot be used; accepted: " + accepted).c_str());
}

/// "64M", "1G", "512K" or bytes.
CUTRACE_NOINLINE inline std::size_t parse_bytes(const char* option, const std::string& value) {
  static const char* const accepted = "a number of bytes, or one with K, M or G behind it, from 1M to 64G";
  char* end = nullptr;
  const unsigned long long n = std::strtoull(value.c_str(), &end, 10);
  unsigned shift = 0;
  if (*end == 'K' || *end == 'k')
    shift = 10, ++end;
  else if (*end == 'M' || *end == 'm')
    shift = 20, ++end;
  else if (*end == 'G' || *end == 'g')
    shift = 30, ++end;
  if (value.empty() || value[0] == '-' || *end != '\0' || n > (1ull << 36) >> shift || (n << shift) < 1u << 20)
    reject(option, value, accepted);
  return static_cast<std::size_t>(n << shift);
}

CUTRACE_NOINLINE inline std::uint32_t parse_count(const char* option, const std::string& value, unsigned long low,
                                                  unsigned long high, const char* accepted) {
  char* end = nullptr;
  const unsigned long n = std::strtoul(value.c_str(), &end, 10);
  if (value.empty() || value[0] == '-' || *end != '\0' || n < low || n > high) reject(option, value, accepted);
  return static_cast<std::uint32_t>(n);
}

/// @throws untraced
CUTRACE_NOINLINE inline bool parse_switch(const char* name, bool usual) {
  const char* v = environment(name);
  if (v == nullptr) return usual;
  if (const std::optional<bool> reported = switch_value(v)) return *reported;
  not_the_program([&] { reject(name, v, usual ? "0 (off), 1 (on, the default)" : "0 (off, the default), 1 (on)"); });
  return usual;
}

/// False when CUTRACE=0 asks for no tracing at all. @throws untraced
inline bool tracing_wanted() { return parse_switch("CUTRACE", true); }

/// @throws untraced
CUTRACE_NOINLINE inline std::uint32_t parse_time(const char* name, const char* value) {
  std::uint32_t ms = 0;
  if (!sampling::parse_time(value, ms)) not_the_program([&] { reject(name, value, sampling::accepted_time); });
  return ms;
}

/// What options and environment say together. @throws config_error for an option, untraced for a variable
CUTRACE_NOINLINE inline settings complete(const session_options& o) {
  settings s;
  if (o.sinks != nullptr) {
    s.sinks = o.sinks;
    s.sinks_option = "session_options::sinks";
  } else if (what_command_says() == command_says::nothing) {  // else they are not the session's
    if (const char* v = environment("CUTRACE_SINKS")) s.sinks = v;
  }
  if (o.backend != nullptr) {
    s.backend = o.backend;
    s.backend_option = "session_options::backend";
  } else if (const char* v = environment("CUTRACE_BACKEND")) {
    s.backend = v;
  }
  if (o.memory_limit_bytes != 0)
    s.memory_limit_bytes = parse_bytes("session_options::memory_limit_bytes", std::to_string(o.memory_limit_bytes));
  else if (const char* v = environment("CUTRACE_MEMORY_LIMIT"))
    s.memory_limit_bytes = not_the_program([v] { return parse_bytes("CUTRACE_MEMORY_LIMIT", v); });
  bool wait = o.overflow == overflow_policy::wait;
  if (const char* v = wait ? nullptr : environment("CUTRACE_OVERFLOW")) {
    if (std::strcmp(v, "wait") == 0)
      wait = true;
    else if (std::strcmp(v, "drop") != 0)
      not_the_program([v] { reject("CUTRACE_OVERFLOW", v, "drop (the default), wait"); });
  }
  s.overflow_wait_us = wait ? o.overflow_wait_us : 0;
  const auto period = [](const char* option, const std::string& value) {
    return parse_count(option, value, 1, 60000, "milliseconds from 1 to 60000");
  };
  if (o.window_ms != 0)
    s.window_ms = period("session_options::window_ms", std::to_string(o.window_ms));
  else if (const char* v = environment("CUTRACE_WINDOW_MS"))
    s.window_ms = not_the_program([&] { return period("CUTRACE_WINDOW_MS", v); });
  // Flushes come in time for the ordering window, whatever period is asked for.
  const std::uint32_t in_time = std::max(s.window_ms / 5, std::uint32_t{10});
  s.flush_period_ms = std::min(s.flush_period_ms, in_time);
  if (o.flush_period_ms != 0)
    s.flush_period_ms =
        std::min(in_time, period("session_options::flush_period_ms", std::to_string(o.flush_period_ms)));
  else if (const char* v = environment("CUTRACE_FLUSH_PERIOD_MS"))
    s.flush_period_ms = std::min(in_time, not_the_program([&] { return period("CUTRACE_FLUSH_PERIOD_MS", v); }));
  if (o.sample != nullptr) {
    if (!sampling::parse(o.sample, s.samples)) reject("session_options::sample", o.sample, sampling::accepted);
  } else if (const char* v = environment("CUTRACE_SAMPLE")) {
    if (!sampling::parse(v, s.samples)) not_the_program([v] { reject("CUTRACE_SAMPLE", v, sampling::accepted); });
  }
  if (const char* v = environment("CUTRACE_START_AFTER")) s.samples.after_ms = parse_time("CUTRACE_START_AFTER", v);
  if (const char* v = environment("CUTRACE_DURATION")) {
    s.samples.duration_ms = parse_time("CUTRACE_DURATION", v);
    if (s.samples.duration_ms == 0) not_the_program([v] { reject("CUTRACE_DURATION", v, sampling::accepted_time); });
  }
  s.emit_nvtx = o.emit_nvtx || parse_switch("CUTRACE_NVTX", false);
  s.command_line = !o.omit_command_line && parse_switch("CUTRACE_COMMAND_LINE", true);
  s.stop_deadline_ms = o.stop_deadline_ms;
  const auto deadline = [](const char* option, const std::string& value) {
    return parse_count(option, value, 1, 3600000, "milliseconds from 1 to 3600000");
  };
  s.sink_deadline_ms = deadline("session_options::sink_deadline_ms", std::to_string(o.sink_deadline_ms));
  if (o.sink_deadline_ms == session_options{}.sink_deadline_ms)
    if (const char* v = environment("CUTRACE_SINK_DEADLINE_MS"))
      s.sink_deadline_ms = not_the_program([&] { return deadline("CUTRACE_SINK_DEADLINE_MS", v); });
  if (const char* v = environment("CUTRACE_LEAVE_WAIT_MS"))
    s.leave_wait_ms = not_the_program(
        [v] { return parse_count("CUTRACE_LEAVE_WAIT_MS", v, 1, 60000, "milliseconds from 1 to 60000"); });
  if (o.watchdog != nullptr) {
    if (!watchdog_settings::parse(o.watchdog, s.watchdog))
      reject("session_options::watchdog", o.watchdog, watchdog_settings::accepted);
  } else if (const char* v = environment("CUTRACE_WATCHDOG")) {
    const bool off = switch_value(v) == false;
    if (!off && !watchdog_settings::parse(v, s.watchdog))
      not_the_program([v] { reject("CUTRACE_WATCHDOG", v, watchdog_settings::accepted); });
  }
  s.control = o.control || parse_switch("CUTRACE_CONTROL", false);
  s.on_alarm = o.on_alarm;
  s.on_alarm_user = o.on_alarm_user;
  s.on_error = o.on_error;
  s.on_error_user = o.on_error_user;
  return s;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
