// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <csignal>
#include <cutrace/collect/status_block.hpp>
#include <memory>
#include <string>

#include "temporary_folder.hpp"

namespace status_block_test {

using cutrace::detail::run_state;
using cutrace::detail::status_block;
using cutrace::detail::status_writer;

namespace {

std::unique_ptr<status_block> read(const std::string& path) {
  const std::string bytes = content_of(path);
  REQUIRE(bytes.size() == sizeof(status_block));
  auto block = std::make_unique<status_block>();
  std::memcpy(static_cast<void*>(block.get()), bytes.data(), bytes.size());
  REQUIRE(block->magic == status_block::right_magic);
  REQUIRE(std::memcmp(bytes.data(), "cutrace1", 8) == 0);
  return block;
}

cutrace::stats some_stats() {
  cutrace::stats s{};
  s.produced = 100;
  s.delivered = 80;
  s.pending = 15;
  s.lost[static_cast<std::size_t>(cutrace::loss_cause::cupti_dropped)] = 5;
  s.launches_seen = 7;
  s.gpu_records_seen = 6;
  s.by_kind[static_cast<std::size_t>(cutrace::event_kind::stage)] = 3;
  s.sink_count = 2;
  s.sinks[0].written = 70;
  s.sinks[0].lost = 10;
  s.sinks[0].failed = true;
  std::snprintf(s.sinks[0].failure, sizeof(s.sinks[0].failure), "disk full");
  s.sinks[1].written = 99;  // of the program's own session
  return s;
}

}  // namespace

TEST_CASE("status block: what a process reported is there after it was killed") {
  const temporary_folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    status_writer w;
    w.open(folder.path().c_str());
    w.describe("a program", 12);
    w.describe_backend("cupti: some version", true);
    w.add_sink("jsonl", std::string(3000, 'p').c_str());
    w.report(some_stats());
    w.set_state(run_state::tracing);
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const auto b = read(folder.file(std::to_string(child) + ".1.status"));
  CHECK(b->process_id == static_cast<std::uint32_t>(child));
  CHECK(b->state_now() == run_state::tracing);
  CHECK(std::string(b->program) == "a program");
  CHECK(b->rank == 12);
  CHECK(b->gpu_expected == 1);
  CHECK(b->produced == 100);
  CHECK(b->delivered == 80);
  CHECK(b->pending == 15);
  CHECK(b->lost_total() == 5);
  CHECK(b->stages == 3);
  CHECK(b->launches_seen == 7);
  CHECK(b->gpu_records_seen == 6);
  REQUIRE(b->sink_count == 1);
  CHECK(std::string(b->sinks[0].path) == std::string(status_block::path_bytes - 1, 'p'));
  CHECK(b->sinks[0].written == 70);
  CHECK(b->sinks[0].failed == 1);
  CHECK(std::string(b->sinks[0].failure) == "disk full");
}

TEST_CASE("status block: one for each program of a process, and none where there is no such folder") {
  const temporary_folder folder;
  status_writer first, second, nowhere;
  first.open(folder.path().c_str());
  second.open(folder.path().c_str());
  nowhere.open("/no/such/folder");
  REQUIRE(first.get() != nullptr);
  REQUIRE(second.get() != nullptr);
  CHECK(nowhere.get() == nullptr);
  second.untraced("no rights");
  const std::string pid = std::to_string(::getpid());
  CHECK(read(folder.file(pid + ".1.status"))->state_now() == run_state::starting);
  CHECK(read(folder.file(pid + ".2.status"))->state_now() == run_state::untraced);
  CHECK(std::string(read(folder.file(pid + ".2.status"))->message) == "no rights");
  nowhere.report(some_stats());  // nobody listens
  nowhere.describe("p", 1);
  nowhere.add_sink("s", "p");
  nowhere.set_state(run_state::ended);
}

}  // namespace status_block_test
