// SPDX-License-Identifier: Apache-2.0
// Which devices of this machine are NVIDIA's, and of which release branch their driver is, for the methods that look at
// ioctls.
#pragma once

#include <cstdint>
#include <cutrace/ioctl/device_numbers.hpp>

namespace cutrace_tool {

/// As /proc/devices has them, and the stand-ins of CUTRACE_IOCTL_DEVICES ("KIND=MAJOR:MINOR,...", see
/// device_numbers.hpp), which are for tests on a machine without such devices. @throws usage_error
cutrace::ioctls::device_numbers find_nvidia_devices();

/// 0: there is no driver.
std::uint32_t find_driver_branch();

}  // namespace cutrace_tool
