// SPDX-License-Identifier: Apache-2.0
// Contexts: primary ones and those that a program creates, and the stack of current ones that each thread has.
#include "api.hpp"

namespace standin {
namespace {

sim::context* make_context(std::uint32_t device, bool primary, unsigned flags) {
  sim::context* c = driver::get().gpu().create_context(device, primary, flags);
  report_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, c, nullptr, nullptr);
  if (const standin_tracer* t = driver::get().tracer()) {
    const standin_context description{c->id, c->device, c->legacy->id};
    t->context(&description);
  }
  return c;
}

void end_context(sim::context* c) {
  report_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, c, nullptr, nullptr);
  driver::get().gpu().destroy_context(c);
}

CUresult retain(CUcontext* out, CUdevice dev) {
  const std::uint32_t device = device_of(dev);
  driver& d = driver::get();
  static std::mutex one_at_a_time;  // creation calls back into client code: not under the driver's own lock
  const std::lock_guard<std::mutex> hold(one_at_a_time);
  primary_context& p = d.primaries[device];
  if (p.context == nullptr) {
    sim::context* made = make_context(device, true, p.flags);
    const std::lock_guard<std::mutex> inner(d.lock);
    p.context = made;
  }
  ++p.references;
  required(out) = handle<CUcontext>(p.context);
  return CUDA_SUCCESS;
}

/// `who` reaches the memory of `owner` from now on.
CUresult permit_access(const sim::context& owner, const sim::context& who) {
  if (owner.device == who.device) return CUDA_ERROR_INVALID_DEVICE;
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  return d.peer_access.insert({who.id, owner.id}).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult forbid_access(const sim::context& owner, const sim::context& who) {
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  return d.peer_access.erase({who.id, owner.id}) != 0 ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

CUresult release(CUdevice dev, bool all) {
  driver& d = driver::get();
  primary_context& p = d.primaries[device_of(dev)];
  sim::context* last = nullptr;
  {
    const std::lock_guard<std::mutex> hold(d.lock);
    if (p.references == 0 && !all) return CUDA_ERROR_INVALID_CONTEXT;
    p.references = all ? 0 : p.references - 1;
    if (p.references == 0) std::swap(last, p.context);
  }
  if (last != nullptr) end_context(last);
  return CUDA_SUCCESS;
}

CUresult primary_state(CUdevice dev, unsigned* flags, int* active) {
  driver& d = driver::get();
  const primary_context& p = d.primaries[device_of(dev)];
  const std::lock_guard<std::mutex> hold(d.lock);
  required(flags) = p.flags;
  required(active) = p.context != nullptr;
  return CUDA_SUCCESS;
}

CUresult set_primary_flags(CUdevice dev, unsigned flags) {
  driver& d = driver::get();
  primary_context& p = d.primaries[device_of(dev)];
  const std::lock_guard<std::mutex> hold(d.lock);
  p.flags = flags;
  return CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice dev) {
  required(out);
  sim::context* c = make_context(device_of(dev), false, flags);
  this_thread().stack.push_back(c);
  *out = handle<CUcontext>(c);
  return CUDA_SUCCESS;
}

CUresult destroy(CUcontext h) {
  sim::context& c = context_of(h);
  if (c.primary) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = this_thread().stack;
  if (!stack.empty() && stack.back() == &c) stack.pop_back();
  end_context(&c);
  return CUDA_SUCCESS;
}

CUresult push(CUcontext h) {
  this_thread().stack.push_back(&context_of(h));
  return CUDA_SUCCESS;
}

CUresult pop(CUcontext* out) {
  auto& stack = this_thread().stack;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult set_current(CUcontext h) {
  auto& stack = this_thread().stack;
  sim::context* c = h != nullptr ? &context_of(h) : nullptr;
  if (!stack.empty()) stack.pop_back();
  if (c != nullptr) stack.push_back(c);
  return CUDA_SUCCESS;
}

CUresult get_current(CUcontext* out) {
  required(out) = handle<CUcontext>(current_or_null());
  return CUDA_SUCCESS;
}

CUresult synchronize(sim::context& c) {
  const std::uint64_t start = driver::get().gpu().now();
  block(driver::get().gpu().finish(&c));
  report_sync(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, c, nullptr, nullptr, start, CUDA_SUCCESS, false);
  return CUDA_SUCCESS;
}

CUresult get_limit(size_t* value, CUlimit limit) {
  current();
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      required(value) = 1024;
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      required(value) = 7 << 20;
      return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      required(value) = 8 << 20;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

template <class T, class V>
CUresult give(T* where, V value) {
  required(where) = static_cast<T>(value);
  return CUDA_SUCCESS;
}
CUresult need(const sim::context&) { return CUDA_SUCCESS; }

}  // namespace

STANDIN_API(cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice dev), (c, dev), retain(c, dev))
STANDIN_API(cuDevicePrimaryCtxRelease, (CUdevice dev), (dev), release(dev, false))
STANDIN_API(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev), release(dev, false))
STANDIN_API(cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev), release(dev, true))
STANDIN_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), (dev, flags),
            set_primary_flags(dev, flags))
STANDIN_API(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int* flags, int* active), (dev, flags, active),
            primary_state(dev, flags, active))

STANDIN_API(cuCtxCreate_v2, (CUcontext * c, unsigned int flags, CUdevice dev), (c, flags, dev), create(c, flags, dev))
STANDIN_API(cuCtxCreate_v3, (CUcontext * c, CUexecAffinityParam* p, int n, unsigned int flags, CUdevice dev),
            (c, p, n, flags, dev), create(c, flags, dev))
#if CUDA_VERSION >= 12050
STANDIN_API(cuCtxCreate_v4, (CUcontext * c, CUctxCreateParams* p, unsigned int flags, CUdevice dev), (c, p, flags, dev),
            create(c, flags, dev))
#endif
STANDIN_API(cuCtxDestroy_v2, (CUcontext c), (c), destroy(c))
STANDIN_API(cuCtxPushCurrent_v2, (CUcontext c), (c), push(c))
STANDIN_API(cuCtxPopCurrent_v2, (CUcontext * c), (c), pop(c))
STANDIN_API(cuCtxSetCurrent, (CUcontext c), (c), set_current(c))
STANDIN_API(cuCtxGetCurrent, (CUcontext * c), (c), get_current(c))
STANDIN_API(cuCtxGetDevice, (CUdevice * dev), (dev), give(dev, current().device))
STANDIN_API(cuCtxGetFlags, (unsigned int* flags), (flags), give(flags, current().flags))
STANDIN_API(cuCtxSetFlags, (unsigned int flags), (flags), (current().flags = flags, CUDA_SUCCESS))
STANDIN_API(cuCtxGetId, (CUcontext c, unsigned long long* id), (c, id),
            give(id, c != nullptr ? context_of(c).id : current().id))
STANDIN_API(cuCtxGetApiVersion, (CUcontext c, unsigned int* version), (c, version), give(version, CUDA_VERSION))
STANDIN_API_VOID(cuCtxSynchronize, synchronize(current()))
#if CUDA_VERSION >= 13000
STANDIN_API(cuCtxSynchronize_v2, (CUcontext c), (c), synchronize(c != nullptr ? context_of(c) : current()))
STANDIN_API(cuCtxGetDevice_v2, (CUdevice * dev, CUcontext c), (dev, c),
            give(dev, c != nullptr ? context_of(c).device : current().device))
#endif
STANDIN_API(cuCtxGetLimit, (size_t * value, CUlimit limit), (value, limit), get_limit(value, limit))
STANDIN_API(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value), get_limit(&value, limit))
STANDIN_API(cuCtxGetCacheConfig, (CUfunc_cache * config), (config), give(config, CU_FUNC_CACHE_PREFER_NONE))
STANDIN_API(cuCtxSetCacheConfig, (CUfunc_cache config), (config), need(current()))
STANDIN_API(cuCtxGetStreamPriorityRange, (int* least, int* greatest), (least, greatest),
            (least != nullptr ? static_cast<void>(*least = 0) : void(),
             greatest != nullptr ? static_cast<void>(*greatest = -5) : void(), need(current())))
STANDIN_API(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags),
            permit_access(context_of(peer), current()))
STANDIN_API(cuCtxDisablePeerAccess, (CUcontext peer), (peer), forbid_access(context_of(peer), current()))
STANDIN_API_VOID(cuCtxResetPersistingL2Cache, need(current()))

}  // namespace standin
