// SPDX-License-Identifier: Apache-2.0
// What is asked of NVML while a watchdog watches, on the stand-in: facts with their ages, Xids, a library that is not
// there, and one whose calls never return.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <cutrace/run/gpu_health.hpp>
#include <string>
#include <thread>

#include "../support/sanitized.hpp"

#if defined(__has_include)
#if __has_include(<nvml.h>)
#include <nvml.h>
#define CUTRACE_TEST_NVML_HEADER 1
#endif
#endif

namespace {

using cutrace::detail::gpu_health;
using cutrace::detail::nvml_library;
constexpr std::uint64_t ms = 1000000;
std::uint64_t now_ns() { return cutrace::clock::monotonic_ns(); }

// As nvml.h has them.
static_assert(sizeof(nvml_library::memory) == 24 && sizeof(nvml_library::event) == 32);
static_assert(offsetof(nvml_library::event, data) == 16 && offsetof(nvml_library::event, gpu_instance) == 24);
#if CUTRACE_TEST_NVML_HEADER
static_assert(sizeof(nvml_library::memory) == sizeof(nvmlMemory_t));
static_assert(offsetof(nvml_library::memory, total) == offsetof(nvmlMemory_t, total));
static_assert(offsetof(nvml_library::memory, used) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(nvml_library::event) == sizeof(nvmlEventData_t));
static_assert(offsetof(nvml_library::event, where) == offsetof(nvmlEventData_t, device));
static_assert(offsetof(nvml_library::event, type) == offsetof(nvmlEventData_t, eventType));
static_assert(offsetof(nvml_library::event, data) == offsetof(nvmlEventData_t, eventData));
static_assert(nvml_library::success == NVML_SUCCESS && nvml_library::timeout == NVML_ERROR_TIMEOUT);
static_assert(nvml_library::clock_sm == NVML_CLOCK_SM && nvml_library::xid_type == nvmlEventTypeXidCriticalError);
static_assert(nvml_library::uuid_room >= NVML_DEVICE_UUID_V2_BUFFER_SIZE);
static_assert(nvmlClocksThrottleReasonGpuIdle == 0x1 && nvmlClocksThrottleReasonSwPowerCap == 0x4);
static_assert(nvmlClocksThrottleReasonHwSlowdown == 0x8 && nvmlClocksThrottleReasonSwThermalSlowdown == 0x20);
static_assert(nvmlClocksThrottleReasonHwThermalSlowdown == 0x40);
static_assert(nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80);
#endif

/// What the stand-in does from the next nvmlInit on.
struct standin_nvml {
  explicit standin_nvml(const char* word, const char* xids = "", const char* devices = "1") {
    ::setenv("CUTRACE_SIM_NVML", word, 1);
    ::setenv("CUTRACE_SIM_XID", xids, 1);
    ::setenv("CUTRACE_SIM_DEVICES", devices, 1);
  }
};

std::string lines(const gpu_health& h, std::uint64_t later_ns = 0) { return h.lines(now_ns() + later_ns); }
bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// What it says once it says `words`, or after ten seconds.
std::string wait_for(const gpu_health& h, const std::string& words, std::uint64_t later_ns = 0) {
  std::string text;
  for (const std::uint64_t end = now_ns() + 10000 * ms; now_ns() < end;) {
    text = lines(h, later_ns);
    if (says(text, words)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return text;
}

/// Seconds behind `words`.
double age_in(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at != std::string::npos ? std::atof(text.c_str() + at + words.size()) : -1;
}

double stop_ms(gpu_health& h) {
  const std::uint64_t begin = now_ns();
  h.stop();
  return static_cast<double>(now_ns() - begin) / static_cast<double>(ms);
}

}  // namespace

TEST_CASE("memory and clock of each device, with the age of the answer") {
  const standin_nvml nvml("");
  gpu_health h;
  CHECK(lines(h).empty());
  h.start();
  h.start();  // has begun
  const std::string first = wait_for(h, "device 0");
  CHECK_MESSAGE(first.find("device 0: 12.5 of 140.4 GiB used, SM clock 1980 MHz (limited by the power cap), 0.") == 0,
                first);
  CHECK(first.find(" s ago\n") == first.size() - 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  const std::string fresh = lines(h);  // asked again each second
  CHECK_MESSAGE((says(fresh, ", 0.") || says(fresh, ", 1.")), fresh);
  CHECK(stop_ms(h) < 200);
  const std::string old = lines(h, 20000 * ms);  // what it knew stays
  CHECK_MESSAGE((says(old, ", 20 s ago\n") || says(old, ", 21 s ago\n")), old);
  CHECK_FALSE(says(lines(h, 20000 * ms), "does not answer"));  // nobody asks
  CHECK(stop_ms(h) < 1);
  h.start();
  CHECK(says(wait_for(h, "device 0"), "device 0"));
}

TEST_CASE("several devices have the beginnings of their UUIDs beside their numbers") {
  const standin_nvml nvml("", "", "2");
  gpu_health h;
  h.start();
  const std::string text = wait_for(h, "device 1");
  CHECK_MESSAGE(says(text, "device 0 (GPU-5d2f1c00): 12.5 of"), text);
  CHECK_MESSAGE(says(text, "\ndevice 1 (GPU-5d2f1c01): 12.5 of"), text);
}

TEST_CASE("NVML has answered once the first of several devices is known") {
  const standin_nvml nvml("others_hang", "", "2");
  gpu_health h;
  h.start();
  const std::string text = wait_for(h, "device 0");
  CHECK_MESSAGE(text.find("device 0") == 0, text);
}

TEST_CASE("Xids are said with their names, devices and ages, the last eight of them") {
  const standin_nvml nvml("", "31@50,12345@60,79@70");
  gpu_health h;
  h.start();
  const std::string text = wait_for(h, "Xid 79");
  CHECK_MESSAGE(says(text, "\nXid 31 (GPU memory page fault) on device 0, 0."), text);
  CHECK_MESSAGE(says(text, "\nXid 12345 on device 0, 0."), text);
  CHECK_MESSAGE(says(text, "\nXid 79 (GPU has fallen off the bus) on device 0, 0."), text);
  CHECK(says(lines(h, 2100 * ms), "Xid 31 (GPU memory page fault) on device 0, 2."));
  h.stop();
  const standin_nvml many("", "1@0,2@0,3@0,4@0,5@0,6@0,7@0,8@0,9@0,10@0");
  gpu_health other;
  other.start();
  const std::string last = wait_for(other, "Xid 10 ");
  CHECK_FALSE(says(last, "Xid 2 "));
  CHECK(says(last, "Xid 3 "));
}

TEST_CASE("no library, no driver, no events, a lost device: each is said") {
  gpu_health none("libcutrace-no-such-nvml.so.1");
  none.start();
  CHECK(says(wait_for(none, "no NVML"), "no NVML: libcutrace-no-such-nvml.so.1: cannot open shared object file"));
  CHECK(stop_ms(none) < 200);
  gpu_health steers("lib\x1b[31m.so");
  steers.start();
  CHECK(wait_for(steers, "no NVML").find("no NVML: lib?[31m.so: ") == 0);
  gpu_health older("libm.so.6");
  older.start();
  CHECK(wait_for(older, "no NVML") == "no NVML: libm.so.6 is older than CUDA 11.0\n");
  {
    const standin_nvml nvml("absent");
    gpu_health h;
    h.start();
    CHECK(wait_for(h, "no NVML") == "no NVML: nvmlInit: Driver Not Loaded (NVML error 9)\n");
  }
  {
    const standin_nvml nvml("no_events", "31@0");
    gpu_health h;
    h.start();
    const std::string text = wait_for(h, "no Xid");
    CHECK_MESSAGE(says(text, "no Xid can be seen: Not Supported (NVML error 3)\n"), text);
    CHECK_FALSE(says(text, "Xid 31"));
    CHECK(stop_ms(h) < 200);
  }
  const standin_nvml nvml("lost@300");
  gpu_health h;
  h.start();
  CHECK(says(wait_for(h, "GiB used"), "GiB used"));
  const std::string text = wait_for(h, "GPU is lost");
  CHECK_MESSAGE(text.find("device 0: GPU is lost (NVML error 15), 0.") == 0, text);
  const std::clock_t cpu = std::clock();  // waiting for events fails at once now: nobody spins
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  CHECK(static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC < 0.05);
  CHECK(stop_ms(h) < 200);
}

TEST_CASE("an NVML that never answers holds up nobody, from the beginning or later") {
  std::uint64_t took = UINT64_MAX;
  double waited = 1000;
  // The shortest of several: a busy machine may hold this thread up.
  for (int round = 0; round < 10 && (took >= 50 * ms || waited >= 400); ++round) {
    const standin_nvml nvml("hang");
    gpu_health h;
    h.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::uint64_t begin = now_ns();
    const std::string at_first = lines(h), later = lines(h, 7000 * ms);
    took = std::min(took, now_ns() - begin);
    CHECK(at_first == "NVML has not answered yet\n");
    CHECK(later.find("NVML does not answer (asked ") == 0);
    CHECK(age_in(later, "asked ") >= 7);
    const double now = stop_ms(h);
    CHECK(now >= 200);
    waited = std::min(waited, now);
  }
  CHECK(took < 50 * ms);
  CHECK(waited < 400);
  const standin_nvml nvml("hang@500");
  gpu_health h;
  h.start();
  CHECK(says(wait_for(h, "GiB used"), "GiB used"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  CHECK_FALSE(says(lines(h), "does not answer"));
  const std::string text = lines(h, 6000 * ms);
  CHECK_MESSAGE(text.find("NVML does not answer (last answer ") == 0, text);
  CHECK(age_in(text, "last answer ") >= 6);
  CHECK_MESSAGE(says(text, "\ndevice 0: 12.5 of 140.4 GiB used"), text);
  CHECK(stop_ms(h) < 400);
}

TEST_CASE("a forked child has no thread of its parent's, and may begin anew") {
  const standin_nvml nvml("");
  gpu_health h;
  h.start();
  CHECK(says(wait_for(h, "device 0"), "device 0"));
  const pid_t child = ::fork();
  if (child == 0) {
    if (stop_ms(h) > 100) ::_exit(1);  // nobody is there to be waited for
    if (h.lines(now_ns()).find("device 0") != 0) ::_exit(2);
#if !CUTRACE_TEST_TSAN  // which lets no child of a program with threads start one
    h.start();
    if (wait_for(h, "device 0").find("device 0") != 0) ::_exit(3);
    h.stop();
#endif
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(stop_ms(h) < 200);
}
