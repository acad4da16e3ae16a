// SPDX-License-Identifier: Apache-2.0
// The ASCII sink keeps the contract of sinks; its file is printable, narrow and complete.
#include <cutrace/sinks/ascii.hpp>
#include <sstream>

#include "contract/sink_contract.hpp"
#include "support/gzip_file.hpp"

namespace ascii_sink_test {

namespace {

void check_report(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  std::istringstream in(text_of_file(path));
  std::size_t lines = 0;
  bool time = false, losses = false, events = false;
  const std::string delivered = "events   " + std::to_string(all.size()) + " delivered, 12 LOST";
  for (std::string line; std::getline(in, line); ++lines) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
    for (const char c : line) REQUIRE((c >= 0x20 && c < 0x7f));
    time = time || line.rfind("WHERE THE TIME WENT", 0) == 0;
    losses = losses || line == "LOSSES AND NOTES";
    events = events || line.rfind(delivered, 0) == 0;
  }
  CHECK(lines > 10);
  CHECK(time);
  CHECK(losses);
  CHECK(events);
}

}  // namespace

TEST_CASE("ascii sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) {
    return std::unique_ptr<cutrace::sink>(new cutrace::ascii_sink(path.c_str()));
  };
  s.check = check_report;
  sink_contract::check_sink_contract(s);
}

TEST_CASE("ascii sink, compressed, keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) {
    return std::unique_ptr<cutrace::sink>(new cutrace::ascii_sink(path.c_str()));
  };
  s.check = check_report;
  s.extension = ".txt.gz";
  sink_contract::check_sink_contract(s);
}

TEST_CASE("ascii: the file has its name only when the report is complete") {
  const temporary_folder folder;
  cutrace::ascii_sink sink(folder.file("report.txt").c_str());
  sink.open(sample::info());
  sink.write(sample::view(sample::server_run()));
  sink.flush();
  CHECK(::access(folder.file("report.txt").c_str(), F_OK) != 0);
  sink.close(sample::summary(30));
  CHECK(::access(folder.file("report.txt").c_str(), F_OK) == 0);
}

TEST_CASE("ascii: a fault comes first, also after many hangs") {
  sink_contract::events all;
  for (int i = 0; i < 20; ++i) all.push_back(sample::alarm("hang", "stage", "serve", 1000 * (i + 1), 1));
  all.push_back(sample::alarm("fault", "kernel", "gather", 50000, 1));
  all.push_back(sample::alarm("fault", "kernel", "scatter", 60000, 1));
  cutrace::ascii_options wide;
  wide.path = "-";
  wide.width = 400;
  cutrace::ascii_sink sink(wide);
  sink.open(sample::info());
  sink.write(sample::view(all));
  const std::string report = sink.report(sample::summary(all.size()));
  CHECK(report.find("GPU FAULT") != std::string::npos);
  CHECK(report.find("gather") != std::string::npos);
  CHECK(report.find("the first of 22 alarms") != std::string::npos);
}

TEST_CASE("ascii: nothing is claimed of a clock that the file does not name") {
  for (const char* clock : {"tsc", ""}) {
    CAPTURE(clock);
    cutrace::trace_info info = sample::info();
    info.clock = clock;
    cutrace::trace_summary end = sample::summary(0);
    end.totals.clock_error_ns = *clock == '\0' ? 0 : 140;
    cutrace::ascii_sink sink("-");
    sink.open(info);
    const std::string report = sink.report(end);
    CHECK((report.find("of CLOCK_MONOTONIC") != std::string::npos) == (*clock != '\0'));
    CHECK((report.find("clock not known") != std::string::npos) == (*clock == '\0'));
  }
}

}  // namespace ascii_sink_test
