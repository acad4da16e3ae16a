// SPDX-License-Identifier: Apache-2.0
// NVIDIA's own prototypes of what cuda.h and cudaProfiler.h declare of libcuda.so: legacy and per-thread-stream names
// side by side, and old versions beside new ones.
#pragma once

#define __CUDA_API_VERSION_INTERNAL 1  // the header's switch for building the driver itself
#include <cuda.h>
#include <cudaProfiler.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <generated_cuda_meta.h>
#pragma GCC diagnostic pop

#include <cupti_activity.h>  // not cupti.h: it brings other versions of types that cuda.h defines here
#include <cupti_driver_cbid.h>
