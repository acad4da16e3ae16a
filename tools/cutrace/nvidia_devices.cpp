// SPDX-License-Identifier: Apache-2.0
#include "cutrace/nvidia_devices.hpp"

#include <cstdlib>
#include <cutrace/base/file_content.hpp>
#include <string>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

using cutrace::detail::content_of;

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
