// SPDX-License-Identifier: Apache-2.0
#include "cutrace/trace_filter.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/trace_input.hpp"

namespace cutrace_tool {

using cutrace::event;
using cutrace::event_kind;

namespace {

constexpr std::size_t named = 8;

std::string_view view(cutrace::text t) noexcept { return {t.size != 0 ? t.data : "", t.size}; }

/// Alarms of the watchdog name work of a GPU, too.
bool is_of_device(const event& e) noexcept { return e.is_on_gpu() || (e.kind == event_kind::alarm && e.context != 0); }

}  // namespace

std::int64_t parse_time(const std::string& text, const char* option) {
  constexpr std::pair<const char*, double> units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 6e10}};
  char* end = nullptr;
  const double n = std::strtod(text.c_str(), &end);
  for (const auto& u : units) {
    if (end == text.c_str() || std::string_view(end) != u.first || !std::isfinite(n) || std::fabs(n * u.second) > 9e18)
      continue;
    return static_cast<std::int64_t>(std::llround(n * u.second));
  }
  throw usage_error(std::string(option) + " " + text +
                    " is no time since the trace began; write it as 1.5s, 200ms, 40us, 1000ns or 2m");
}

bool trace_choice::wants(const event& e) const {
  if (e.is_description()) return true;
  // Half-open, as all times; an event without duration, or with an end before its begin, is inside where its begin is.
  const bool inside =
      e.end_ns <= e.start_ns ? e.start_ns >= from_ns && e.start_ns < to_ns : e.start_ns < to_ns && e.end_ns > from_ns;
  if (!inside) return false;
  if (e.kind == event_kind::loss || e.kind == event_kind::window) return true;
  if (!devices.empty() && (!is_of_device(e) || std::find(devices.begin(), devices.end(), e.device) == devices.end()))
    return false;
  if (!stages.empty() && std::find(stages.begin(), stages.end(), view(e.stage_name)) == stages.end()) return false;
  if (requests.empty()) return true;
  for (std::uint32_t i = 0; i < e.request_count; ++i) {
    const cutrace::request_ref& r = e.requests[i];
    const std::string name = r.name.size != 0 ? std::string(view(r.name)) : std::to_string(r.id);
    if (std::find(requests.begin(), requests.end(), name) != requests.end()) return true;
  }
  return false;
}

void choice_words::add_options(CLI::App& command) {
  // Where CLI11 allows extra arguments, it takes a value in brackets for a list.
  const auto several = [](CLI::Option* o, const char* type) {
    o->type_name(type)->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  command.add_option("--from", from, "From this time since the trace began: 1.5s, 200ms, 40us, 1000ns, 2m")
      ->check(not_empty())
      ->type_name("TIME");
  command.add_option("--to", to, "Up to this time; what lies partly within is kept whole")
      ->check(not_empty())
      ->type_name("TIME");
  several(command.add_option("--stage", choice.stages,
                             "Only stages of this name, and the calls and GPU work that were issued in them. May be "
                             "given several times"),
          "NAME");
  several(command.add_option("--request", choice.requests,
                             "Only what serves this request, a number or a name. May be given several times"),
          "ID");
  several(command.add_option("--device", choice.devices, "Only work of this GPU. May be given several times")
              ->check(not_empty()),
          "INDEX");
}

bool choice_words::empty() const {
  return from.empty() && to.empty() && choice.stages.empty() && choice.requests.empty() && choice.devices.empty();
}

const trace_choice& choice_words::parsed() {
  if (!from.empty()) choice.from_ns = parse_time(from, "--from");
  if (!to.empty()) choice.to_ns = parse_time(to, "--to");
  if (choice.from_ns >= choice.to_ns) throw usage_error("--from " + from + " is not before --to " + to);
  return choice;
}

bool trace_choice::of_time() const noexcept {
  return from_ns != std::numeric_limits<std::int64_t>::min() || to_ns != std::numeric_limits<std::int64_t>::max();
}

std::string trace_choice::words() const {
  std::string s;
  const auto add = [&](const char* what, const std::string& which) {
    s += (s.empty() ? "" : ", ") + std::string(what) + " " + which;
  };
  for (const std::string& name : stages) add("stage", name);
  for (const std::string& name : requests) add("request", name);
  for (const std::uint32_t n : devices) add("device", std::to_string(n));
  return s;
}

void filter_sink::open(const cutrace::trace_info& info) {
  if (info.start.monotonic_ns != 0) {
    // Times on the command line are since the trace began, which is some time after the session did.
    first_ns_ = info.start.trace_ns;
    const auto shift = [&](std::int64_t& t_ns) {
      if (__builtin_add_overflow(t_ns, first_ns_, &t_ns)) t_ns = std::numeric_limits<std::int64_t>::max();
    };
    if (choice_.from_ns != std::numeric_limits<std::int64_t>::min()) shift(choice_.from_ns);
    if (choice_.to_ns != std::numeric_limits<std::int64_t>::max()) shift(choice_.to_ns);
  }
  process_id_ = info.process_id;
  to_.open(info);
}

void filter_sink::pass_on() {
  if (batch_.empty()) return;
  for (const event& e : batch_) ++by_kind_[static_cast<std::size_t>(e.kind)];
  kept_ += batch_.size();
  to_.write({batch_.data(), batch_.size()});
  batch_.clear();
}

/// Collects what there is, for the message where nothing was found: of names one more than the message lists, so that
/// it can say that there are more.
void filter_sink::note(const event& e) {
  if (e.is_description() || e.kind == event_kind::loss || e.kind == event_kind::window) return;
  begin_ns_ = std::min(begin_ns_, e.start_ns);
  if (!choice_.devices.empty() && is_of_device(e)) devices_.insert(e.device);
  if (!choice_.stages.empty() && e.stage_name.size != 0 && stages_.size() <= named)
    stages_.insert(std::string(view(e.stage_name)));
  if (choice_.requests.empty()) return;
  for (std::uint32_t i = 0; i < e.request_count && requests_.size() <= named; ++i) {
    const cutrace::request_ref& r = e.requests[i];
    requests_.insert(r.name.size != 0 ? std::string(view(r.name)) : std::to_string(r.id));
  }
}

void filter_sink::write(cutrace::event_view events) {
  const bool nothing_yet = chosen() == 0;
  batch_.clear();
  for (const event& e : events) {
    ++seen_;
    if (!e.is_description()) {
      if (e.kind != event_kind::loss) first_ns_ = std::min(first_ns_, e.start_ns);
      last_ns_ = std::max(last_ns_, e.end_ns);
    }
    windows_ += e.kind == event_kind::window;
    if (nothing_yet) note(e);
    if (!choice_.wants(e)) continue;
    batch_.push_back(e);
    // What is kept whatever else was asked for is no match.
    const bool by_time = e.kind == event_kind::window || (e.kind == event_kind::loss && !choice_.words().empty());
    aside_ += by_time || e.is_description();
    if (e.kind != event_kind::window) continue;
    event& window = batch_.back();  // what of it was chosen
    window.start_ns = std::max(window.start_ns, choice_.from_ns);
    if (window.end_ns > choice_.to_ns) {
      window.end_ns = choice_.to_ns;
      window.late = true;  // events that end later were passed on before it
    }
  }
  pass_on();
}

/// Adds a window: the part that was chosen of a trace that was recorded all the time, else an empty one, since the time
/// chosen has nothing of the trace's own windows. Without any, all of it would count as recorded.
void filter_sink::add_window(std::int64_t stop_ns) {
  event e{};
  e.kind = event_kind::window;
  e.process_id = process_id_;
  e.name = {"recorded", 8};
  e.late = true;  // events that end after it were passed on before
  e.start_ns = std::max(first_ns_, choice_.from_ns);
  e.end_ns = windows_ != 0 ? e.start_ns : std::max(e.start_ns, std::min(std::max(last_ns_, stop_ns), choice_.to_ns));
  aside_ += 1;  // not counted as chosen
  batch_.assign(1, e);
  pass_on();
}

void filter_sink::close(const cutrace::trace_summary& summary) {
  if (chosen() == 0 && purpose_ != chosen_for::file) return;
  if (choice_.of_time() && by_kind_[static_cast<std::size_t>(event_kind::window)] == 0)
    add_window(summary.stop.monotonic_ns != 0 ? summary.stop.trace_ns : std::numeric_limits<std::int64_t>::min());
  std::vector<const char*> notes(summary.notes, summary.notes + summary.note_count);
  const std::string note = "cut out of a trace: " + std::to_string(kept_) + " of its " + std::to_string(seen_) +
                           " events; counts of lost records are those of the whole trace";
  notes.push_back(note.c_str());
  cutrace::trace_summary more = summary;
  more.notes = notes.data();
  more.note_count = static_cast<std::uint32_t>(notes.size());
  std::copy(std::begin(by_kind_), std::end(by_kind_), std::begin(more.totals.by_kind));
  const std::string words = choice_.words();
  const std::string missing = "all but " + words + " was cut off";
  if (purpose_ != chosen_for::comparison && !words.empty() && more.missing == nullptr) more.missing = missing.c_str();
  to_.close(more);
}

namespace {

template <class Set>
std::string list_of(const char* what, const Set& all) {
  std::string s;
  std::size_t n = 0;
  for (const auto& one : all) {
    if (n++ == named) break;
    s += s.empty() ? "" : ", ";
    if constexpr (std::is_integral_v<typename Set::value_type>)
      s += std::to_string(one);
    else
      s += one;
  }
  if (all.size() > named) s += ", ...";
  return all.empty() ? std::string("no ") + what + "s" : std::string(what) + (all.size() > 1 ? "s " : " ") + s;
}

std::string seconds_text(std::int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.6gs", static_cast<double>(ns) / 1e9);
  return text;
}

}  // namespace

std::string filter_sink::what_exists() const {
  std::string s;
  const auto add = [&](const std::string& more) { s += (s.empty() ? "" : "; ") + more; };
  if (!choice_.stages.empty()) add(list_of("stage", stages_));
  if (!choice_.requests.empty()) add(list_of("request", requests_));
  if (!choice_.devices.empty()) add(list_of("device", devices_));
  if (choice_.of_time() && begin_ns_ <= last_ns_) {
    const std::int64_t zero = first_ns_ == std::numeric_limits<std::int64_t>::max() ? 0 : first_ns_;
    add("times from " + seconds_text(begin_ns_ - zero) + " to " + seconds_text(last_ns_ - zero));
  }
  return s.empty() ? "no events" : s;
}

int chosen_outcome::status_or_nothing(int status) const {
  if (!nothing_chosen) return status;
  std::fprintf(stderr, "cutrace: none of the %llu events matches; the trace has %s\n",
               static_cast<unsigned long long>(events), there_is.c_str());
  return exit_command_failure;
}

chosen_outcome read_chosen(const std::vector<std::string>& files, cutrace::sink& to, choice_words& choice, bool quiet,
                           chosen_for purpose) {
  filter_sink filter(to, choice.parsed(), purpose);
  const bool all = choice.empty();
  chosen_outcome o{read_trace(files, all ? to : filter, quiet), false, {}};
  o.nothing_chosen = !all && filter.chosen() == 0;
  if (o.nothing_chosen) o.there_is = filter.what_exists();
  return o;
}

}  // namespace cutrace_tool
