// SPDX-License-Identifier: Apache-2.0
// Which arguments of a call the measurement of its GPU time reads: taken from the generated table of functions, so
// there is no list of launches and copies here. Also the few calls that need more than to be recorded.
#pragma once

#include <cutrace/event.hpp>
#include <initializer_list>

#include "event_driver.hpp"
#include "signatures.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// Why a call needs more than to be recorded.
enum class call_role : std::uint8_t {
  none,
  gives_functions,  ///< cuGetProcAddress in one of its forms
  names_kernel,     ///< (function* out, module or library, name)
  converts_kernel,  ///< (function* out, kernel)
  enters_context,   ///< another context is current after the call
  ends_context,     ///< (context)
  ends_primary,     ///< (device)
};

inline call_role role_of(const char* symbol) noexcept {
  struct one {
    const char* begin;
    call_role role;
  };
  constexpr one known[] = {{"cuCtxDestroy", call_role::ends_context},
                           {"cuDevicePrimaryCtxRelease", call_role::ends_primary},
                           {"cuDevicePrimaryCtxReset", call_role::ends_primary},
                           {"cuGetProcAddress", call_role::gives_functions},
                           {"cuModuleGetFunction", call_role::names_kernel},
                           {"cuLibraryGetKernel", call_role::names_kernel},
                           {"cuKernelGetFunction", call_role::converts_kernel},
                           {"cuCtxCreate", call_role::enters_context},
                           {"cuCtxSetCurrent", call_role::enters_context},
                           {"cuCtxPushCurrent", call_role::enters_context}};
  for (const one& k : known) {
    const std::size_t size = std::strlen(k.begin);
    // Not by prefix alone: cuModuleGetFunctionCount has other arguments.
    if (std::strncmp(symbol, k.begin, size) == 0 && (symbol[size] == '\0' || symbol[size] == '_')) return k.role;
  }
  return call_role::none;
}

struct timed_call {
  static constexpr std::int8_t none = -1;

  bool timed = false;
  bool per_thread = false;  ///< stream 0 is the thread's own default stream
  event_kind kind = event_kind::kernel;
  copy_direction direction = copy_direction::unknown;
  std::int8_t stream = none;  ///< index of the word that is the stream; none: the default stream
  std::int8_t function = none, bytes = none;
  std::int8_t from = none, to = none;  ///< contexts of a copy between devices
  std::int8_t set_value = none;        ///< of a memset
  std::int8_t grid[3] = {none, none, none}, block[3] = {none, none, none}, shared = none;

  /// `per_thread`: the program asked cuGetProcAddress for the variant for per-thread default streams.
  static timed_call of(const call_shape& shape, const char* symbol, bool per_thread) noexcept {
    timed_call t;
    if (shape.known == nullptr) return t;
    const cupti::function_entry& f = *shape.known;
    switch (f.work) {
      case cupti::function_work::launch:
        t.kind = event_kind::kernel;
        break;
      case cupti::function_work::copy:
        t.kind = event_kind::memcpy;
        break;
      case cupti::function_work::set:
        t.kind = event_kind::memset;
        break;
      case cupti::function_work::graph:
        if (std::strcmp(f.name, "cuGraphLaunch") != 0) return t;  // the others only prepare
        t.kind = event_kind::graph_launch;
        break;
      default:
        return t;
    }
    t.direction = f.direction;
    t.bytes = f.bytes_word;
    t.per_thread = per_thread || ends_with(symbol, "_ptsz") || ends_with(symbol, "_ptds");
    static constexpr const char* shape_names[9] = {"gridDimX",       "gridDimY",   "gridDimZ",
                                                   "blockDimX",      "blockDimY",  "blockDimZ",
                                                   "sharedMemBytes", "srcContext", "dstContext"};
    std::int8_t* const places[9] = {&t.grid[0],  &t.grid[1], &t.grid[2], &t.block[0], &t.block[1],
                                    &t.block[2], &t.shared,  &t.from,    &t.to};
    for (std::uint8_t i = 0; i < f.words; ++i) {
      const cupti::function_parameter& p = shape.parameters[i];
      const std::int8_t at = static_cast<std::int8_t>(i);
      if (p.kind == argument_kind::stream && p.size == 8) t.stream = at;
      if (p.kind == argument_kind::handle && p.size == 8 && t.function == none) t.function = at;
      for (int k = 0; k < 9; ++k)
        if (std::strcmp(p.name, shape_names[k]) == 0) *places[k] = at;
      for (const char* name : {"uc", "us", "ui"})  // of 8, 16 and 32 bits
        if (t.kind == event_kind::memset && std::strcmp(p.name, name) == 0) t.set_value = at;
    }
    // A launch on several devices at once is not work of one stream. Launches without a stream are older than CUDA 4:
    // nobody makes any.
    const bool several = std::strcmp(f.name, "cuLaunchCooperativeKernelMultiDevice") == 0;
    t.timed = !several && (t.stream != none || t.kind == event_kind::memcpy || t.kind == event_kind::memset);
    return t;
  }

  /// Handle of the stream that the work goes to, valid for every function of the driver.
  void* stream_of(const call_shape& shape, const call_frame& f) const noexcept {
    std::uint64_t value = 0;
    if (stream != none) {
      const cupti::function_parameter& p = shape.parameters[stream];
      const unsigned char* at = reinterpret_cast<const unsigned char*>(&f) + p.offset;
      if (p.how != cupti::read_how::value) {
        at = cupti::word_reader::load_pointer(at);
        if (at != nullptr) at += p.inner;
      }
      if (at != nullptr) std::memcpy(&value, at, sizeof(value));
    }
    if (value == 0 && per_thread) value = event_driver::per_thread_stream;
    return reinterpret_cast<void*>(value);
  }

 private:
  static bool ends_with(const char* text, const char* end) noexcept {
    const std::size_t size = std::strlen(text), tail = std::strlen(end);
    return size >= tail && std::strcmp(text + size - tail, end) == 0;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
