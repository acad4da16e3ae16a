// SPDX-License-Identifier: Apache-2.0
// The questions, and how their answers are read.
#include "driver_probe.hpp"

#include <climits>

#include "driver_calls.hpp"

namespace cutrace_tool::doctor {

namespace {

// CUdevice_attribute of cuda.h.
constexpr int attribute_compute_mode = 20, attribute_capability_major = 75, attribute_capability_minor = 76;

void report_devices(const reporter& t, const driver_calls& cuda) {
  int count = 0;
  if (cuda.device_count == nullptr || cuda.device_get == nullptr || cuda.device_count(&count) != 0) return;
  for (int i = 0; i < count; ++i) {
    int device = 0, mode = -1, major = 0, minor = 0;
    if (cuda.device_get(&device, i) != 0) continue;
    char name[256] = "unnamed";
    if (cuda.device_name != nullptr) cuda.device_name(name, sizeof(name) - 1, device);
    if (cuda.device_attribute != nullptr) {
      if (cuda.device_attribute(&mode, attribute_compute_mode, device) != 0) mode = -1;
      cuda.device_attribute(&major, attribute_capability_major, device);
      cuda.device_attribute(&minor, attribute_capability_minor, device);
    }
    t.report("device", std::to_string(mode) + " " + std::to_string(major) + " " + std::to_string(minor) + " " + name);
  }
}

void ask(const reporter& t) {
  ::unsetenv("CUDA_INJECTION64_PATH");
  driver_calls cuda;
  t.step("loading libcuda.so.1");
  if (!cuda.open()) return t.report("load_error", cuda.error);
  char resolved[PATH_MAX];
  t.report("path", ::realpath(cuda.path.c_str(), resolved) != nullptr ? resolved : cuda.path);
  int version = 0;
  t.step("cuDriverGetVersion");
  if (cuda.driver_version != nullptr && cuda.driver_version(&version) == 0) t.report("version", version);
  if (cuda.init == nullptr) return;
  t.step("cuInit");
  const int result = cuda.init(0);
  t.report("init", result);
  t.report("init_name", cuda.explain(result));
  t.step("asking for the devices");
  if (result == 0) report_devices(t, cuda);
}

/// "580.95.05" of ".../libcuda.so.580.95.05"; empty for files named libcuda.so.1 or, on Jetson and WSL, libcuda.so.1.1,
/// which give no release: the branch of a driver has three digits.
std::string release_of(const std::string& path) {
  const std::string mark = "libcuda.so.";
  const std::size_t at = path.rfind(mark);
  const std::string rest = at != std::string::npos ? path.substr(at + mark.size()) : std::string();
  const std::size_t branch = rest.find('.');
  return branch != std::string::npos && branch >= 3 ? rest : std::string();
}

device_facts read_device(const std::string& text) {
  device_facts d;
  int taken = 0;
  if (std::sscanf(text.c_str(), "%d %d %d %n", &d.compute_mode, &d.capability_major, &d.capability_minor, &taken) == 3)
    d.name = text.substr(static_cast<std::size_t>(taken));
  return d;
}

}  // namespace

driver_facts ask_driver(const setup& s) {
  driver_facts f;
  f.probe = run_probe(s.patience_seconds, ask);
  f.path = f.probe.text("path");
  f.load_error = f.probe.text("load_error");
  f.version = static_cast<int>(f.probe.number("version", 0));
  f.init = static_cast<int>(f.probe.number("init", -1));
  f.init_name = f.probe.text("init_name");
  f.release = release_of(f.path);
  for (const auto& [key, value] : f.probe.facts)
    if (key == "device") f.devices.push_back(read_device(value));
  return f;
}

}  // namespace cutrace_tool::doctor
