// SPDX-License-Identifier: Apache-2.0
// The program of the tests of one runtime: does what its arguments say, in order, and prints what the tests ask. Built
// twice: with markers only, and (HOST_OWNS_SESSION) with the runtime.
//
//   cuda          starts CUDA: the driver loads the injected library here
//   work          stages of the program, with kernels
//   load=PATH     loads a plug-in with RTLD_LOCAL
//   call=N mark=N open=N,SINKS end=N     functions of plug-in N (from 0, as loaded); end: closes its session
//   call_inside=N the same, inside a stage of the program
//   close=N       unloads plug-in N and prints whether it is gone
//   session=SINKS stop                   the program's own session
//   race=N,SINKS,SINKS                   program and plug-in N open sessions at once
//   owners        prints how many objects (program, libraries) have markers of this CUTRACE_ABI_VERSION, and how many
//                 runtimes own them
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../support/standin_calls.hpp"
#include "shared_markers.hpp"

namespace {

struct plugin {
  std::string path;
  void* handle;
  plugin_functions functions;
};
std::vector<plugin> plugins;
CUmodule module = nullptr;

void need(bool ok, const char* what) {
  if (ok) return;
  std::printf("FAILED: %s\n", what);
  std::exit(1);
}

void start_cuda() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  need(CU(cuInit)(0) == CUDA_SUCCESS, "cuInit");
  need(CU(cuDeviceGet)(&device, 0) == CUDA_SUCCESS, "cuDeviceGet");
  need(CU(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
  need(CU(cuCtxSetCurrent)(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
  need(CU(cuModuleLoadData)(&module, "any image") == CUDA_SUCCESS, "cuModuleLoadData");
}

void launch(const char* kernel) {
  if (module == nullptr) return;
  CUfunction f = nullptr;
  need(CU(cuModuleGetFunction)(&f, module, kernel) == CUDA_SUCCESS, "cuModuleGetFunction");
  need(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS, "cuLaunchKernel");
  need(CU(cuStreamSynchronize)(nullptr) == CUDA_SUCCESS, "cuStreamSynchronize");
}

void work() {
  {
    CUTRACE_STAGE("host_work", 1);
    launch("kernel_in_host");
    shared_inline_step(&launch);
    shared_template_step(1);
  }
  std::thread([] {
    CUTRACE_STAGE("host_thread_work", 2);
    shared_template_step(2);
  }).join();
}

void load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) std::printf("%s\n", dlerror());
  need(handle != nullptr, "dlopen of a plug-in");
  const auto entry = reinterpret_cast<plugin_functions (*)()>(dlsym(handle, "plugin_entry"));
  need(entry != nullptr, "plugin_entry");
  plugins.push_back({path, handle, entry()});
}

/// The loader's list and the process's mappings must agree on whether the plug-in is gone.
void close_plugin(const plugin& p) {
  need(dlclose(p.handle) == 0, "dlclose");
  void* still = dlopen(p.path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  bool mapped = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) mapped = mapped || line.find(p.path) != std::string::npos;
  need((still != nullptr) == mapped, "loader and mappings agree");
  std::printf("%s: %s\n", p.path.substr(p.path.rfind('/') + 1).c_str(), mapped ? "stays" : "gone");
}

void print_owners() {
  struct found {
    std::set<const void*> slots, owners;
  } all;
  cutrace::detail::for_each_slot(
      [](cutrace::detail::slot* s, void* to) {
        found& f = *static_cast<found*>(to);
        f.slots.insert(s);
        if (const void* owner = s->owner.load()) f.owners.insert(owner);
      },
      &all);
  std::printf("objects %zu, runtimes %zu\n", all.slots.size(), all.owners.size());
}

#ifdef HOST_OWNS_SESSION
std::unique_ptr<cutrace::session> own;
void open_session(const std::string& sinks) {
  cutrace::session_options o;
  o.sinks = sinks.c_str();
  own = std::make_unique<cutrace::session>(o);
}
void stop_session() { own.reset(); }
#else
void open_session(const std::string&) { need(false, "built without a runtime"); }
void stop_session() {}
#endif

/// "a,b" cut at the first comma.
std::pair<std::string, std::string> split(const std::string& text) {
  const std::size_t at = text.find(',');
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

void race(const plugin& p, const std::string& sinks) {
  const auto [for_host, for_plugin] = split(sinks);
  std::thread other([&p, s = for_plugin] { p.functions.open(s.c_str()); });
  open_session(for_host);
  other.join();
}

void run(const std::string& command, const std::string& value) {
  const auto [number, rest] = split(value);
  const auto one = [&n = number]() -> const plugin& { return plugins.at(std::stoul(n)); };
  if (command == "cuda") return start_cuda();
  if (command == "work") return work();
  if (command == "load") return load(value);
  if (command == "call") return one().functions.work(&launch);
  if (command == "mark") return one().functions.mark();
  if (command == "open") return need(one().functions.open(rest.c_str()), "open");
  if (command == "end") return one().functions.close();
  if (command == "close") return close_plugin(one());
  if (command == "session") return open_session(value);
  if (command == "stop") return stop_session();
  if (command == "race") return race(one(), rest);
  if (command == "owners") return print_owners();
  if (command == "call_inside") {
    CUTRACE_STAGE("host_around_plugin", 3);
    return one().functions.work(&launch);
  }
  need(false, ("unknown command " + command).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t at = word.find('=');
    run(word.substr(0, at), at == std::string::npos ? "" : word.substr(at + 1));
  }
  return 0;
}
