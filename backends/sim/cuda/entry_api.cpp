// SPDX-License-Identifier: Apache-2.0
// Names of errors, entry points by name and version, the profiler switches, and what the stand-in refuses.

#include "api.hpp"
#include "error_names.hpp"

namespace standin {
namespace {

struct version_of {
  const char* name;  ///< exported, with its suffix
  const char* base;  ///< what programs ask for
  int since;         ///< CUDA version from which the base name means this function
};

// From cudaTypedefs.h: functions whose meaning changed with a version, the newest of each first. A function that is not
// in here is looked up by its base name, then with _v2.
constexpr version_of versions[] = {
    {"cuCtxCreate_v4", "cuCtxCreate", 12050},
    {"cuCtxCreate_v3", "cuCtxCreate", 11040},
    {"cuCtxCreate_v2", "cuCtxCreate", 3020},
    {"cuCtxSynchronize_v2", "cuCtxSynchronize", 13000},
    {"cuCtxGetDevice_v2", "cuCtxGetDevice", 13000},
    {"cuDeviceGetUuid_v2", "cuDeviceGetUuid", 11040},
    {"cuDeviceTotalMem_v2", "cuDeviceTotalMem", 3020},
    {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", 11000},
    {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", 11000},
    {"cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxSetFlags", 11000},
    {"cuCtxDestroy_v2", "cuCtxDestroy", 4000},
    {"cuCtxPushCurrent_v2", "cuCtxPushCurrent", 4000},
    {"cuCtxPopCurrent_v2", "cuCtxPopCurrent", 4000},
    {"cuStreamDestroy_v2", "cuStreamDestroy", 4000},
    {"cuEventDestroy_v2", "cuEventDestroy", 4000},
    {"cuEventElapsedTime_v2", "cuEventElapsedTime", 12080},
    {"cuGetProcAddress_v2", "cuGetProcAddress", 12000},
    {"cuGraphInstantiateWithFlags", "cuGraphInstantiate", 12000},
    {"cuGraphInstantiate_v2", "cuGraphInstantiate", 11000},
    {"cuGraphAddKernelNode_v2", "cuGraphAddKernelNode", 12000},
    {"cuGraphExecUpdate_v2", "cuGraphExecUpdate", 12000},
    {"cuGraphGetEdges_v2", "cuGraphGetEdges", 12030},
    {"cuGraphAddDependencies_v2", "cuGraphAddDependencies", 12030},
    {"cuGraphNodeGetDependencies_v2", "cuGraphNodeGetDependencies", 12030},
    {"cuGraphNodeGetDependentNodes_v2", "cuGraphNodeGetDependentNodes", 12030},
    {"cuStreamBeginCapture_v2", "cuStreamBeginCapture", 10010},
    {"cuStreamGetCaptureInfo_v3", "cuStreamGetCaptureInfo", 12030},
    {"cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo", 11030},
    {"cuMemHostRegister_v2", "cuMemHostRegister", 6050},
    {"cuModuleGetGlobal_v2", "cuModuleGetGlobal", 3020},
};

function* find_visible(const std::string& name) {
  const fault_set faults = driver::get().faults();
  for (const std::string& missing : faults.missing_symbols)
    if (missing == name) return nullptr;
  return function::find(name.c_str());
}

/// The exported function that `base` means at `version`; with a per-thread variant where asked for and where there is
/// one.
function* resolve(const std::string& base, int version, bool per_thread, bool& too_old) {
  too_old = false;
  std::string name;
  for (const version_of& v : versions) {
    if (base != v.base || !name.empty()) continue;
    if (version >= v.since)
      name = v.name;
    else
      too_old = true;
  }
  if (name.empty())
    name = find_visible(base) != nullptr ? base : base + "_v2";  // the _v2 of CUDA 3.2: sizes in 64 bits
  if (per_thread)
    for (const char* suffix : {"_ptsz", "_ptds"})
      if (function* f = find_visible(name + suffix)) return f;
  return find_visible(name);
}

CUresult proc_address(const char* symbol, void** out, int version, cuuint64_t flags,
                      CUdriverProcAddressQueryResult* status) {
  required(symbol);
  bool too_old = false;
  function* f = resolve(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, too_old);
  required(out) = f != nullptr ? f->address : nullptr;
  if (status != nullptr)
    *status = f != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : too_old    ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                           : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  // The newer form reports through `status` alone when it is given one.
  return f != nullptr || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult error_text(CUresult e, const char** out, bool name) {
  for (const error_name& known : error_names)
    if (known.code == static_cast<int>(e)) {
      required(out) = name ? known.name : known.text;
      return CUDA_SUCCESS;
    }
  required(out) = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

STANDIN_API_EARLY(cuGetErrorName, (CUresult e, const char** out), (e, out), error_text(e, out, true))
STANDIN_API_EARLY(cuGetErrorString, (CUresult e, const char** out), (e, out), error_text(e, out, false))
STANDIN_API_EARLY(cuGetProcAddress, (const char* symbol, void** out, int version, cuuint64_t flags),
                  (symbol, out, version, flags), proc_address(symbol, out, version, flags, nullptr))
#if CUDA_VERSION >= 12000
STANDIN_API_EARLY(cuGetProcAddress_v2,
                  (const char* symbol, void** out, int version, cuuint64_t flags,
                   CUdriverProcAddressQueryResult* status),
                  (symbol, out, version, flags, status), proc_address(symbol, out, version, flags, status))
#endif
// Private tables cannot be imitated honestly; CUDA's runtime needs them and therefore does not run on the stand-in.
STANDIN_API_EARLY(cuGetExportTable, (const void** table, const CUuuid* id), (table, id), CUDA_ERROR_NOT_SUPPORTED)
STANDIN_API_VOID(cuProfilerStart, CUDA_SUCCESS)
STANDIN_API_VOID(cuProfilerStop, CUDA_SUCCESS)

}  // namespace standin
