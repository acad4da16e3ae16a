// SPDX-License-Identifier: Apache-2.0
// The GPUs that this build knows, behind one function. Which ones those are is decided by the files that are linked.
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
