// SPDX-License-Identifier: Apache-2.0
// libcupti, opened at run time and never linked: a table of the functions that are used, some of them optional, and
// which of several libraries it should be. Headers give the types, and names of functions that they declare; the
// library at hand decides what is possible.
#pragma once

#include <cupti.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/process_info.hpp>
#include <cutrace/config.hpp>
#include <cutrace/marker/slot.hpp>
#include <string>
#include <type_traits>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

// Needed by every trace; without one of these the library is unusable.
// clang-format off
#define CUTRACE_CUPTI_NEEDED(X)                                                                            \
  X(cuptiGetVersion) X(cuptiSubscribe) X(cuptiUnsubscribe) X(cuptiEnableCallback) X(cuptiEnableDomain)     \
  X(cuptiGetCallbackName) X(cuptiActivityEnable) X(cuptiActivityDisable)                                   \
  X(cuptiActivityRegisterCallbacks) X(cuptiActivityGetNextRecord) X(cuptiActivityGetNumDroppedRecords)     \
  X(cuptiActivityFlushAll) X(cuptiActivitySetAttribute) X(cuptiGetResultString)
// clang-format on
// Absent from some release that is supported.
// clang-format off
#define CUTRACE_CUPTI_OPTIONAL(X)                                                                       \
  X(cuptiActivityRegisterTimestampCallback) X(cuptiSetThreadIdType) X(cuptiGetTimestamp)                \
  X(cuptiGetGraphId) X(cuptiGetGraphNodeId) X(cuptiActivityEnableLatencyTimestamps)                     \
  X(cuptiActivityConfigureUnifiedMemoryCounter) X(cuptiGetStreamIdEx) X(cuptiGetDeviceId)               \
  X(cuptiGetContextId)
// clang-format on

struct functions {
#define CUTRACE_MEMBER(name) decltype(&::name) name = nullptr;
  CUTRACE_CUPTI_NEEDED(CUTRACE_MEMBER)
  CUTRACE_CUPTI_OPTIONAL(CUTRACE_MEMBER)
#undef CUTRACE_MEMBER
#if CUPTI_API_VERSION >= 130000
  decltype(&::cuptiSubscribe_v2) cuptiSubscribe_v2 = nullptr;
#endif
  // Not in the headers of 11.8.
  CUptiResult(CUPTIAPI* cuptiGetGraphExecId)(CUgraphExec, std::uint32_t*) = nullptr;
  CUptiResult(CUPTIAPI* cuptiActivityEnableAllSyncRecords)(std::uint8_t) = nullptr;
  CUptiResult(CUPTIAPI* cuptiActivityEnableCudaEventDeviceTimestamps)(std::uint8_t) = nullptr;

  /// Name of the first needed function that the library lacks; nullptr when all are there.
  const char* load(void* library) noexcept {
    const char* missing = nullptr;
    // Where `cutrace run` preloads libcutrace_watch.so, dlsym finds wrappers of CUPTI's functions; `look_up` does not.
    const auto without_watch = reinterpret_cast<decltype(&::dlsym)>(::dlsym(RTLD_DEFAULT, "cutrace_watch_find_symbol"));
    const auto look_up = without_watch != nullptr ? without_watch : &::dlsym;
    const auto find = [&](auto& to, const char* name, bool needed) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(look_up(library, name));
      if (to == nullptr && needed && missing == nullptr) missing = name;
    };
#define CUTRACE_FIND(name) find(name, #name, true);
    CUTRACE_CUPTI_NEEDED(CUTRACE_FIND)
#undef CUTRACE_FIND
#define CUTRACE_FIND(name) find(name, #name, false);
    CUTRACE_CUPTI_OPTIONAL(CUTRACE_FIND)
#undef CUTRACE_FIND
#if CUPTI_API_VERSION >= 130000
    find(cuptiSubscribe_v2, "cuptiSubscribe_v2", false);
#endif
    find(cuptiGetGraphExecId, "cuptiGetGraphExecId", false);
    find(cuptiActivityEnableAllSyncRecords, "cuptiActivityEnableAllSyncRecords", false);
    find(cuptiActivityEnableCudaEventDeviceTimestamps, "cuptiActivityEnableCudaEventDeviceTimestamps", false);
    return missing;
  }

  /// "CUPTI_ERROR_... (39)".
  std::string explain(CUptiResult r) const {
    const char* text = nullptr;
    if (cuptiGetResultString != nullptr) cuptiGetResultString(r, &text);
    return std::string(text != nullptr ? text : "CUPTI error") + " (" + std::to_string(static_cast<int>(r)) + ")";
  }
};
#undef CUTRACE_CUPTI_NEEDED
#undef CUTRACE_CUPTI_OPTIONAL

/// CUDA major version of a libcupti, by its API version: up to 17 are CUDA 11 and older, 19 to 28 are 12.x, from 13.0
/// on the number spells the release (cupti_version.h). 18 is both 11.8 and 12.0: there the file name decides, as in
/// "libcupti.so.11.8" and "libcupti.so.12"; 0 where the name does not say.
inline int cuda_major_of(std::uint32_t api_version, const std::string& path) noexcept {
  if (api_version >= 1000) return static_cast<int>(api_version / 10000);
  if (api_version != 18) return api_version > 18 ? 12 : 11;
  const std::size_t at = path.rfind("libcupti.so.");
  const int named = at != std::string::npos ? std::atoi(path.c_str() + at + std::strlen("libcupti.so.")) : 0;
  return named == 11 || named == 12 ? named : 0;
}

/// Where toolkits put the libcupti of a version such as "13" or "11.8", the first place first. The loader's own paths
/// come before them.
inline std::vector<std::string> usual_paths(const std::string& version) {
  std::vector<std::string> roots, paths;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* v = detail::environment(variable)) roots.push_back(v);
  }
  roots.push_back("/usr/local/cuda");
  roots.push_back("/usr/local/cuda-" + version);
  roots.push_back("/opt/cuda");
  for (const std::string& root : roots)
    for (const char* folder :
         {"/extras/CUPTI/lib64/", "/lib64/", "/lib/", "/targets/x86_64-linux/lib/", "/targets/sbsa-linux/lib/"})
      paths.push_back(root + folder + "libcupti.so." + version);
  return paths;
}

/// Finds and opens libcupti. `driver_major` 0 means unknown.
class library {
 public:
  /// Returns the path of the library that was opened, or why none was; `opened` is null then.
  std::string open(int driver_major) {
    if (const char* named = detail::environment("CUTRACE_CUPTI_LIBRARY")) {
      if (try_open(named, RTLD_NOW)) return path_;
      return "CUTRACE_CUPTI_LIBRARY cannot be opened: " + last_error_;  // which begins with the path
    }
    if (open_loaded()) return path_;
    constexpr int headers_major = CUDA_VERSION / 1000;
    for (int major : {driver_major, headers_major, 13, 12}) {
      if (major != 0 && open_version(std::to_string(major))) return path_;
    }
    // Files of CUDA 11 bear the minor version, too. Last: under a newer driver such a library makes few records.
    if (open_version("11.8")) return path_;
    return "no libcupti was found: install the CUDA toolkit's CUPTI (libcupti.so." +
           std::to_string(driver_major != 0 ? driver_major : headers_major) +
           "), or name the file in CUTRACE_CUPTI_LIBRARY";
  }
  void* opened() const noexcept { return handle_; }
  const std::string& path() const noexcept { return path_; }

 private:
  bool try_open(const std::string& path, int flags) {
    handle_ = dlopen(path.c_str(), flags | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* why = dlerror();
      last_error_ = why != nullptr ? why : "unknown reason";
      return false;
    }
    path_ = path;
    link_map* map = nullptr;
    if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') path_ = map->l_name;
    return true;
  }

  /// The application's own one, if it has loaded any (PyTorch brings its own): two in one process get in each other's
  /// way. In a Python wheel its name may hold a checksum, as in "libcupti-0a1b2c3d.so.12" (auditwheel).
  bool open_loaded() {
    std::string found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
          char name[4096];
          const char* base = std::strrchr(detail::copy_name(*info, name), '/');
          base = base != nullptr ? base + 1 : name;
          const bool is_it = std::strncmp(base, "libcupti.so", 11) == 0 ||
                             (std::strncmp(base, "libcupti-", 9) == 0 && std::strstr(base, ".so") != nullptr);
          if (!is_it) return 0;
          *static_cast<std::string*>(data) = name;
          return 1;
        },
        &found);
    return !found.empty() && try_open(found, RTLD_NOW | RTLD_NOLOAD);
  }

  bool open_version(const std::string& version) {
    const std::string file = "libcupti.so." + version;
    if (try_open(file, RTLD_NOW)) return true;  // the loader's own paths
    for (const std::string& path : usual_paths(version))
      if (try_open(path, RTLD_NOW)) return true;
    return false;
  }

  void* handle_ = nullptr;
  std::string path_;
  std::string last_error_;
};

/// Whether this program is linked statically: dlopen would then bring a second C library with it, whose thread-local
/// data does not work in the program's threads.
inline bool is_static_program() noexcept {
  bool is_static = false;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        // The first object is the program, without a name; in a namespace of its own (dlmopen) a library, with one.
        bool has_loader = info->dlpi_name != nullptr && info->dlpi_name[0] != '\0';
        for (std::size_t i = 0; i < info->dlpi_phnum; ++i)
          has_loader = has_loader || info->dlpi_phdr[i].p_type == PT_INTERP;
        *static_cast<bool*>(data) = !has_loader;
        return 1;
      },
      &is_static);
  return is_static;
}

/// The driver's CUDA version (13000 is 13.0). 0: there is no usable driver, and `why` says so. Does not initialise
/// CUDA.
inline int driver_version(std::string& why) {
  if (is_static_program()) {
    why = "this program is linked statically, and cannot load the CUDA driver";
    return 0;
  }
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) {
    why = "no CUDA driver on this machine (libcuda.so.1 cannot be loaded)";
    return 0;
  }
  using get_version = int (*)(int*);
  const get_version get = reinterpret_cast<get_version>(dlsym(cuda, "cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0 || version == 0) {
    why = "libcuda.so.1 does not say its version: the driver is not usable";
    return 0;
  }
  return version;
}

/// Set by the injection library, which the driver loads during its own start: the driver must not be called then. It
/// stays set, since cuda_is_running is called only when the session begins, that is, during this start.
inline bool& loaded_by_driver() noexcept {
  static bool loaded = false;
  return loaded;
}

/// Whether CUDA has been initialised in this process, so that graphs may exist. Does not initialise it.
inline bool cuda_is_running() noexcept {
  if (loaded_by_driver()) return false;
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  using get_count = int (*)(int*);
  const get_count get = cuda != nullptr ? reinterpret_cast<get_count>(dlsym(cuda, "cuDeviceGetCount")) : nullptr;
  constexpr int not_initialized = 3;  // CUDA_ERROR_NOT_INITIALIZED
  int n = 0;
  return get != nullptr && get(&n) != not_initialized;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
