// SPDX-License-Identifier: Apache-2.0
// A plain CUPTI client for tests: keeps every callback and a copy of every activity record.
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "standin_calls.hpp"

namespace test_support {

struct seen_call {
  CUpti_ApiCallbackSite site;
  CUpti_CallbackId cbid;
  std::string name;
  std::string symbol;
  std::uint32_t correlation;
  std::uint32_t context;
  std::uint64_t thread;
  std::uint64_t slot;                ///< what was in correlationData
  int result;                        ///< -1 at ENTER
  std::vector<std::uint64_t> words;  ///< the first words of functionParams
};

struct seen_resource {
  CUpti_CallbackId cbid;
  CUpti_GraphData graph;  ///< zero for other resources
  std::uint64_t node_id = 0, original_node_id = 0;
  std::uint32_t graph_id = 0;
};

class cupti_recorder {
 public:
  static cupti_recorder& get() {
    static cupti_recorder r;
    return r;
  }

  void clear() {
    const std::lock_guard<std::mutex> hold(lock_);
    calls.clear();
    resources.clear();
    records.clear();
  }
  std::vector<seen_call> calls_named(const std::string& name) {
    const std::lock_guard<std::mutex> hold(lock_);
    std::vector<seen_call> all;
    for (const seen_call& c : calls)
      if (c.name == name) all.push_back(c);
    return all;
  }
  /// Copies of the records of one kind, in the order of delivery.
  template <class Record>
  std::vector<Record> of(std::uint32_t kind) {
    const std::lock_guard<std::mutex> hold(lock_);
    std::vector<Record> all;
    for (const auto& bytes : records) {
      std::uint32_t k = 0;
      std::memcpy(&k, bytes.data(), sizeof k);
      if (k != kind || bytes.size() < sizeof(Record)) continue;
      all.emplace_back();
      std::memcpy(&all.back(), bytes.data(), sizeof(Record));
    }
    return all;
  }

  static void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) get().driver_call(cbid, *static_cast<const CUpti_CallbackData*>(data));
    if (domain == CUPTI_CB_DOMAIN_RESOURCE) get().resource(cbid, *static_cast<const CUpti_ResourceData*>(data));
  }
  static void CUPTIAPI on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* limit) {
    *size = get().buffer_bytes;
    *limit = get().record_limit;
    *buffer = get().refuse ? nullptr : static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
    if (*buffer != nullptr) std::memset(*buffer, 0xcd, *size);
  }
  static void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    get().keep(buffer, valid);
    std::free(buffer);
  }

  std::vector<seen_call> calls;
  std::vector<seen_resource> resources;
  std::vector<std::vector<std::uint8_t>> records;
  std::atomic<std::size_t> buffer_bytes{64 * 1024};
  std::atomic<std::size_t> record_limit{0};
  std::atomic<bool> refuse{false};
  std::atomic<int> bad_walks{0};  ///< buffers that did not end with MAX_LIMIT_REACHED

 private:
  void driver_call(CUpti_CallbackId cbid, const CUpti_CallbackData& d) {
    if (d.callbackSite == CUPTI_API_ENTER) *d.correlationData = 0x5000000000000000u + d.correlationId;
    seen_call c{};
    c.site = d.callbackSite;
    c.cbid = cbid;
    c.name = d.functionName;
    c.symbol = d.symbolName != nullptr ? d.symbolName : "";
    c.correlation = d.correlationId;
    c.context = d.contextUid;
    c.thread = static_cast<std::uint64_t>(pthread_self());
    c.slot = *d.correlationData;
    c.result = d.callbackSite == CUPTI_API_EXIT ? static_cast<int>(*static_cast<CUresult*>(d.functionReturnValue)) : -1;
    const auto size = param_bytes.find(c.name);
    if (size != param_bytes.end() && d.functionParams != nullptr) {
      c.words.resize(size->second / 8);
      std::memcpy(c.words.data(), d.functionParams, c.words.size() * 8);
    }
    const std::lock_guard<std::mutex> hold(lock_);
    calls.push_back(c);
  }
  void resource(CUpti_CallbackId cbid, const CUpti_ResourceData& d) {
    seen_resource r{};
    r.cbid = cbid;
    if (cbid >= CUPTI_CBID_RESOURCE_GRAPH_CREATED && cbid <= CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) {
      r.graph = *static_cast<const CUpti_GraphData*>(d.resourceDescriptor);
      if (r.graph.node != nullptr) CUPTI(cuptiGetGraphNodeId)(r.graph.node, &r.node_id);
      if (r.graph.originalNode != nullptr) CUPTI(cuptiGetGraphNodeId)(r.graph.originalNode, &r.original_node_id);
      if (r.graph.graph != nullptr) CUPTI(cuptiGetGraphId)(r.graph.graph, &r.graph_id);
    }
    const std::lock_guard<std::mutex> hold(lock_);
    resources.push_back(r);
  }
  void keep(std::uint8_t* buffer, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    std::vector<std::uint8_t*> starts;
    CUptiResult r = CUPTI_SUCCESS;
    while ((r = CUPTI(cuptiActivityGetNextRecord)(buffer, valid, &record)) == CUPTI_SUCCESS)
      starts.push_back(reinterpret_cast<std::uint8_t*>(record));
    if (r != CUPTI_ERROR_MAX_LIMIT_REACHED) ++bad_walks;
    const std::lock_guard<std::mutex> hold(lock_);
    for (std::size_t i = 0; i < starts.size(); ++i)
      records.emplace_back(starts[i], i + 1 < starts.size() ? starts[i + 1] : buffer + valid);
  }

  std::mutex lock_;

 public:
  /// Sizes of the parameter structs to keep, filled by the test before it enables callbacks.
  std::map<std::string, std::size_t> param_bytes;
};

}  // namespace test_support
