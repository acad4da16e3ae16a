// SPDX-License-Identifier: Apache-2.0
// Stands for cuda_gpu.cpp in a build without CUDA headers.
#include <stdexcept>

#include "devices.hpp"

namespace server {
std::unique_ptr<gpu> open_cuda_gpu() {
  throw std::runtime_error("this build knows no CUDA driver: the CUDA headers were missing");
}
}  // namespace server
