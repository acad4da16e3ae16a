// SPDX-License-Identifier: Apache-2.0
// Command words and values of the subject's ioctls, which the test looks for in the trace.
#pragma once

namespace subject {

constexpr unsigned rm_control = 0xc020462a, rm_alloc = 0xc030462b, xfer = 0xc01046d3, unknown = 0xc0044601;
constexpr unsigned client = 0xc1d00001, object = 0x5c000002;
constexpr unsigned control_command = 0x20800102;  ///< NV2080_CTRL_CMD_GPU_GET_INFO_V2
constexpr unsigned device_class = 0x80;           ///< NV01_DEVICE_0
constexpr unsigned words = 4;                     ///< of requests, above; a round makes each once

}  // namespace subject
