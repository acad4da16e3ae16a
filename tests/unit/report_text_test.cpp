// SPDX-License-Identifier: Apache-2.0
// The report about a file: its first screen answers where the time went, why the GPU is idle, what to fix first and
// what was lost; no line is too long, nothing needs colour, and no trace, however odd, breaks it.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "report/pages/text.hpp"
#include "support/hostile_events.hpp"
#include "support/planted_traces.hpp"
#include "support/random_trace.hpp"
#include "support/sanitized.hpp"

namespace report_text_test {

namespace {

using namespace cutrace;

std::string report_of(const std::vector<event>& events, std::uint64_t lost = 0, report_options options = {}) {
  analysis::trace_analysis a;
  for (const event& e : events) a.add(e);
  const analysis::trace_results r = a.finish();
  const trace_summary end = sample::summary(events.size(), lost);
  analysis::finding_options rules;
  rules.lost = lost;
  return report_text(a, r, analysis::find_findings(a.log(), r, rules), ascii::identity(sample::info()), end, options);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    REQUIRE(end != std::string::npos);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string first_screen(const std::string& text) {
  std::string screen;
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < std::min<std::size_t>(40, lines.size()); ++i) screen += lines[i] + "\n";
  return screen;
}

/// A part of the text, wherever lines are broken.
bool has(const std::string& text, const char* part) {
  std::string flat;
  for (const char c : text)
    if ((c != ' ' && c != '\n') || (!flat.empty() && flat.back() != ' ')) flat += c == '\n' ? ' ' : c;
  std::string wanted;
  for (const char* c = part; *c != '\0'; ++c)
    if (*c != ' ' || wanted.empty() || wanted.back() != ' ') wanted += *c;
  return flat.find(wanted) != std::string::npos;
}

void check_lines(const std::string& text, std::size_t width) {
  for (const std::string& line : lines_of(text)) {
    CAPTURE(line);
    REQUIRE(line.size() <= width);
    for (const char c : line) REQUIRE((c >= ' ' && c < 0x7f));
  }
}

}  // namespace

TEST_CASE("report.text: the first screen answers") {
  planted::fault f;
  f.kernel_ns = 100 * planted::us;
  f.copy_bytes = 0;
  f.synchronise = true;
  f.lost = 12;
  const std::string screen = first_screen(report_of(planted::server(f), 12));
  CAPTURE(screen);
  CHECK(has(screen, "WHERE THE TIME WENT"));
  CHECK(has(screen, "GPU at work: kernel"));
  CHECK(has(screen, "mostly: the host had waited"));
  CHECK(has(screen, "WHY THE GPU IS IDLE"));
  CHECK(has(screen, "the host had waited, so nothing was queued"));
  CHECK(has(screen, "fix first: synchronising in the loop"));
  CHECK(has(screen, "cuStreamSynchronize in stage \"decode\" (server.cpp:120)"));
  CHECK(has(screen, "-> Launch ahead"));
  CHECK(has(screen, "12 records LOST"));
}

TEST_CASE("report.text: a clean trace says so") {
  const std::string screen = first_screen(report_of(planted::server({})));
  CHECK(has(screen, "nothing stands out"));
  CHECK(has(screen, "nothing lost"));
  CHECK(!has(screen, " -> "));
}

TEST_CASE("report.text: random traces, all rows of the first screen, any width") {
  std::size_t full = 0;
  for (std::uint32_t seed = 1; seed <= (sanitized ? 20 : 100); ++seed) {
    CAPTURE(seed);
    const random_trace::trace t = random_trace::make(seed);
    for (const std::size_t width : {80u, 100u, 160u}) {
      report_options o;
      o.width = width;
      o.top = 40;
      const std::string text = report_of(t.events, 0, o);
      check_lines(text, width);
      if (width != 100) continue;
      const std::string screen = first_screen(text);
      REQUIRE(has(screen, "WHAT TO FIX"));
      if (has(text, "win up to ")) {
        REQUIRE(has(screen, " -> "));
        ++full;
      }
      for (const char* part : {"STAGES", "GPU OPERATIONS", "HOST CALLS", "GPUS", "LAUNCHES", "LONGEST GAPS", "SUMMARY",
                               "LOSSES AND NOTES"})
        REQUIRE_MESSAGE(has(text, part), part);
    }
  }
  CHECK(full > (sanitized ? 10 : 50));
}

TEST_CASE("report.text: work of all classes overlaps in as many tables as have room") {
  std::vector<event> events;
  std::int64_t at = 10000;
  const auto add = [&](event e) {
    e.start_ns = at;
    e.end_ns = at + 5000;
    events.push_back(sample::called_at(e, at - 5000));
    at += 10000;
  };
  add(sample::kernel("gemm", 0, 0, 1));
  add(sample::kernel("ncclDevKernel_AllReduce", 0, 0, 2));
  std::uint64_t id = 2;
  for (const copy_direction d : {copy_direction::host_to_device, copy_direction::device_to_host,
                                 copy_direction::device_to_device, copy_direction::peer, copy_direction::unknown})
    add(sample::memcpy(d, 1000, 0, 0, ++id));
  add(sample::memset(100, 0, 0, 8));
  event unfinished = sample::kernel("last", 0, 0, 9);
  unfinished.incomplete = true;
  add(unfinished);
  for (const std::size_t width : {80u, 89u, 90u, 100u, 108u, 160u}) {
    CAPTURE(width);
    report_options o;
    o.width = width;
    const std::string text = report_of(events, 0, o);
    check_lines(text, width);
    std::string columns;
    for (const std::string& line : lines_of(text))
      if (line.find("OVERLAP ON GPU 0") == 0) columns += line.substr(16);
    for (const char* name : {"compute", "comm.", "HtoD", "DtoH", "DtoD", "peer", "other", "memset", "unfin."})
      CHECK(has(columns, name));
  }
}

TEST_CASE("report.text: percentiles of latencies leave out requests none of whose stages has ended") {
  static const request_ref requests[] = {sample::request_id(1), sample::request_id(2)};
  std::vector<event> events;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const event call = sample::api("cuLaunchKernel", 10000, 15000, i + 1);
    events.push_back(sample::in_stage(call, "decode", i + 1, &requests[i], 1));
  }
  events.push_back(sample::in_stage(sample::stage("decode", 5000, 25000, 1), "decode", 1, &requests[0], 1));
  CHECK(has(report_of(events), "Latency of all 1: p50 20.0 us"));
}

TEST_CASE("report.text: the numbers are those of the analyses") {
  const std::string text = report_of(planted::two_requests(false));
  CHECK(has(text, "one stream only"));
  CHECK(has(text, "REQUESTS"));
  CHECK(has(text, "  17 "));
  CHECK(has(text, "Latency of all 2: p50"));
  CHECK(has(text, "EVIDENCE"));
  planted::fault f;
  f.pageable = true;
  f.bytes_per_ns = planted::pageable_bytes_per_ns;
  const std::string copies = report_of(planted::server(f));
  CHECK(has(copies, "copy HtoD, pageable"));
  CHECK(has(copies, "5.99 GB/s"));
  CHECK(has(copies, "OVERLAP ON GPU 0"));
}

TEST_CASE("report.text: an empty trace, hostile events, colour") {
  CHECK(has(report_of({}), "no GPU work was seen; nothing stands out to fix; nothing lost"));
  for (const std::vector<event>& events : {hostile::named_events(), hostile::extreme_events()}) {
    const std::string text = report_of(events);
    check_lines(text, 100);
    CHECK(has(text, "WHERE THE TIME WENT"));
  }
  for (const bool color : {false, true}) {
    report_options o;
    o.color = color;
    const std::string text = report_of(sample::server_run(), 0, o);
    CHECK(has(text, "\x1b[") == color);
    if (!color) check_lines(text, 100);
  }
}

TEST_CASE("report.text: traces with broken times, ids and kinds") {
  constexpr std::int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 700000, INT64_MAX - 1, INT64_MAX};
  for (std::uint32_t seed = 1; seed <= (sanitized ? 60 : 300); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    random_trace::trace t = random_trace::make(seed);
    for (event& e : t.events) {
      if (below(4) != 0) continue;
      const std::uint64_t id = below(2) == 0 ? below(9) : UINT64_MAX - below(3);
      switch (below(10)) {
        case 0:
          e.start_ns = times[below(8)];
          break;
        case 1:
          e.end_ns = times[below(8)];
          break;
        case 2:
          e.call_start_ns = times[below(8)];
          break;
        case 3:
          e.thread_id = static_cast<std::uint32_t>(id);
          break;
        case 4:
          e.stage_id = id;
          break;
        case 5:
          if (e.kind == event_kind::stage) e.stage.parent = e.stage_id;  // its own parent
          break;
        case 6:
          e.device = static_cast<std::uint32_t>(id);
          break;
        case 7:
          e.correlation_id = id;
          break;
        case 8:
          e.request_total = static_cast<std::uint32_t>(id);
          break;
        default: {
          event other;  // its union is zero
          other.kind = static_cast<event_kind>(below(event_kind_count));
          other.name = e.name;
          other.start_ns = e.start_ns;
          other.end_ns = e.end_ns;
          other.stage_id = e.stage_id;
          other.stage_name = e.stage_name;
          e = other;
          if (e.kind == event_kind::memory) e.memory.bytes = id;
        }
      }
    }
    check_lines(report_of(t.events), 100);
  }
}

}  // namespace report_text_test
