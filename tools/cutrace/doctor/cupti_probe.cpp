// SPDX-License-Identifier: Apache-2.0
// Calls the code of the CUPTI backend, so that doctor opens, judges and explains libcupti as a traced process would.
#include "cupti_probe.hpp"

#include <climits>
#include <cstdint>
#include <set>

#include "driver_calls.hpp"

#if CUTRACE_WITH_CUPTI
#include <cutrace/cupti/library.hpp>
#include <cutrace/cupti/refusals.hpp>
#endif

namespace cutrace_tool::doctor {

#if CUTRACE_WITH_CUPTI

namespace {

namespace cupti = cutrace::cupti;

void CUPTIAPI no_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

/// Subscribes as the backend does; `holder` receives the name of a tool that has subscribed already.
CUptiResult subscribe(const cupti::functions& api, CUpti_SubscriberHandle& handle,
                      [[maybe_unused]] char (&holder)[128]) {
#if CUPTI_API_VERSION >= 130000
  if (api.cuptiSubscribe_v2 != nullptr) {
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "cutrace doctor";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = sizeof(holder);
    const CUptiResult r = api.cuptiSubscribe_v2(&handle, &no_callback, nullptr, &params);
    holder[sizeof(holder) - 1] = '\0';
    return r;
  }
#endif
  return api.cuptiSubscribe(&handle, &no_callback, nullptr);
}

/// Starts CUDA as the program would, `injected` with the tool that the environment names; but not with cutrace itself,
/// which would then be the tool that has CUPTI.
bool start_cuda(const reporter& t, bool injected) {
  if (!injected || names_cutrace_library(variable("CUDA_INJECTION64_PATH"))) ::unsetenv("CUDA_INJECTION64_PATH");
  driver_calls cuda;
  t.step("loading libcuda.so.1");
  if (!cuda.open() || cuda.init == nullptr) return false;
  t.step("cuInit, with the tools that the environment names,");
  return cuda.init(0) == 0;
}

void use(const reporter& t, const cupti::functions& api) {
  CUpti_SubscriberHandle handle{};
  char holder[128] = {};
  t.step("cuptiSubscribe");
  const CUptiResult r = subscribe(api, handle, holder);
  if (r != CUPTI_SUCCESS) {
    t.report("refusal", cupti::explain_refusal(api, r, holder));
    if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || r == CUPTI_ERROR_MAX_LIMIT_REACHED) t.report("taken", 1);
    return;
  }
  t.report("subscribed", 1);
  t.step("cuptiActivityEnable");
  const CUptiResult kernels = api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (kernels != CUPTI_SUCCESS) t.report("no_records", api.explain(kernels));
  t.step("cuptiActivityDisable");
  if (kernels == CUPTI_SUCCESS) api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  t.step("cuptiUnsubscribe");
  api.cuptiUnsubscribe(handle);
}

/// Opens libcupti, and uses it where CUDA starts: check_driver reports a driver that does not start.
void ask(const reporter& t, int driver_version, bool driver_usable, bool injected) {
  const bool running = driver_usable && start_cuda(t, injected);
  t.report("began", 1);
  cupti::library lib;
  cupti::functions api;
  const std::string named = variable("CUTRACE_CUPTI_LIBRARY");
  t.step("loading " + (named.empty() ? "libcupti" : named + ", which CUTRACE_CUPTI_LIBRARY names,"));
  const std::string found = lib.open(driver_version / 1000);
  if (lib.opened() == nullptr) return t.report("why_not", found);
  t.report("path", lib.path());
  if (const char* missing = api.load(lib.opened()))
    return t.report("why_not", found + " has no function " + missing + ": it is no usable libcupti");
  std::uint32_t version = 0;
  t.step("cuptiGetVersion");
  if (api.cuptiGetVersion(&version) == CUPTI_SUCCESS) {
    t.report("version", version);
    if (driver_version != 0) t.report("mismatch", cupti::explain_mismatch(lib, version, driver_version / 1000));
  }
  if (running) use(t, api);
}

/// To be called in a child for each file: two libcuptis in one process get in each other's way.
void ask_file(const reporter& t, const std::string& path) {
  t.step("loading " + path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return t.report("fault", why != nullptr ? why : "it cannot be loaded");
  }
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) t.report("path", map->l_name);
  cupti::functions api;
  if (const char* missing = api.load(library)) return t.report("fault", std::string("it has no function ") + missing);
  std::uint32_t version = 0;
  t.step("cuptiGetVersion");
  if (api.cuptiGetVersion(&version) == CUPTI_SUCCESS) t.report("version", version);
}

std::vector<std::string> versions_of_interest(int driver_version) {
  std::vector<std::string> all;
  for (const int major : {driver_version / 1000, CUDA_VERSION / 1000, 13, 12})
    if (major != 0 && std::find(all.begin(), all.end(), std::to_string(major)) == all.end())
      all.push_back(std::to_string(major));
  all.push_back("11.8");
  return all;
}

std::string resolved(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) != nullptr ? real : path;
}

}  // namespace

cupti_facts ask_cupti(const setup& s, const driver_facts& driver) {
  cupti_facts f;
  f.built_in = true;
  f.probe = run_probe(s.patience_seconds, [&](const reporter& t) { ask(t, driver.version, driver.usable(), true); });
  probe_result library = f.probe;
  if (library.find("began") == nullptr)  // a tool crashed or hung as CUDA started: ask about libcupti alone
    library = run_probe(s.patience_seconds, [&](const reporter& t) { ask(t, driver.version, false, false); });
  f.path = library.text("path");
  f.library_failure = library.find("path") == nullptr ? library.failure(s.patience_seconds) : std::string();
  f.why_not = library.text("why_not");
  f.version = library.text("version");
  f.mismatch = library.text("mismatch");
  f.refusal = f.probe.text("refusal");
  f.taken = f.probe.find("taken") != nullptr;
  f.no_records = f.probe.text("no_records");
  f.subscribed = f.probe.find("subscribed") != nullptr;
  if (driver.usable() && (!f.subscribed || !f.probe.finished()) && !variable("CUDA_INJECTION64_PATH").empty()) {
    const probe_result alone =
        run_probe(s.patience_seconds, [&](const reporter& t) { ask(t, driver.version, true, false); });
    f.replaceable = alone.finished() && alone.find("subscribed") != nullptr && alone.text("no_records").empty();
  }
  return f;
}

std::vector<cupti_file> find_cupti_files(const setup& s, const driver_facts& driver) {
  std::vector<cupti_file> files;
  std::set<std::string> seen;
  for (const std::string& version : versions_of_interest(driver.version)) {
    std::vector<std::string> paths = cupti::usual_paths(version);
    paths.insert(paths.begin(), "libcupti.so." + version);  // wherever the loader looks
    for (const std::string& path : paths) {
      const bool by_loader = path.find('/') == std::string::npos;
      if (!by_loader && (::access(path.c_str(), F_OK) != 0 || !seen.insert(resolved(path)).second)) continue;
      const probe_result r = run_probe(s.patience_seconds, [&](const reporter& t) { ask_file(t, path); });
      cupti_file f{r.text("path").empty() ? path : r.text("path"), r.text("fault"), r.text("version")};
      if (f.fault.empty()) f.fault = r.failure(s.patience_seconds);
      const bool nowhere = by_loader && f.fault.find("No such file or directory") != std::string::npos &&
                           f.fault.compare(0, path.size(), path) == 0;
      if (nowhere || (by_loader && f.fault.empty() && !seen.insert(resolved(f.path)).second)) continue;
      files.push_back(f);
    }
  }
  return files;
}

#else

cupti_facts ask_cupti(const setup&, const driver_facts&) { return {}; }
std::vector<cupti_file> find_cupti_files(const setup&, const driver_facts&) { return {}; }

#endif

}  // namespace cutrace_tool::doctor
