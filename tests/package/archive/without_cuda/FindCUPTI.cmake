# SPDX-License-Identifier: Apache-2.0
# Finds nothing, as on a machine without CUDA.
set(CUPTI_FOUND FALSE)
set(CUPTI_NOT_FOUND_REASON "this project has none")
