// SPDX-License-Identifier: Apache-2.0
// Stands for sim_gpu.cpp in a build without cutrace's simulated GPU.
#include <stdexcept>

#include "devices.hpp"

namespace server {
std::unique_ptr<gpu> open_sim_gpu() {
  throw std::runtime_error("this build has no simulated GPU: cutrace::sim was missing");
}
}  // namespace server
