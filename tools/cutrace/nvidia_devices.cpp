// SPDX-License-Identifier: Apache-2.0
#include "cutrace/nvidia_devices.hpp"

#include <cstdlib>
#include <string>

#include "cutrace/exit_status.hpp"
#include "cutrace/file_content.hpp"

namespace cutrace_tool {

namespace {

constexpr const char* devices_variable = "CUTRACE_IOCTL_DEVICES";

}  // namespace

cutrace::ioctls::device_numbers find_nvidia_devices() {
  cutrace::ioctls::device_numbers devices(content_of("/proc/devices"));
  const char* more = std::getenv(devices_variable);
  if (more != nullptr && !devices.add(more))
    throw usage_error(std::string(devices_variable) + "=\"" + more +
                      "\" cannot be used; accepted: KIND=MAJOR:MINOR, several by commas, KIND one of control, gpu, "
                      "modeset, uvm, uvm_tools, caps");
  return devices;
}

std::uint32_t find_driver_branch() { return cutrace::ioctls::driver_branch(content_of("/proc/driver/nvidia/version")); }

}  // namespace cutrace_tool
