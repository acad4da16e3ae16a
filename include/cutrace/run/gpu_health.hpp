// SPDX-License-Identifier: Apache-2.0
// What NVML says of the GPUs while a watchdog watches: memory and clocks each second, and Xid errors as they come.
//
// Why a thread of its own: NVML asks the kernel's driver, and a call may hang for ever where a GPU does. Nobody waits
// for it, and the thread is left behind then. The library is opened at run time, since a program must start where there
// is none. Functions, numbers and layouts are those of nvml.h, CUDA 11.0 and later; tests/integration/gpu_health.cpp
// compares them with the header where it is installed.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/base/write_all.hpp>
#include <cutrace/clock.hpp>
#include <cutrace/config.hpp>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What is used of NVML (docs.nvidia.com/deploy/nvml-api).
struct nvml_library {
  using device = void*;     ///< nvmlDevice_t
  using event_set = void*;  ///< nvmlEventSet_t
  /// nvmlMemory_t: bytes. `used` includes what the driver reserves.
  struct memory {
    unsigned long long total, free, used;
  };
  /// nvmlEventData_t of nvmlEventSetWait_v2. `data` is the Xid of an event of that type, 999 for an unknown one.
  struct event {
    device where;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
  };
  static constexpr int success = 0, timeout = 10;    ///< NVML_SUCCESS, NVML_ERROR_TIMEOUT
  static constexpr int clock_sm = 1;                 ///< NVML_CLOCK_SM
  static constexpr unsigned long long xid_type = 8;  ///< nvmlEventTypeXidCriticalError
  static constexpr unsigned uuid_room = 96;          ///< NVML_DEVICE_UUID_V2_BUFFER_SIZE

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*get_count)(unsigned*) = nullptr;
  int (*get_device)(unsigned, device*) = nullptr;
  int (*get_uuid)(device, char*, unsigned) = nullptr;
  int (*get_memory)(device, memory*) = nullptr;
  int (*get_clock)(device, int, unsigned*) = nullptr;
  int (*get_reasons)(device,
                     unsigned long long*) = nullptr;  ///< EventReasons, before R535 ThrottleReasons; null: neither
  int (*make_events)(event_set*) = nullptr;
  int (*register_events)(device, unsigned long long, event_set) = nullptr;
  int (*wait_event)(event_set, event*, unsigned milliseconds) = nullptr;
  int (*free_events)(event_set) = nullptr;

  /// Never closed: other parts of the program may have it open, too. @returns what is missing, or nothing
  CUTRACE_NOINLINE std::string open(const char* name) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      return why != nullptr ? why : "it cannot be opened";
    }
    const auto find = [library](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, symbol));
      return function != nullptr;
    };
    if (!find(get_reasons, "nvmlDeviceGetCurrentClocksEventReasons"))
      static_cast<void>(find(get_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons"));
    const bool all = find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") &&
                     find(error_string, "nvmlErrorString") && find(get_count, "nvmlDeviceGetCount_v2") &&
                     find(get_device, "nvmlDeviceGetHandleByIndex_v2") && find(get_uuid, "nvmlDeviceGetUUID") &&
                     find(get_memory, "nvmlDeviceGetMemoryInfo") && find(get_clock, "nvmlDeviceGetClockInfo") &&
                     find(make_events, "nvmlEventSetCreate") && find(register_events, "nvmlDeviceRegisterEvents") &&
                     find(wait_event, "nvmlEventSetWait_v2") && find(free_events, "nvmlEventSetFree");
    return all ? std::string() : std::string(name) + " is older than CUDA 11.0";
  }
  /// "Not Supported (NVML error 3)"
  CUTRACE_NOINLINE std::string text_of(int result) const {
    const char* const words = error_string(result);
    return (words != nullptr ? std::string(words) + " " : std::string()) + "(NVML error " + std::to_string(result) +
           ")";
  }
};

/// The name of a common Xid, as NVIDIA's catalogue has it (docs.nvidia.com/deploy/xid-errors); nullptr for others.
inline const char* name_of_xid(unsigned long long xid) noexcept {
  switch (xid) {
    case 13:
      return "graphics engine exception";
    case 31:
      return "GPU memory page fault";
    case 43:
      return "GPU stopped processing";
    case 45:
      return "preemptive cleanup, due to previous errors";
    case 48:
      return "double bit ECC error";
    case 62:
      return "internal micro-controller halt";
    case 63:
      return "ECC page retirement or row remapping recorded";
    case 64:
      return "ECC page retirement or row remapping could not be recorded";
    case 74:
      return "NVLink error";
    case 79:
      return "GPU has fallen off the bus";
    case 92:
      return "high single-bit ECC error rate";
    case 94:
      return "contained ECC error";
    case 95:
      return "uncontained ECC error";
    case 119:
      return "GSP RPC timeout";
    case 120:
      return "GSP error";
    default:
      return nullptr;
  }
}

/// Why clocks are what they are, where that is worth reporting (nvmlClocksEventReasons in nvml.h); empty otherwise.
CUTRACE_NOINLINE inline std::string words_of_clock_reasons(unsigned long long bits) {
  static constexpr std::pair<unsigned long long, const char*> all[] = {{0x1, "idle"},
                                                                       {0x4, "limited by the power cap"},
                                                                       {0x8, "hardware slowdown"},
                                                                       {0x20, "limited by heat"},
                                                                       {0x40, "slowed by heat"},
                                                                       {0x80, "slowed by the power brake"}};
  std::string words;
  for (const auto& [bit, word] : all)
    if ((bits & bit) != 0) words.append(words.empty() ? "" : ", ").append(word);
  return words;
}

class gpu_health {
 public:
  static constexpr std::size_t device_most = 16, xid_most = 8;
  static constexpr std::uint64_t period_ns = 1000000000, silence_ns = 3000000000;

  /// `library` is what dlopen is asked for.
  explicit gpu_health(const char* library = "libnvidia-ml.so.1") : library_(library) {}
  gpu_health(const gpu_health&) = delete;
  gpu_health& operator=(const gpu_health&) = delete;
  ~gpu_health() { stop(); }

  /// Starts the thread that asks NVML, without waiting; does nothing where it runs. Where no thread can be started,
  /// `lines` reports that. Not concurrent with another start or stop.
  CUTRACE_NOINLINE void start() noexcept {
    if (worker_ != nullptr && worker_->process == ::getpid()) return;
    static_cast<void>(worker_.release());  // of the parent of a forked child: its thread is not here
    try {
      const held state = std::make_shared<shared>(library_);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        state_ = state;
      }
      std::unique_ptr<worker> made(new worker());
      std::unique_ptr<held> of_thread(new held(state));
      made->process = ::getpid();
      made->thread = start_thread(&run, of_thread.get());
      static_cast<void>(of_thread.release());  // the thread's, which may outlive this
      worker_ = std::move(made);
    } catch (const std::exception& e) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (state_ != nullptr) state_->fail(e.what());
    }
  }

  /// Asks no more. Waits 200 ms at most: a thread that NVML holds is left behind, with all that it uses. What `lines`
  /// says stays. Not concurrent with another start or stop.
  CUTRACE_NOINLINE void stop() noexcept {
    if (worker_ == nullptr) return;
    if (worker_->process != ::getpid()) return static_cast<void>(worker_.release());
    bool ended = false;
    {
      std::unique_lock<std::mutex> lock(state_->mutex);
      state_->stopping = true;
      state_->changed.notify_all();
      ended = state_->changed.wait_for(lock, std::chrono::milliseconds(200), [this] { return state_->ended; });
    }
    if (ended)
      worker_->thread.join();
    else
      worker_->thread.detach();
    worker_.reset();
  }

  /// What is known, a line each, each with its newline and without an indent; empty before `start`. Never waits for
  /// NVML. Any thread. `now_monotonic_ns`: CLOCK_MONOTONIC, from which ages are counted. Devices have NVML's numbers,
  /// which are those of nvidia-smi and may differ from CUDA's; where there are several, the beginning of the UUID is
  /// added. An Xid may be another process's.
  CUTRACE_NOINLINE std::string lines(std::uint64_t now_monotonic_ns) const {
    held s;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      s = state_;
    }
    if (s == nullptr) return {};
    const std::lock_guard<std::mutex> lock(s->mutex);
    return s->text(now_monotonic_ns);
  }

 private:
  struct device_state {
    std::string uuid;
    nvml_library::memory memory{};
    unsigned sm_mhz = 0;
    unsigned long long reasons = 0;
    bool has_memory = false, has_clock = false;
    std::string failure;      ///< of the last read
    std::uint64_t at_ns = 0;  ///< of the last read; 0: none yet
  };
  struct xid_event {
    unsigned long long xid;
    int device;  ///< -1: NVML names none that it has listed
    std::uint64_t at_ns;
  };

  /// State that the thread and its owner share.
  struct shared {
    explicit shared(std::string name) : library(std::move(name)), begun_ns(clock::monotonic_ns()) {}

    const std::string library;
    const std::uint64_t begun_ns;
    std::mutex mutex;  ///< guards all below; never held across a call of NVML
    std::condition_variable changed;
    bool stopping = false, ended = false;
    std::string missing;    ///< why there is no NVML
    std::string no_events;  ///< why no Xid will be seen
    std::vector<device_state> devices;
    std::vector<xid_event> xids;  ///< the last ones, oldest first
    std::uint64_t answered_ns = 0;

    CUTRACE_NOINLINE void fail(std::string why) {
      const std::lock_guard<std::mutex> lock(mutex);
      missing = std::move(why);
    }
    /// @returns whether to go on
    bool sleep(unsigned milliseconds) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] { return stopping; });
      return !stopping;
    }
    bool goes_on() {
      const std::lock_guard<std::mutex> lock(mutex);
      return !stopping;
    }

    static std::string age(std::uint64_t then_ns, std::uint64_t now_ns) {
      const double seconds = now_ns > then_ns ? static_cast<double>(now_ns - then_ns) / 1e9 : 0.0;
      char text[48];
      std::snprintf(text, sizeof(text), seconds < 10 ? "%.1f s" : "%.0f s", seconds);
      return text;
    }
    std::string name_of(std::size_t device) const {
      std::string name = "device " + std::to_string(device);
      if (devices.size() > 1 && !devices[device].uuid.empty()) name += " (" + devices[device].uuid.substr(0, 12) + ")";
      return name;
    }

    CUTRACE_NOINLINE std::string text(std::uint64_t now_ns) const {
      std::string out;
      if (!missing.empty()) {
        out = "no NVML: " + missing + "\n";
      } else {
        const std::uint64_t last = answered_ns != 0 ? answered_ns : begun_ns;
        const bool silent = !ended && now_ns > last + silence_ns;
        if (silent)
          out += std::string("NVML does not answer (") + (answered_ns != 0 ? "last answer " : "asked ") +
                 age(last, now_ns) + " ago)\n";
        else if (answered_ns == 0)
          out += "NVML has not answered yet\n";
        for (std::size_t i = 0; i < devices.size(); ++i)
          if (devices[i].at_ns != 0) out += text_of(i, now_ns);
        for (const xid_event& x : xids) {
          const char* const words = name_of_xid(x.xid);
          out += "Xid " + std::to_string(x.xid) + (words != nullptr ? " (" + std::string(words) + ")" : std::string()) +
                 (x.device >= 0 ? " on " + name_of(static_cast<std::size_t>(x.device)) : std::string()) + ", " +
                 age(x.at_ns, now_ns) + " ago\n";
        }
        if (!no_events.empty()) out += "no Xid can be seen: " + no_events + "\n";
      }
      mask_controls(&out[0], out.size());
      return out;
    }
    std::string text_of(std::size_t device, std::uint64_t now_ns) const {
      const device_state& d = devices[device];
      std::string out = name_of(device) + ": ";
      char text[96];
      constexpr double gib = 1024.0 * 1024 * 1024;
      if (d.has_memory) {
        std::snprintf(text, sizeof(text), "%.1f of %.1f GiB used, ", static_cast<double>(d.memory.used) / gib,
                      static_cast<double>(d.memory.total) / gib);
        out += text;
      }
      if (d.has_clock) {
        const std::string words = words_of_clock_reasons(d.reasons);
        out += "SM clock " + std::to_string(d.sm_mhz) + " MHz" + (words.empty() ? "" : " (" + words + ")") + ", ";
      }
      if (!d.failure.empty()) out += d.failure + ", ";
      return out + age(d.at_ns, now_ns) + " ago\n";
    }
  };
  using held = std::shared_ptr<shared>;
  struct worker {
    std::thread thread;
    pid_t process = 0;
  };

  static void run(void* p) {
    const std::unique_ptr<held> mine(static_cast<held*>(p));
    shared& s = **mine;
    inside_runtime() = true;
    ::pthread_setname_np(::pthread_self(), "cutrace-nvml");
    try {
      watch(s);
    } catch (const std::exception& e) {  // no memory
      s.fail(e.what());
    }
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.ended = true;
    s.changed.notify_all();
  }

  CUTRACE_NOINLINE static void watch(shared& s) {
    nvml_library nvml;
    const std::string missing = nvml.open(s.library.c_str());
    if (!missing.empty()) return s.fail(missing);
    int result = nvml.init();
    if (result != nvml_library::success) return s.fail("nvmlInit: " + nvml.text_of(result));
    std::vector<nvml_library::device> devices;
    result = list(nvml, devices);
    nvml_library::event_set events = nullptr;
    if (result != nvml_library::success) {
      s.fail("nvmlDeviceGetCount: " + nvml.text_of(result));
    } else {
      keep_names(s, nvml, devices);
      events = make_events(s, nvml, devices);
      while (s.goes_on()) {
        const std::uint64_t next_ns = clock::monotonic_ns() + period_ns;
        for (std::size_t i = 0; i < devices.size(); ++i) read(s, nvml, devices[i], i);
        answered(s);
        while (clock::monotonic_ns() < next_ns && s.goes_on()) wait(s, nvml, devices, events);
      }
    }
    if (events != nullptr) static_cast<void>(nvml.free_events(events));
    static_cast<void>(nvml.shutdown());
  }

  static int list(const nvml_library& nvml, std::vector<nvml_library::device>& devices) {
    unsigned count = 0;
    const int result = nvml.get_count(&count);
    for (unsigned i = 0; result == nvml_library::success && i < count && i < device_most; ++i) {
      nvml_library::device one = nullptr;
      if (nvml.get_device(i, &one) != nvml_library::success)
        one = nullptr;  // lost, or not this user's: it keeps its number
      devices.push_back(one);
    }
    return result;
  }

  static std::string uuid_of(const nvml_library& nvml, nvml_library::device device) {
    char text[nvml_library::uuid_room] = {};
    if (device == nullptr || nvml.get_uuid(device, text, sizeof(text)) != nvml_library::success) return {};
    text[sizeof(text) - 1] = '\0';
    return text;
  }
  static void keep_names(shared& s, const nvml_library& nvml, const std::vector<nvml_library::device>& devices) {
    std::vector<device_state> all(devices.size());
    for (std::size_t i = 0; i < devices.size(); ++i) all[i].uuid = uuid_of(nvml, devices[i]);
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.devices = std::move(all);
  }

  /// @returns nullptr where no device reports Xids
  static nvml_library::event_set make_events(shared& s, const nvml_library& nvml,
                                             const std::vector<nvml_library::device>& devices) {
    nvml_library::event_set events = nullptr;
    int result = nvml.make_events(&events);
    bool any = false;
    if (result == nvml_library::success) {
      for (const nvml_library::device d : devices) {
        if (d == nullptr) continue;
        const int one = nvml.register_events(d, nvml_library::xid_type, events);
        any = any || one == nvml_library::success;
        if (one != nvml_library::success) result = one;
      }
    }
    if (any) return events;
    if (events != nullptr) static_cast<void>(nvml.free_events(events));
    const std::string why = devices.empty() ? "there is no device" : nvml.text_of(result);
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.no_events = why;
    return nullptr;
  }

  static void read(shared& s, const nvml_library& nvml, nvml_library::device device, std::size_t index) {
    if (device == nullptr) return;
    device_state now;
    const int memory = nvml.get_memory(device, &now.memory);
    const int sm = nvml.get_clock(device, nvml_library::clock_sm, &now.sm_mhz);
    now.has_memory = memory == nvml_library::success;
    now.has_clock = sm == nvml_library::success;
    if (nvml.get_reasons == nullptr || nvml.get_reasons(device, &now.reasons) != nvml_library::success) now.reasons = 0;
    if (!now.has_memory || !now.has_clock) now.failure = nvml.text_of(now.has_memory ? sm : memory);
    now.at_ns = clock::monotonic_ns();
    const std::lock_guard<std::mutex> lock(s.mutex);
    now.uuid = s.devices[index].uuid;
    s.answered_ns = now.at_ns;  // now: the others may be slow, or never answer
    s.devices[index] = std::move(now);
  }

  static void answered(shared& s) {
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.answered_ns = clock::monotonic_ns();
  }

  /// Waits for an Xid, 100 ms at most, so that the thread ends in time.
  static void wait(shared& s, const nvml_library& nvml, const std::vector<nvml_library::device>& devices,
                   nvml_library::event_set events) {
    constexpr unsigned milliseconds = 100;
    nvml_library::event e{};
    const int result = events != nullptr ? nvml.wait_event(events, &e, milliseconds) : nvml_library::timeout;
    if (events == nullptr || (result != nvml_library::success && result != nvml_library::timeout))
      return static_cast<void>(s.sleep(milliseconds));  // NVML would report a lost GPU again at once
    answered(s);
    if (result != nvml_library::success || e.type != nvml_library::xid_type) return;
    xid_event x{e.data, -1, clock::monotonic_ns()};
    const std::string uuid = uuid_of(nvml, e.where);  // its handle need not be the one that was registered
    const std::lock_guard<std::mutex> lock(s.mutex);
    for (std::size_t i = 0; i < devices.size() && x.device < 0; ++i)
      if (devices[i] == e.where || (!uuid.empty() && uuid == s.devices[i].uuid)) x.device = static_cast<int>(i);
    if (s.xids.size() == xid_most) s.xids.erase(s.xids.begin());
    s.xids.push_back(x);
  }

  const std::string library_;
  mutable std::mutex mutex_;  ///< guards `state_`, not what it points to
  held state_;
  std::unique_ptr<worker> worker_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
