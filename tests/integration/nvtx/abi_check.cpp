// SPDX-License-Identifier: Apache-2.0
// The mirror of NVTX's binary interface beside NVIDIA's headers: compiles where they agree.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <cutrace/nvtx/abi.hpp>
#include <type_traits>

namespace abi = cutrace::nvtx;

#define SAME(ours, theirs) static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs)
#define SAME_PLACE(ours, theirs) SAME(offsetof(abi::event_attributes, ours), offsetof(nvtxEventAttributes_t, theirs))

SAME(abi::module_core, NVTX_CB_MODULE_CORE);
SAME(abi::module_core2, NVTX_CB_MODULE_CORE2);
SAME(abi::core::mark_ex, NVTX_CBID_CORE_MarkEx);
SAME(abi::core::mark_a, NVTX_CBID_CORE_MarkA);
SAME(abi::core::mark_w, NVTX_CBID_CORE_MarkW);
SAME(abi::core::range_start_ex, NVTX_CBID_CORE_RangeStartEx);
SAME(abi::core::range_start_a, NVTX_CBID_CORE_RangeStartA);
SAME(abi::core::range_start_w, NVTX_CBID_CORE_RangeStartW);
SAME(abi::core::range_end, NVTX_CBID_CORE_RangeEnd);
SAME(abi::core::range_push_ex, NVTX_CBID_CORE_RangePushEx);
SAME(abi::core::range_push_a, NVTX_CBID_CORE_RangePushA);
SAME(abi::core::range_push_w, NVTX_CBID_CORE_RangePushW);
SAME(abi::core::range_pop, NVTX_CBID_CORE_RangePop);
SAME(abi::core::name_category_a, NVTX_CBID_CORE_NameCategoryA);
SAME(abi::core::name_category_w, NVTX_CBID_CORE_NameCategoryW);
SAME(abi::core::name_os_thread_a, NVTX_CBID_CORE_NameOsThreadA);
SAME(abi::core::name_os_thread_w, NVTX_CBID_CORE_NameOsThreadW);
SAME(abi::core2::domain_mark_ex, NVTX_CBID_CORE2_DomainMarkEx);
SAME(abi::core2::domain_range_start_ex, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME(abi::core2::domain_range_end, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(abi::core2::domain_range_push_ex, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(abi::core2::domain_range_pop, NVTX_CBID_CORE2_DomainRangePop);
SAME(abi::core2::domain_resource_create, NVTX_CBID_CORE2_DomainResourceCreate);
SAME(abi::core2::domain_resource_destroy, NVTX_CBID_CORE2_DomainResourceDestroy);
SAME(abi::core2::domain_name_category_a, NVTX_CBID_CORE2_DomainNameCategoryA);
SAME(abi::core2::domain_name_category_w, NVTX_CBID_CORE2_DomainNameCategoryW);
SAME(abi::core2::domain_register_string_a, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(abi::core2::domain_register_string_w, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME(abi::core2::domain_create_a, NVTX_CBID_CORE2_DomainCreateA);
SAME(abi::core2::domain_create_w, NVTX_CBID_CORE2_DomainCreateW);
SAME(abi::core2::domain_destroy, NVTX_CBID_CORE2_DomainDestroy);
SAME(abi::core2::initialize, NVTX_CBID_CORE2_Initialize);
SAME(abi::payload_none, NVTX_PAYLOAD_UNKNOWN);
SAME(abi::payload_uint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(abi::payload_int64, NVTX_PAYLOAD_TYPE_INT64);
SAME(abi::payload_double, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(abi::payload_uint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(abi::payload_int32, NVTX_PAYLOAD_TYPE_INT32);
SAME(abi::payload_float, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(abi::color_argb, NVTX_COLOR_ARGB);
SAME(abi::message_ascii, NVTX_MESSAGE_TYPE_ASCII);
SAME(abi::message_wide, NVTX_MESSAGE_TYPE_UNICODE);
SAME(abi::message_registered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(abi::no_level, NVTX_NO_PUSH_POP_TRACKING);
SAME(abi::version_3, NVTX_VERSION);
SAME(sizeof(abi::event_attributes), sizeof(nvtxEventAttributes_t));
SAME_PLACE(version, version);
SAME_PLACE(size, size);
SAME_PLACE(category, category);
SAME_PLACE(color_kind, colorType);
SAME_PLACE(color, color);
SAME_PLACE(payload_kind, payloadType);
SAME_PLACE(payload, payload);
SAME_PLACE(message_kind, messageType);
SAME_PLACE(message, message);
SAME(sizeof(abi::range_id), sizeof(nvtxRangeId_t));
static_assert(std::is_same<abi::range_id, nvtxRangeId_t>::value, "ids of started ranges");
static_assert(std::is_same<abi::any_function, NvtxFunctionPointer>::value, "functions");
SAME(abi::table_callbacks, NVTX_ETID_CALLBACKS);
SAME(abi::table_version, NVTX_ETID_VERSIONINFO);
SAME(sizeof(abi::callbacks_table), sizeof(NvtxExportTableCallbacks));
SAME(offsetof(abi::callbacks_table, get_module), offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
SAME(sizeof(abi::version_table), sizeof(NvtxExportTableVersionInfo));
SAME(offsetof(abi::version_table, version), offsetof(NvtxExportTableVersionInfo, version));
SAME(offsetof(abi::version_table, set_tool_version), offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
static_assert(std::is_same<abi::get_export_table, NvtxGetExportTableFunc_t>::value, "nvtxGetExportTable");
static_assert(std::is_same<abi::initialize_injection, NvtxInitializeInjectionNvtxFunc_t>::value, "the entry");
SAME(abi::payload_extension, NVTX_EXT_PAYLOAD_MODULEID);
SAME(abi::payload::mark, NVTX3EXT_CBID_nvtxMarkPayload);
SAME(abi::payload::range_push, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME(abi::payload::range_pop, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME(abi::payload::range_start, NVTX3EXT_CBID_nvtxRangeStartPayload);
SAME(abi::payload::range_end, NVTX3EXT_CBID_nvtxRangeEndPayload);
SAME(sizeof(abi::extension_segment), sizeof(nvtxExtModuleSegment_t));
SAME(offsetof(abi::extension_segment, slot_count), offsetof(nvtxExtModuleSegment_t, slotCount));
SAME(offsetof(abi::extension_segment, slots), offsetof(nvtxExtModuleSegment_t, functionSlots));
SAME(sizeof(abi::extension_module), sizeof(nvtxExtModuleInfo_t));
SAME(offsetof(abi::extension_module, struct_size), offsetof(nvtxExtModuleInfo_t, structSize));
SAME(offsetof(abi::extension_module, module), offsetof(nvtxExtModuleInfo_t, moduleId));
SAME(offsetof(abi::extension_module, segment_count), offsetof(nvtxExtModuleInfo_t, segmentsCount));
SAME(offsetof(abi::extension_module, segments), offsetof(nvtxExtModuleInfo_t, segments));
