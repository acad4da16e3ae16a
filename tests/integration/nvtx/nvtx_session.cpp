// SPDX-License-Identifier: Apache-2.0
// A program that opens its own session and brings its NVTX ranges into it without an injected library: ranges before,
// across and after the session, and while it is paused.
// clang-format off
#include <cutrace/nvtx/static_injection.hpp>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
// clang-format on

#include <cutrace/cutrace.hpp>
#include <memory>

int main() {
  nvtxRangePushA("pushed before");
  nvtxDomainHandle_t domain = nvtxDomainCreateA("made before");
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = nvtxDomainRegisterStringA(domain, "registered before");
  nvtxRangeId_t started = nvtxRangeStartA("started before");
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "jsonl:first.jsonl";
  auto trace = std::make_unique<cutrace::session>(o);
  nvtxRangeEnd(started);
  nvtxRangePop();
  nvtxDomainRangePushEx(domain, &a);
  nvtxRangePushA("popped with data");
  nvtxRangePopPayload(nullptr, nullptr, 0);
  nvtxRangePushA("inner");
  started = nvtxRangeStartA("ended in the pause");
  trace->pause();
  nvtxRangeEnd(started);
  nvtxRangePushA("pushed in the pause");
  nvtxMarkA("in the pause");
  trace->resume();
  nvtxRangePop();  // that of the pause
  nvtxMarkA("after the pause");
  nvtxRangePop();
  nvtxDomainRangePop(domain);
  nvtxRangePushA("across the end");
  started = nvtxRangeStartA("across the end");
  trace.reset();
  nvtxRangeEnd(started);
  nvtxRangePop();
  nvtxRangePushA("after");
  nvtxRangePop();
  o.sinks = "jsonl:second.jsonl";
  cutrace::session again(o);
  nvtxDomainRangePushEx(domain, &a);
  nvtxDomainRangePop(domain);
  return 0;
}
