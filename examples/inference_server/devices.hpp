// SPDX-License-Identifier: Apache-2.0
// A function for each kind of GPU. Of a kind that the build leaves out, the function that is linked throws.
#pragma once

#include <memory>

#include "gpu.hpp"
#include "options.hpp"

namespace server {

/// The CUDA driver of this machine, its device 0. @throws std::runtime_error with the reason why there is none.
std::unique_ptr<gpu> open_cuda_gpu();

/// cutrace's simulated GPU, which runs no kernels. @throws std::runtime_error where the build left it out.
std::unique_ptr<gpu> open_sim_gpu();

}  // namespace server
