// SPDX-License-Identifier: Apache-2.0
// The second opinion: a CUPTI client of thirty lines that counts activity records and knows nothing of cutrace. Loaded
// by CUDA_INJECTION64_PATH; writes one JSON line to the file that RAW_COUNTER_OUT names.
#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<unsigned long long> kernels{0}, copies{0}, copied_bytes{0}, sets{0}, untimed{0};
CUpti_SubscriberHandle subscriber;

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void CUPTIAPI requested(uint8_t** buffer, size_t* size, size_t* records) {
  *size = size_t{4} << 20;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, *size));
  *records = 0;
}

void CUPTIAPI completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* k = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      ++kernels;
      untimed += k->start == 0 || k->end == 0;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      ++copies;
      copied_bytes += reinterpret_cast<const CUpti_ActivityMemcpy5*>(record)->bytes;
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      ++sets;
    }
  }
  std::free(buffer);
}

void finish() {
  cuptiActivityFlushAll(1);
  const char* path = std::getenv("RAW_COUNTER_OUT");
  std::FILE* f = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (f == nullptr) return;
  std::fprintf(f, "{\"kernels\":%llu,\"memcpy\":%llu,\"memcpy_bytes\":%llu,\"memset\":%llu,\"untimed\":%llu}\n",
               kernels.load(), copies.load(), copied_bytes.load(), sets.load(), untimed.load());
  std::fclose(f);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (cuptiSubscribe(&subscriber, &on_callback, nullptr) != CUPTI_SUCCESS) return 1;
  cuptiActivityRegisterCallbacks(&requested, &completed);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  std::atexit(&finish);
  return 1;
}
