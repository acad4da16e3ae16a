// SPDX-License-Identifier: Apache-2.0
// What the compiler knows about one member of a CUDA parameter structure: sizes, signedness, and where the few members
// that matter lie in a structure that it points to. For the probe that generate_functions.cpp writes.
#pragma once

#include <cuda.h>  // CUstream

#include <cstddef>
#include <type_traits>
#include <utility>

namespace codegen {

/// Place of a member; size 0: there is none.
struct member {
  std::size_t offset = 0;
  std::size_t size = 0;
};

/// Members by which launch and copy descriptions are recognised.
struct struct_facts {
  member width_bytes, height, depth;                 // CUDA_MEMCPY2D and 3D
  member extent_width, extent_height, extent_depth;  // cudaExtent, or a member `extent` of that kind
  member stream, function;                           // CUlaunchConfig, CUDA_LAUNCH_PARAMS, ...
  member launch_shape[7];                            // of the same: grid, block, shared memory
  member source_array, destination_array;            // cudaMemcpy3DParms, cudaMemcpy3DPeerParms
};

struct type_facts {
  std::size_t size = 0;
  bool pointer = false;
  bool function_pointer = false;
  bool floating = false;
  bool integral = false;  // enumerations included
  bool enumeration = false;
  bool is_signed = false;
  bool stream = false;
  std::size_t pointee_size = 0;  // 0: incomplete, void or function
  bool pointee_const = false;
  bool pointee_scalar = false;  // number, enumeration or pointer
  bool pointee_char = false;
  bool pointee_floating = false;
  bool pointee_signed = false;
  bool pointee_pointer = false;
  struct_facts inner;  // of the structure, or of the structure that the pointer points to
};

struct parameter_facts {
  const char* name;
  const char* type;  // as written in the header
  std::size_t offset;
  type_facts t;
};

struct function_facts {
  bool runtime;
  unsigned cbid;
  const char* symbol;
  bool known;  // parameters are known, or known to be none
  const parameter_facts* parameters;
  std::size_t count;
};

/// An enumerator of CUresult or cudaError_t.
struct result_facts {
  int code;
  const char* name;
};

// One detector for each member name: its place in T, or size 0.
#define CUTRACE_CODEGEN_MEMBER(name)                                                      \
  template <class T, class = void>                                                        \
  struct has_##name : std::false_type {                                                   \
    static constexpr member at() { return {}; }                                           \
  };                                                                                      \
  template <class T>                                                                      \
  struct has_##name<T, std::void_t<decltype(std::declval<T&>().name)>> : std::true_type { \
    static constexpr member at() { return {offsetof(T, name), sizeof(T::name)}; }         \
  };
CUTRACE_CODEGEN_MEMBER(WidthInBytes)
CUTRACE_CODEGEN_MEMBER(Height)
CUTRACE_CODEGEN_MEMBER(Depth)
CUTRACE_CODEGEN_MEMBER(width)
CUTRACE_CODEGEN_MEMBER(height)
CUTRACE_CODEGEN_MEMBER(depth)
CUTRACE_CODEGEN_MEMBER(extent)
CUTRACE_CODEGEN_MEMBER(hStream)
CUTRACE_CODEGEN_MEMBER(stream)
CUTRACE_CODEGEN_MEMBER(function)
CUTRACE_CODEGEN_MEMBER(func)
CUTRACE_CODEGEN_MEMBER(gridDimX)
CUTRACE_CODEGEN_MEMBER(gridDimY)
CUTRACE_CODEGEN_MEMBER(gridDimZ)
CUTRACE_CODEGEN_MEMBER(blockDimX)
CUTRACE_CODEGEN_MEMBER(blockDimY)
CUTRACE_CODEGEN_MEMBER(blockDimZ)
CUTRACE_CODEGEN_MEMBER(sharedMemBytes)
CUTRACE_CODEGEN_MEMBER(srcArray)
CUTRACE_CODEGEN_MEMBER(dstArray)
#undef CUTRACE_CODEGEN_MEMBER

constexpr member either(member a, member b) { return a.size != 0 ? a : b; }
constexpr member shifted(member m, std::size_t by) { return {m.offset + by, m.size}; }

template <class T>
constexpr struct_facts struct_facts_of() {
  struct_facts f;
  f.width_bytes = has_WidthInBytes<T>::at();
  f.height = has_Height<T>::at();
  f.depth = has_Depth<T>::at();
  f.stream = either(has_hStream<T>::at(), has_stream<T>::at());
  f.function = either(has_function<T>::at(), has_func<T>::at());
  const member shape[7] = {has_gridDimX<T>::at(),      has_gridDimY<T>::at(),  has_gridDimZ<T>::at(),
                           has_blockDimX<T>::at(),     has_blockDimY<T>::at(), has_blockDimZ<T>::at(),
                           has_sharedMemBytes<T>::at()};
  for (int i = 0; i < 7; ++i) f.launch_shape[i] = shape[i];
  f.source_array = has_srcArray<T>::at();
  f.destination_array = has_dstArray<T>::at();
  if constexpr (has_extent<T>::value) {
    using extent = decltype(T::extent);
    const std::size_t by = has_extent<T>::at().offset;
    f.extent_width = shifted(has_width<extent>::at(), by);
    f.extent_height = shifted(has_height<extent>::at(), by);
    f.extent_depth = shifted(has_depth<extent>::at(), by);
  } else {
    f.extent_width = has_width<T>::at();
    f.extent_height = has_height<T>::at();
    f.extent_depth = has_depth<T>::at();
  }
  return f;
}

template <class T, class = void>
struct is_complete : std::false_type {};
template <class T>
struct is_complete<T, std::void_t<decltype(sizeof(T))>> : std::integral_constant<bool, !std::is_function<T>::value> {};

template <class T, bool = std::is_enum<T>::value>
struct integer_of {
  using type = T;
};
template <class T>
struct integer_of<T, true> {
  using type = std::underlying_type_t<T>;
};

template <class T>
constexpr type_facts facts() {
  type_facts f;
  f.size = sizeof(T);
  f.pointer = std::is_pointer<T>::value;
  f.floating = std::is_floating_point<T>::value;
  f.enumeration = std::is_enum<T>::value;
  f.integral = std::is_integral<T>::value || f.enumeration;
  f.is_signed = std::is_signed<typename integer_of<T>::type>::value;
  f.stream = std::is_same<T, CUstream>::value;
  if constexpr (std::is_pointer<T>::value) {
    using pointee = std::remove_pointer_t<T>;
    using plain = std::remove_cv_t<pointee>;
    f.function_pointer = std::is_function<pointee>::value;
    if constexpr (!std::is_void<pointee>::value && is_complete<plain>::value) {
      f.pointee_size = sizeof(plain);
      f.pointee_const = std::is_const<pointee>::value;
      f.pointee_scalar = std::is_scalar<plain>::value;
      f.pointee_char = std::is_integral<plain>::value && sizeof(plain) == 1;
      f.pointee_floating = std::is_floating_point<plain>::value;
      f.pointee_pointer = std::is_pointer<plain>::value;
      f.pointee_signed = std::is_signed<typename integer_of<plain>::type>::value;
      if constexpr (std::is_class<plain>::value) f.inner = struct_facts_of<plain>();
    }
  } else if constexpr (std::is_class<T>::value) {
    f.inner = struct_facts_of<T>();
  }
  return f;
}

}  // namespace codegen
