// SPDX-License-Identifier: Apache-2.0
// A program whose stages another tool receives as NVTX ranges, or not: by its argument and CUTRACE_NVTX.
#include <nvtx3/nvToolsExt.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace {

cutrace::session_options options(bool emit, const char* sinks = "jsonl:t.jsonl") {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = sinks;
  o.emit_nvtx = emit;
  return o;
}

/// One of each marker.
void work() {
  const std::uint64_t ids[] = {7, 8};
  cutrace::context outer;
  {
    CUTRACE_STAGE("outer", 17);
    outer = cutrace::context::capture();
    { CUTRACE_STAGE("inner"); }
    { CUTRACE_STAGE_BATCH("batch", ids, 2); }
    { CUTRACE_STAGE_DYNAMIC("run time", "request seven"); }
    CUTRACE_MARK("point", 17);
    CUTRACE_MARK("text", "request eight");
  }
  cutrace::span s = CUTRACE_SPAN("span", 99);
  cutrace::span forgotten = CUTRACE_SPAN("ends with the session");
  std::thread([&] {
    {
      cutrace::adopted_stage here(outer);
      CUTRACE_STAGE("in adopted");
    }
    { cutrace::adopted_stage here(cutrace::context::of(s)); }
    s.end();
  }).join();
  static cutrace::span keep;
  keep = static_cast<cutrace::span&&>(forgotten);
}

int all() {
  cutrace::session trace(options(std::getenv("CUTRACE_NVTX") == nullptr));
  work();
  return 0;
}

/// Sessions that emit NVTX and sessions that do not, with stages across their ends: each range ends exactly once.
int turns() {
  const auto quiet = options(false, "null"), reported = options(true, "null");
  auto trace = std::make_unique<cutrace::session>(quiet);
  {
    CUTRACE_STAGE("begun quietly");
    trace.reset();
    trace = std::make_unique<cutrace::session>(reported);
    {
      CUTRACE_STAGE("across the end");
      trace->pause();
      { CUTRACE_STAGE("paused"); }
      trace->resume();
      trace.reset();
      { CUTRACE_STAGE("between"); }
    }
    trace = std::make_unique<cutrace::session>(quiet);
    { CUTRACE_STAGE("quiet again"); }
    trace.reset();
    trace = std::make_unique<cutrace::session>(reported);
    { CUTRACE_STAGE("shown again"); }
  }
  return 0;
}

int in_fork() {
  cutrace::session trace(options(true, "null"));
  pid_t child = 0;
  {
    CUTRACE_STAGE("around the fork");
    child = ::fork();
    if (child == 0) CUTRACE_STAGE("in the child");
  }
  if (child == 0) ::_exit(0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int crowd() {
  cutrace::session trace(options(true, "null"));
  std::vector<std::thread> all;
  for (int t = 0; t < 6; ++t)
    all.emplace_back([] {
      for (int i = 0; i < 100; ++i) {
        CUTRACE_STAGE("step", i);
        cutrace::span s = CUTRACE_SPAN("crowd span");
        CUTRACE_MARK("crowd mark");
      }
    });
  for (std::thread& t : all) t.join();
  return 0;
}

/// A program that uses NVTX as well, with a domain that has our name.
int both() {
  cutrace::session trace(options(true));
  nvtxRangePushA("by nvtx");
  { CUTRACE_STAGE("by cutrace"); }
  const nvtxDomainHandle_t d = nvtxDomainCreateA("cutrace");
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = "would be shown twice";
  nvtxDomainRangePushEx(d, &a);
  nvtxDomainMarkEx(d, &a);
  nvtxDomainRangeEnd(d, nvtxDomainRangeStartEx(d, &a));
  nvtxDomainRangePop(d);
  nvtxRangePop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    int (*run)();
  } tests[] = {{"all", all}, {"turns", turns}, {"fork", in_fork}, {"crowd", crowd}, {"both", both}};
  for (const auto& one : tests)
    if (argc > 1 && std::strcmp(argv[1], one.name) == 0) return one.run();
  return 2;
}
