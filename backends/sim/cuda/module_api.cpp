// SPDX-License-Identifier: Apache-2.0
// Modules, libraries and functions. Any image is accepted, and so is any function name that is not empty: a kernel has
// a name, a duration and nothing to execute. Globals do not exist.

#include "api.hpp"

namespace standin {
namespace {

/// `file`: the name of the image's file, nullptr where it lies in memory.
CUresult load(module_handle*& out, const void* image, const char* file) {
  current();
  driver& d = driver::get();
  auto m = std::make_unique<module_handle>();
  if (image == nullptr && file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Real images are not read: they may be cubin, fatbin or PTX of any length. A file's name stands for its content.
  if (file != nullptr) m->image = file;
  {
    const std::lock_guard<std::mutex> hold(d.lock);
    m->id = ++d.last_module;
    d.modules.insert(m.get());
  }
  out = m.release();
  CUpti_ModuleResourceData data{};
  data.moduleId = out->id;
  data.cubinSize = out->image.size();
  data.pCubin = out->image.c_str();
  report_resource(CUPTI_CBID_RESOURCE_MODULE_LOADED, current_or_null(), nullptr, &data);
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult load_as(Handle* out, const void* image, const char* file = nullptr) {
  module_handle* m = nullptr;
  const CUresult r = load(m, image, file);
  if (r == CUDA_SUCCESS) required(out) = reinterpret_cast<Handle>(m);
  return r;
}

module_handle& module_of(const void* h) {
  driver& d = driver::get();
  auto* m = static_cast<module_handle*>(const_cast<void*>(h));
  const std::lock_guard<std::mutex> hold(d.lock);
  if (d.modules.count(m) == 0) fail(CUDA_ERROR_INVALID_HANDLE);
  return *m;
}

CUresult unload(const void* h) {
  module_handle& m = module_of(h);
  CUpti_ModuleResourceData data{};
  data.moduleId = m.id;
  report_resource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, current_or_null(), nullptr, &data);
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  d.modules.erase(&m);
  delete &m;
  return CUDA_SUCCESS;
}

CUresult find_kernel(void** out, const void* h, const char* name) {
  module_handle& m = module_of(h);
  if (required(name) == '\0') return CUDA_ERROR_NOT_FOUND;
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  kernel_handle*& k = m.kernels[name];
  if (k == nullptr) {
    auto made = std::make_unique<kernel_handle>();
    k = made.get();
    d.kernels.emplace(k, std::move(made));
    k->name = name;
    k->module = &m;
    k->registers =
        16 + static_cast<std::uint32_t>(sim::hash_text(name) % 12) * 8;  // as a compiler would: a fixed number
    const auto duration = d.durations.find(name);
    if (duration != d.durations.end()) k->duration_ns = duration->second;
  }
  *out = k;
  return CUDA_SUCCESS;
}
template <class Handle>
CUresult kernel_as(Handle* out, const void* module, const char* name) {
  void* k = nullptr;
  const CUresult r = find_kernel(&k, module, name);
  if (r == CUDA_SUCCESS) required(out) = static_cast<Handle>(k);
  return r;
}

CUresult attribute(int* out, CUfunction_attribute id, const kernel_handle& k) {
  switch (id) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      required(out) = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      required(out) = static_cast<int>(k.registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      required(out) = 90;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      required(out) = k.dynamic_shared_limit;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      required(out) = -1;
      break;
    default:
      required(out) = 0;
  }
  return id >= 0 && id < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(kernel_handle& k, CUfunction_attribute id, int value) {
  if (id == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > 232448) return CUDA_ERROR_INVALID_VALUE;
    k.dynamic_shared_limit = value;
  }
  return CUDA_SUCCESS;
}

/// Blocks of a kernel that fit a multiprocessor of the simulated device: limits of threads, registers, shared memory.
CUresult occupancy(int* out, const kernel_handle& k, int block, size_t shared) {
  if (block <= 0 || block > 1024) return CUDA_ERROR_INVALID_VALUE;
  int blocks = std::min(32, 2048 / block);
  blocks = std::min(blocks, 65536 / (static_cast<int>(k.registers) * block));
  blocks = std::min(blocks, static_cast<int>(233472 / (shared + 1024)));
  required(out) = blocks;
  return CUDA_SUCCESS;
}

CUresult best_block(int* grid, int* block, const kernel_handle& k, CUoccupancyB2DSize shared_of, size_t shared,
                    int limit) {
  int best = 0;
  for (int size = 1024; size >= 32; size -= 32) {
    int blocks = 0;
    if (limit != 0 && size > limit) continue;
    occupancy(&blocks, k, size, shared_of != nullptr ? shared_of(size) : shared);
    if (blocks * size <= best) continue;
    best = blocks * size;
    required(block) = size;
    required(grid) = blocks * static_cast<int>(driver::get().gpu().settings().multiprocessors);
  }
  return best != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <class T, class V>
CUresult give(T* where, V value) {
  required(where) = static_cast<T>(value);
  return CUDA_SUCCESS;
}

}  // namespace

STANDIN_API(cuModuleLoad, (CUmodule * out, const char* file), (out, file), load_as(out, file, file))
STANDIN_API(cuModuleLoadData, (CUmodule * out, const void* image), (out, image), load_as(out, image))
STANDIN_API(cuModuleLoadDataEx,
            (CUmodule * out, const void* image, unsigned int n, CUjit_option* options, void** values),
            (out, image, n, options, values), load_as(out, image))
STANDIN_API(cuModuleLoadFatBinary, (CUmodule * out, const void* image), (out, image), load_as(out, image))
STANDIN_API(cuModuleUnload, (CUmodule m), (m), unload(m))
STANDIN_API(cuModuleGetFunction, (CUfunction * out, CUmodule m, const char* name), (out, m, name),
            kernel_as(out, m, name))
STANDIN_API(cuModuleGetGlobal_v2, (CUdeviceptr * out, size_t* bytes, CUmodule m, const char* name),
            (out, bytes, m, name), (module_of(m), CUDA_ERROR_NOT_FOUND))
STANDIN_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (mode), give(mode, CU_MODULE_LAZY_LOADING))

STANDIN_API(cuLibraryLoadData,
            (CUlibrary * out, const void* code, CUjit_option* jit, void** jit_values, unsigned int jit_n,
             CUlibraryOption* options, void** values, unsigned int n),
            (out, code, jit, jit_values, jit_n, options, values, n), load_as(out, code))
STANDIN_API(cuLibraryLoadFromFile,
            (CUlibrary * out, const char* file, CUjit_option* jit, void** jit_values, unsigned int jit_n,
             CUlibraryOption* options, void** values, unsigned int n),
            (out, file, jit, jit_values, jit_n, options, values, n), load_as(out, file, file))
STANDIN_API(cuLibraryUnload, (CUlibrary l), (l), unload(l))
STANDIN_API(cuLibraryGetKernel, (CUkernel * out, CUlibrary l, const char* name), (out, l, name),
            kernel_as(out, l, name))
STANDIN_API(cuLibraryGetModule, (CUmodule * out, CUlibrary l), (out, l),
            give(out, reinterpret_cast<CUmodule>(&module_of(l))))
STANDIN_API(cuLibraryGetGlobal, (CUdeviceptr * out, size_t* bytes, CUlibrary l, const char* name),
            (out, bytes, l, name), (module_of(l), CUDA_ERROR_NOT_FOUND))
STANDIN_API(cuKernelGetFunction, (CUfunction * out, CUkernel k), (out, k),
            give(out, reinterpret_cast<CUfunction>(&kernel_of(k))))
STANDIN_API(cuKernelGetAttribute, (int* out, CUfunction_attribute id, CUkernel k, CUdevice dev), (out, id, k, dev),
            attribute(out, id, kernel_of(k)))
STANDIN_API(cuKernelSetAttribute, (CUfunction_attribute id, int value, CUkernel k, CUdevice dev), (id, value, k, dev),
            set_attribute(kernel_of(k), id, value))
#if CUDA_VERSION >= 12030
STANDIN_API(cuKernelGetName, (const char** out, CUkernel k), (out, k), give(out, kernel_of(k).name.c_str()))
STANDIN_API(cuFuncGetName, (const char** out, CUfunction f), (out, f), give(out, kernel_of(f).name.c_str()))
#endif
#if CUDA_VERSION >= 12040
STANDIN_API(cuFuncIsLoaded, (CUfunctionLoadingState * out, CUfunction f), (out, f),
            (kernel_of(f), give(out, CU_FUNCTION_LOADING_STATE_LOADED)))
STANDIN_API(cuFuncLoad, (CUfunction f), (f), (kernel_of(f), CUDA_SUCCESS))
#endif
STANDIN_API(cuFuncGetModule, (CUmodule * out, CUfunction f), (out, f),
            give(out, static_cast<CUmodule>(kernel_of(f).module)))
STANDIN_API(cuFuncGetAttribute, (int* out, CUfunction_attribute id, CUfunction f), (out, id, f),
            attribute(out, id, kernel_of(f)))
STANDIN_API(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute id, int value), (f, id, value),
            set_attribute(kernel_of(f), id, value))
STANDIN_API(cuFuncSetCacheConfig, (CUfunction f, CUfunc_cache config), (f, config), (kernel_of(f), CUDA_SUCCESS))

STANDIN_API(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* out, CUfunction f, int block, size_t shared),
            (out, f, block, shared), occupancy(out, kernel_of(f), block, shared))
STANDIN_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
            (int* out, CUfunction f, int block, size_t shared, unsigned int flags), (out, f, block, shared, flags),
            occupancy(out, kernel_of(f), block, shared))
STANDIN_API(cuOccupancyMaxPotentialBlockSize,
            (int* grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared, int limit),
            (grid, block, f, shared_of, shared, limit), best_block(grid, block, kernel_of(f), shared_of, shared, limit))
STANDIN_API(cuOccupancyMaxPotentialBlockSizeWithFlags,
            (int* grid, int* block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared, int limit,
             unsigned int flags),
            (grid, block, f, shared_of, shared, limit, flags),
            best_block(grid, block, kernel_of(f), shared_of, shared, limit))

}  // namespace standin
