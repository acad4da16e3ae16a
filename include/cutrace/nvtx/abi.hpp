// SPDX-License-Identifier: Apache-2.0
// The binary interface between NVTX 3 and its tools, as much of it as cutrace speaks: a mirror of
// nvtx3/nvtxDetail/nvtxTypes.h and of nvtxExtTypes.h, so that neither the build nor the program needs NVIDIA's headers.
// It is a stable C interface; tests/integration/nvtx/abi_check.cpp compares it with those headers where they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx {

/// NvtxCallbackModule: the tables of functions that an NVTX instance has.
enum function_module : std::uint32_t { module_core = 1, module_core2 = 5, module_count = 7 };

/// NvtxCallbackIdCore
namespace core {
enum function : std::uint32_t {
  mark_ex = 1,
  mark_a,
  mark_w,
  range_start_ex,
  range_start_a,
  range_start_w,
  range_end,
  range_push_ex,
  range_push_a,
  range_push_w,
  range_pop,
  name_category_a,
  name_category_w,
  name_os_thread_a,
  name_os_thread_w,
  count
};
}

/// NvtxCallbackIdCore2
namespace core2 {
enum function : std::uint32_t {
  domain_mark_ex = 1,
  domain_range_start_ex,
  domain_range_end,
  domain_range_push_ex,
  domain_range_pop,
  domain_resource_create,
  domain_resource_destroy,
  domain_name_category_a,
  domain_name_category_w,
  domain_register_string_a,
  domain_register_string_w,
  domain_create_a,
  domain_create_w,
  domain_destroy,
  initialize,
  count
};
}

/// nvtxPayloadType_t, nvtxColorType_t, nvtxMessageType_t
enum payload_type : std::int32_t {
  payload_none = 0,
  payload_uint64,
  payload_int64,
  payload_double,
  payload_uint32,
  payload_int32,
  payload_float
};
enum color_type : std::int32_t { color_none = 0, color_argb = 1 };
enum message_type : std::int32_t { message_none = 0, message_ascii, message_wide, message_registered };

/// nvtxDomainHandle_t and nvtxStringHandle_t: whatever the tool returned. A null domain is the default one.
using handle = void*;
/// nvtxRangeId_t
using range_id = std::uint64_t;

/// nvtxEventAttributes_t. `size` says how much of it the caller knows.
struct event_attributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_kind;
  std::uint32_t color;
  std::int32_t payload_kind;
  std::int32_t reserved;
  union {
    std::uint64_t unsigned_64;
    std::int64_t signed_64;
    double floating_64;
    std::uint32_t unsigned_32;
    std::int32_t signed_32;
    float floating_32;
  } payload;
  std::int32_t message_kind;
  union {
    const char* ascii;
    const wchar_t* wide;
    handle registered;
  } message;
};

/// What push and pop return where the tool does not count levels (NVTX_NO_PUSH_POP_TRACKING).
constexpr int no_level = -2;
constexpr std::uint16_t version_3 = 3;

/// NvtxFunctionPointer, and NvtxExportTableCallbacks and NvtxExportTableVersionInfo with the ids under which
/// nvtxGetExportTable gives them.
using any_function = void (*)();
enum export_table : std::uint32_t { table_callbacks = 1, table_version = 3 };
struct callbacks_table {
  std::size_t struct_size;
  /// Array of pointers to the pointers that the instance calls through. Returns 0 for modules that it has not.
  int (*get_module)(std::uint32_t which, any_function*** table, unsigned* size);
};
struct version_table {
  std::size_t struct_size;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_tool_version)(std::uint32_t);
};
using get_export_table = const void* (*)(std::uint32_t which);
/// InitializeInjectionNvtx2, which each NVTX instance of a process (one in each object) calls once. 0: not attached.
using initialize_injection = int (*)(get_export_table);

/// NVTX_EXT_PAYLOAD_MODULEID: the extension by which ranges and marks bring data of a layout of their own.
constexpr std::uint16_t payload_extension = 2;
namespace payload {
/// NVTX3EXT_CBID_*, those of ranges and marks.
enum function : std::uint32_t { mark = 2, range_push, range_pop, range_start, range_end };
}  // namespace payload
/// nvtxExtModuleSegment_t and nvtxExtModuleInfo_t, which each NVTX instance hands to InitializeInjectionNvtxExtension
/// for each extension, after InitializeInjectionNvtx2. A result of 0 means: not attached to the extension.
struct extension_segment {
  std::size_t id;
  std::size_t slot_count;
  std::intptr_t* slots;  ///< functions; those that the tool leaves 0 do nothing
};
struct extension_module {
  std::uint16_t nvtx_version;
  std::uint16_t struct_size;
  std::uint16_t module;
  std::uint16_t compatibility;
  std::size_t segment_count;
  extension_segment* segments;
  std::intptr_t (*get_export_function)(std::uint32_t);
  const void* info;
};

}  // namespace nvtx
CUTRACE_END_NAMESPACE
