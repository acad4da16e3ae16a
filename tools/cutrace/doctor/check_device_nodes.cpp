// SPDX-License-Identifier: Apache-2.0
// /dev/nvidiactl, /dev/nvidia-uvm and /dev/nvidia0, 1, ...: there, and open to this user. A node without a driver
// behind it shows only when it is opened.
#include <fmt/format.h>

#include "checks.hpp"
#include "child_probe.hpp"

namespace cutrace_tool::doctor {

namespace {

std::vector<std::string> nodes(const setup& s) {
  std::vector<std::string> found;
  for (const std::string& name : list(s, "/dev")) {
    if (name.compare(0, 6, "nvidia") != 0) continue;
    const std::string rest = name.substr(6);
    const bool numbered = !rest.empty() && rest.find_first_not_of("0123456789") == std::string::npos;
    if (numbered || rest == "ctl" || rest == "-uvm") found.push_back("/dev/" + name);
  }
  return found;
}

/// What `open` says of each node that it refuses, "PATH: reason".
std::vector<std::string> refused(const setup& s, const std::vector<std::string>& all, std::string& failure) {
  const probe_result r = run_probe(s.patience_seconds, [&](const reporter& t) {
    for (const std::string& node : all) {
      t.step("opening " + node);
      const int fd = ::open((s.root + node).c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) t.report("refused", node + ": " + std::strerror(errno));
      if (fd >= 0) ::close(fd);
    }
  });
  failure = r.failure(s.patience_seconds);
  std::vector<std::string> lines;
  for (const auto& [key, value] : r.facts)
    if (key == "refused") lines.push_back(value);
  return lines;
}

}  // namespace

findings check_device_nodes(const setup& s, const driver_facts& driver) {
  finding f{"device_nodes", for_all, state::ok, "", ""};
  if (exists(s, "/dev/dxg")) {
    f.what = "/dev/dxg (WSL); no /dev/nvidia* is needed";
    return {f};
  }
  const std::vector<std::string> found = nodes(s);
  const auto has = [&](const char* node) { return std::find(found.begin(), found.end(), node) != found.end(); };
  std::vector<std::string> missing;
  if (!has("/dev/nvidiactl")) missing.push_back("/dev/nvidiactl");
  if (!has("/dev/nvidia-uvm")) missing.push_back("/dev/nvidia-uvm");
  const bool device =
      std::any_of(found.begin(), found.end(), [](const std::string& n) { return n[11] <= '9' && n[11] >= '0'; });
  if (!device) missing.push_back("/dev/nvidia0 or another number");
  std::string failure;
  const std::vector<std::string> unopenable = refused(s, found, failure);
  if (!missing.empty() || !unopenable.empty() || !failure.empty()) f.state = state::broken;
  if (!missing.empty()) {
    f.what = "missing: " + fmt::format("{}", fmt::join(missing, ", "));
    f.remedy =
        "in a container, give it the GPU (docker run --gpus all); on the host, nvidia-modprobe -c 0 -u makes them";
  }
  if (!unopenable.empty()) {
    f.what +=
        std::string(f.what.empty() ? "" : "; ") + "cannot be opened: " + fmt::format("{}", fmt::join(unopenable, ", "));
    if (f.remedy.empty())
      f.remedy =
          "join the group that owns them (often video or render), or have NVreg_DeviceFileMode=0666 set; a "
          "container also needs their devices allowed";
  }
  if (!failure.empty()) f.what += (f.what.empty() ? "" : "; ") + failure;
  if (f.state == state::ok) {
    f.what = fmt::format("{}", fmt::join(found, ", ")) + " can be opened";
  } else if (driver.usable()) {  // a driver that works needs no other nodes
    f.state = state::ok;
    f.what += "; the driver works all the same (a stand-in needs none)";
    f.remedy.clear();
  }
  return {f};
}

}  // namespace cutrace_tool::doctor
