// SPDX-License-Identifier: Apache-2.0
// A tool for NVTX as NVIDIA's headers describe one: writes a line for each call of the commonest domain functions into
// the file that RECORDER_FILE names. REFUSES: does not want to begin. DEAF: begins, and sets no function.
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#if !defined(REFUSES) && !defined(DEAF)
namespace {

std::mutex mutex;
std::vector<std::string> domains{"(default)"}, strings{"(none)"};

template <class Handle>
std::size_t number(Handle h) {
  return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(h));
}

__attribute__((format(printf, 1, 2))) void line(const char* format, ...) {
  const char* path = std::getenv("RECORDER_FILE");
  std::FILE* f = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (f == nullptr) return;
  std::fprintf(f, "%ld ", static_cast<long>(::syscall(SYS_gettid)));
  std::va_list arguments;
  va_start(arguments, format);
  std::vfprintf(f, format, arguments);
  va_end(arguments);
  std::fputc('\n', f);
  std::fclose(f);
}

std::string reported(const nvtxEventAttributes_t* a) {
  if (a->version != NVTX_VERSION || a->size != NVTX_EVENT_ATTRIB_STRUCT_SIZE) return "(no attributes)";
  std::string text = "(no message)";
  if (a->messageType == NVTX_MESSAGE_TYPE_ASCII) text = std::string("text ") + a->message.ascii;
  if (a->messageType == NVTX_MESSAGE_TYPE_REGISTERED) text = "registered " + strings.at(number(a->message.registered));
  if (a->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) text += " payload " + std::to_string(a->payload.ullValue);
  return text;
}

using guard = std::lock_guard<std::mutex>;

int push(nvtxDomainHandle_t d, const nvtxEventAttributes_t* a) {
  guard hold(mutex);
  line("push %s %s", domains.at(number(d)).c_str(), reported(a).c_str());
  return 0;
}
int pop(nvtxDomainHandle_t d) {
  guard hold(mutex);
  line("pop %s", domains.at(number(d)).c_str());
  return 0;
}
nvtxRangeId_t start(nvtxDomainHandle_t d, const nvtxEventAttributes_t* a) {
  static nvtxRangeId_t last = 0;
  guard hold(mutex);
  line("start %s %s", domains.at(number(d)).c_str(), reported(a).c_str());
  return ++last;
}
void end(nvtxDomainHandle_t d, nvtxRangeId_t id) {
  guard hold(mutex);
  line("end %s %u", domains.at(number(d)).c_str(), static_cast<unsigned>(id));
}
void mark(nvtxDomainHandle_t d, const nvtxEventAttributes_t* a) {
  guard hold(mutex);
  line("mark %s %s", domains.at(number(d)).c_str(), reported(a).c_str());
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  guard hold(mutex);
  line("register %s", text);
  strings.push_back(text);
  return reinterpret_cast<nvtxStringHandle_t>(static_cast<std::uintptr_t>(strings.size() - 1));
}
nvtxDomainHandle_t create(const char* name) {
  guard hold(mutex);
  line("create %s", name);
  domains.push_back(name);
  return reinterpret_cast<nvtxDomainHandle_t>(static_cast<std::uintptr_t>(domains.size() - 1));
}

template <class Function>
void set(NvtxFunctionTable table, unsigned which, Function f) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(f);
}

}  // namespace
#endif

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
#if defined(REFUSES)
  static_cast<void>(get);
  return 0;
#elif defined(DEAF)
  static_cast<void>(get);
  return 1;
#else
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  const auto* version = static_cast<const NvtxExportTableVersionInfo*>(get(NVTX_ETID_VERSIONINFO));
  if (callbacks == nullptr || version == nullptr || version->struct_size != sizeof(*version) || version->version != 3)
    return 0;
  version->SetInjectionNvtxVersion(3);
  // The tables of functions, whoever hands them out, are as large as those in NVIDIA's headers, and have each slot.
  const unsigned sizes[NVTX_CB_MODULE_SIZE] = {0,
                                               NVTX_CBID_CORE_SIZE,
                                               NVTX_CBID_CUDA_SIZE,
                                               NVTX_CBID_OPENCL_SIZE,
                                               NVTX_CBID_CUDART_SIZE,
                                               NVTX_CBID_CORE2_SIZE,
                                               NVTX_CBID_SYNC_SIZE};
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_INVALID, &table, &size) != 0) return 0;
  for (int m = 1; m < NVTX_CB_MODULE_SIZE; ++m) {
    if (callbacks->GetModuleFunctionTable(static_cast<NvtxCallbackModule>(m), &table, &size) == 0) return 0;
    if (size != sizes[m]) return 0;
    for (unsigned i = 1; i < size; ++i)
      if (table[i] == nullptr) return 0;
  }
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  set(table, NVTX_CBID_CORE2_DomainRangeStartEx, &start);
  set(table, NVTX_CBID_CORE2_DomainRangeEnd, &end);
  set(table, NVTX_CBID_CORE2_DomainMarkEx, &mark);
  set(table, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
  set(table, NVTX_CBID_CORE2_DomainCreateA, &create);
  line("attached");
  return 1;
#endif
}
