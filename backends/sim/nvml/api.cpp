// SPDX-License-Identifier: Apache-2.0
// The stand-in for libnvidia-ml.so.1: what cutrace asks of NVML (run/gpu_health.hpp), with the numbers of an H200. Its
// functions, layouts and error codes are those of nvml.h, which need not be installed. Read at each nvmlInit:
//
//   CUTRACE_SIM_DEVICES=<n>     devices, 1 to 16
//   CUTRACE_SIM_XID=<x>@<ms>    device 0 reports this Xid so long after nvmlInit; several, separated by commas
//   CUTRACE_SIM_NVML=<word>     absent: nvmlInit finds no driver
//                               hang, hang@<ms>: no call returns, from nvmlInit on or from so long after it
//                               others_hang: no call that reads the state of another device than 0 returns
//                               lost, lost@<ms>: device 0 is lost (NVML_ERROR_GPU_IS_LOST), likewise
//                               no_events: no device reports Xids, as under vGPU
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
using std::chrono::milliseconds;

enum result : int {
  success = 0,
  invalid_argument = 2,
  not_supported = 3,
  driver_not_loaded = 9,
  timeout = 10,
  lost = 15
};
constexpr unsigned long long xid_type = 8;

struct device {
  unsigned index;
};
struct xid {
  unsigned long long number;
  clock_type::time_point at;
};
struct state {
  std::mutex mutex;
  device devices[16];
  device of_events{0};  ///< device 0 as events name it: nvml.h does not promise the handle that was registered
  unsigned count = 0;
  std::string word;
  clock_type::time_point word_from;
  std::vector<xid> xids;
};
state& now() {
  static state* const s = new state();  // threads may be in here at exit
  return *s;
}

long after_at(const std::string& text) {
  const std::size_t at = text.find('@');
  return at == text.npos ? 0 : std::atol(text.c_str() + at + 1);
}
std::string variable(const char* name) {
  const char* const v = std::getenv(name);
  return v != nullptr ? v : "";
}

/// With the lock held: whether the word counts by now.
bool is(const state& s, const char* word) { return s.word == word && clock_type::now() >= s.word_from; }

/// Never returns where the word counts.
void hang_for(const char* word) {
  {
    const std::lock_guard<std::mutex> lock(now().mutex);
    if (!is(now(), word)) return;
  }
  for (;;) ::pause();
}

/// First of all in each function.
void enter() { hang_for("hang"); }

result of_device(const device* d) {
  enter();
  const std::lock_guard<std::mutex> lock(now().mutex);
  if (d == nullptr || d->index >= now().count) return invalid_argument;
  return d->index == 0 && is(now(), "lost") ? lost : success;
}

}  // namespace

extern "C" {

struct nvml_memory {
  unsigned long long total, free, used;
};
struct nvml_event {
  device* where;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

__attribute__((visibility("default"))) int nvmlInit_v2() {
  {
    state& s = now();
    const std::lock_guard<std::mutex> lock(s.mutex);
    const auto begin = clock_type::now();
    const std::string devices = variable("CUTRACE_SIM_DEVICES"), word = variable("CUTRACE_SIM_NVML");
    s.count = devices.empty() ? 1 : static_cast<unsigned>(std::clamp(std::atoi(devices.c_str()), 1, 16));
    for (unsigned i = 0; i < 16; ++i) s.devices[i].index = i;
    s.word = word.substr(0, word.find('@'));
    s.word_from = begin + milliseconds(after_at(word));
    s.xids.clear();
    const std::string xids = variable("CUTRACE_SIM_XID");
    for (std::size_t at = 0; at < xids.size();) {
      const std::size_t end = std::min(xids.find(',', at), xids.size());
      const std::string one = xids.substr(at, end - at);
      s.xids.push_back({std::strtoull(one.c_str(), nullptr, 10), begin + milliseconds(after_at(one))});
      at = end + 1;
    }
    if (s.word == "absent") return driver_not_loaded;
  }
  enter();
  return success;
}

__attribute__((visibility("default"))) int nvmlShutdown() {
  enter();
  return success;
}

__attribute__((visibility("default"))) const char* nvmlErrorString(int r) {
  return r == success             ? "Success"
         : r == not_supported     ? "Not Supported"
         : r == driver_not_loaded ? "Driver Not Loaded"
         : r == timeout           ? "Timeout"
         : r == lost              ? "GPU is lost"
                                  : "Unknown Error";
}

__attribute__((visibility("default"))) int nvmlDeviceGetCount_v2(unsigned* count) {
  enter();
  const std::lock_guard<std::mutex> lock(now().mutex);
  *count = now().count;
  return success;
}

__attribute__((visibility("default"))) int nvmlDeviceGetHandleByIndex_v2(unsigned index, device** to) {
  enter();
  const std::lock_guard<std::mutex> lock(now().mutex);
  if (index >= now().count) return invalid_argument;
  *to = &now().devices[index];
  return success;
}

__attribute__((visibility("default"))) int nvmlDeviceGetUUID(device* d, char* text, unsigned size) {
  const result r = of_device(d);
  if (r == success) std::snprintf(text, size, "GPU-5d2f1c%02x-0000-4000-8000-000000000000", d->index);
  return r;
}

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(device* d, nvml_memory* to) {
  const result r = of_device(d);
  if (r == success && d->index != 0) hang_for("others_hang");
  constexpr unsigned long long total = 143771ull << 20, used = 12800ull << 20;
  if (r == success) *to = {total, total - used, used};
  return r;
}

__attribute__((visibility("default"))) int nvmlDeviceGetClockInfo(device* d, int type, unsigned* mhz) {
  const result r = of_device(d);
  if (r != success) return r;
  if (type < 0 || type > 3) return invalid_argument;
  *mhz = type == 2 ? 3201 : 1980;  // NVML_CLOCK_MEM, and the others
  return success;
}

__attribute__((visibility("default"))) int nvmlDeviceGetCurrentClocksEventReasons(device* d, unsigned long long* bits) {
  const result r = of_device(d);
  if (r == success) *bits = 4;  // nvmlClocksEventReasonSwPowerCap
  return r;
}

__attribute__((visibility("default"))) int nvmlEventSetCreate(void** to) {
  enter();
  *to = new unsigned long long(0);  // the types that device 0 was registered for
  return success;
}

__attribute__((visibility("default"))) int nvmlDeviceRegisterEvents(device* d, unsigned long long types, void* set) {
  const result r = of_device(d);
  if (r != success) return r;
  const std::lock_guard<std::mutex> lock(now().mutex);
  if (now().word == "no_events") return not_supported;
  if (d->index == 0) *static_cast<unsigned long long*>(set) |= types;
  return success;
}

__attribute__((visibility("default"))) int nvmlEventSetWait_v2(void* set, nvml_event* to, unsigned wait_ms) {
  enter();
  const auto end = clock_type::now() + milliseconds(wait_ms);
  for (;;) {
    {
      state& s = now();
      const std::lock_guard<std::mutex> lock(s.mutex);
      if (is(s, "lost")) return lost;
      const auto due =
          std::find_if(s.xids.begin(), s.xids.end(), [](const xid& x) { return x.at <= clock_type::now(); });
      if ((*static_cast<unsigned long long*>(set) & xid_type) != 0 && due != s.xids.end()) {
        *to = {&s.of_events, xid_type, due->number, 0xffffffffu, 0xffffffffu};
        s.xids.erase(due);
        return success;
      }
    }
    if (clock_type::now() >= end) return timeout;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

__attribute__((visibility("default"))) int nvmlEventSetFree(void* set) {
  enter();
  delete static_cast<unsigned long long*>(set);
  return success;
}
}
