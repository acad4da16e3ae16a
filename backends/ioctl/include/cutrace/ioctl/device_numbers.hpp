// SPDX-License-Identifier: Apache-2.0
// Which device nodes are NVIDIA's: by device number, never by path or by the letter in the command word. Majors are
// those of /proc/devices; 195 is NVIDIA's for /dev/nvidia* (nv-linux.h), the others are dynamic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cutrace/event.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

/// A node's kind, and what it is called in /dev.
struct device_node {
  ioctl_device kind = ioctl_device::unknown;
  char name[24] = "";
};

class device_numbers {
 public:
  static constexpr std::uint32_t fixed_major = 195;    ///< NV_MAJOR_DEVICE_NUMBER
  static constexpr std::uint32_t control_minor = 255;  ///< NV_MINOR_DEVICE_NUMBER_CONTROL_DEVICE
  static constexpr std::uint32_t modeset_minor = 254;  ///< NV_MINOR_DEVICE_NUMBER_MODESET_DEVICE
  static constexpr std::uint32_t uvm_tools_minor = 1;  ///< NVIDIA_UVM_TOOLS_MINOR_NUMBER

  device_numbers() = default;
  /// From the text of /proc/devices: lines of a major and a name, under "Character devices:".
  explicit device_numbers(std::string_view proc_devices) {
    bool characters = true;
    while (!proc_devices.empty()) {
      const std::size_t end = std::min(proc_devices.find('\n'), proc_devices.size());
      const std::string line(proc_devices.substr(0, end));
      proc_devices.remove_prefix(std::min(end + 1, proc_devices.size()));
      if (line.compare(0, 5, "Block") == 0) characters = false;
      unsigned major = 0;
      char name[64] = "";
      if (!characters || std::sscanf(line.c_str(), " %u %63s", &major, name) != 2) continue;
      const std::string_view called(name);
      if (called == "nvidia-uvm") uvm_ = major;
      if (called == "nvidia-caps") caps_ = major;
    }
  }

  /// Adds one node by its numbers: for tests, which have no such device. `text`: "KIND=MAJOR:MINOR" with the words of
  /// to_string(ioctl_device), several by commas. False when it cannot be understood.
  bool add(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(','), text.size());
      const std::string one(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      char kind[16] = "";
      stand_in e{};
      if (std::sscanf(one.c_str(), "%15[a-z_]=%u:%u", kind, &e.major, &e.minor) != 3) return false;
      e.kind = kind_named(kind);
      if (e.kind == ioctl_device::unknown) return false;
      stand_ins_.push_back(e);
    }
    return true;
  }

  /// Kind `unknown`: not a device of NVIDIA.
  device_node find(std::uint32_t major, std::uint32_t minor) const noexcept {
    for (const stand_in& e : stand_ins_)
      if (e.major == major && e.minor == minor) return named(e.kind, 0);
    if (major == fixed_major) {
      if (minor == control_minor) return named(ioctl_device::control, 0);
      if (minor == modeset_minor) return named(ioctl_device::modeset, 0);
      return named(ioctl_device::gpu, minor);
    }
    if (uvm_ != 0 && major == uvm_)
      return named(minor == uvm_tools_minor ? ioctl_device::uvm_tools : ioctl_device::uvm, 0);
    if (caps_ != 0 && major == caps_) return named(ioctl_device::caps, minor);
    return {};
  }

  std::uint32_t uvm_major() const noexcept { return uvm_; }
  std::uint32_t caps_major() const noexcept { return caps_; }

  /// What `add` has added.
  struct stand_in {
    ioctl_device kind;
    unsigned major, minor;
  };
  const std::vector<stand_in>& stand_ins() const noexcept { return stand_ins_; }

 private:
  static ioctl_device kind_named(std::string_view word) noexcept {
    if (word == "control") return ioctl_device::control;
    if (word == "gpu") return ioctl_device::gpu;
    if (word == "modeset") return ioctl_device::modeset;
    if (word == "uvm") return ioctl_device::uvm;
    if (word == "uvm_tools") return ioctl_device::uvm_tools;
    return word == "caps" ? ioctl_device::caps : ioctl_device::unknown;
  }
  static device_node named(ioctl_device kind, std::uint32_t number) noexcept {
    device_node n;
    n.kind = kind;
    const auto call = [&](const char* text) { std::snprintf(n.name, sizeof(n.name), "%s", text); };
    if (kind == ioctl_device::control) call("nvidiactl");
    if (kind == ioctl_device::modeset) call("nvidia-modeset");
    if (kind == ioctl_device::uvm) call("nvidia-uvm");
    if (kind == ioctl_device::uvm_tools) call("nvidia-uvm-tools");
    if (kind == ioctl_device::gpu) std::snprintf(n.name, sizeof(n.name), "nvidia%u", number);
    if (kind == ioctl_device::caps) std::snprintf(n.name, sizeof(n.name), "nvidia-cap%u", number);
    return n;
  }

  std::uint32_t uvm_ = 0, caps_ = 0;  ///< 0: no such driver
  std::vector<stand_in> stand_ins_;
};

/// The major number of a driver's version, from the text of /proc/driver/nvidia/version:
/// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ...". 0 where there is none.
inline std::uint32_t driver_branch(std::string_view version_text) noexcept {
  const std::size_t line_end = std::min(version_text.find('\n'), version_text.size());
  const std::string_view line = version_text.substr(0, line_end);
  for (std::size_t at = 0; at + 4 < line.size(); ++at) {
    const auto digit = [&](std::size_t i) { return i < line.size() && line[i] >= '0' && line[i] <= '9'; };
    if ((at == 0 || line[at - 1] == ' ') && digit(at) && digit(at + 1) && digit(at + 2) && line[at + 3] == '.')
      return static_cast<std::uint32_t>((line[at] - '0') * 100 + (line[at + 1] - '0') * 10 + (line[at + 2] - '0'));
  }
  return 0;
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
