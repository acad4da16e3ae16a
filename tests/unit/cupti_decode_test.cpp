// SPDX-License-Identifier: Apache-2.0
// The decoder on genuine records, built from the structures of the CUPTI headers, and on buffers that are cut off or
// make no sense.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/decode.hpp>
#include <memory>
#include <vector>

#include "recording_emitter.hpp"

namespace cupti_decode_test {

namespace {

using namespace cutrace;         // NOLINT(google-build-using-namespace)
using namespace cutrace::cupti;  // NOLINT(google-build-using-namespace)
using support::recording_emitter;
using support::string_of;

/// Of a record that the compiler shall not look into: where it does, it warns of reads that belong to other kinds.
template <class Record>
const CUpti_Activity* activity(const Record& r) {
  const void* p = &r;
  asm("" : "+r"(p) : : "memory");
  return static_cast<const CUpti_Activity*>(p);
}

struct decoded {
  recording_emitter emitter;
  decode_context context;

  template <class Record>
  const event& one(const Record& r) {
    emitter.events.clear();
    decode_record(activity(r), context, emitter);
    REQUIRE(emitter.events.size() == 1);
    return emitter.events[0];
  }
  template <class Record>
  void none(const Record& r) {
    emitter.events.clear();
    decode_record(activity(r), context, emitter);
    REQUIRE(emitter.events.empty());
  }
};

template <class Record>
Record record(CUpti_ActivityKind kind) {
  Record r;
  std::memset(&r, 0, sizeof(r));
  r.kind = kind;
  return r;
}

#if CUPTI_API_VERSION >= 130000
using newest_kernel = CUpti_ActivityKernel10;
using newest_copy = CUpti_ActivityMemcpy6;
using newest_sync = CUpti_ActivitySynchronization2;
#else
using newest_kernel = CUpti_ActivityKernel8;
using newest_copy = CUpti_ActivityMemcpy5;
using newest_sync = CUpti_ActivitySynchronization;
#endif

template <class Kernel>
Kernel a_kernel(std::uint64_t start = 1000, std::uint64_t end = 1500) {
  Kernel k = record<Kernel>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  k.start = start;
  k.end = end;
  k.deviceId = 1;
  k.contextId = 2;
  k.streamId = 13;
  k.correlationId = 0xfffffff0u;
  k.gridX = 4;
  k.gridY = 5;
  k.gridZ = 6;
  k.blockX = 32;
  k.blockY = 2;
  k.blockZ = 1;
  k.clusterX = 2;
  k.clusterY = 1;
  k.clusterZ = 1;
  k.registersPerThread = 40;
  k.staticSharedMemory = 128;
  k.dynamicSharedMemory = 4096;
  k.localMemoryPerThread = 16;
  k.graphId = 7;
  k.graphNodeId = 0x700000009ull;
  k.name = "_Z3addPf";
  return k;
}

// ---- a CUPTI of our own that steps through buffers, as long as they are sound ----

std::size_t size_of(std::uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(newest_kernel);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(newest_copy);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(newest_sync);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case 999:
      return 32;  // of the future
    default:
      return 0;
  }
}

/// Steps by size, even past the end: as trusting as a library may be.
CUptiResult next_by_size(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** r) {
  std::size_t at = 0;
  if (*r != nullptr) {
    std::uint32_t kind;
    std::memcpy(&kind, *r, sizeof(kind));
    const std::size_t size = size_of(kind);
    if (size == 0) return CUPTI_ERROR_INVALID_KIND;
    at = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(*r) - buffer) + size;
  }
  if (at >= valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *r = reinterpret_cast<CUpti_Activity*>(buffer + at);
  return CUPTI_SUCCESS;
}

CUptiResult next_fails(std::uint8_t*, std::size_t, CUpti_Activity**) { return CUPTI_ERROR_NOT_INITIALIZED; }
CUptiResult next_stays(std::uint8_t* buffer, std::size_t, CUpti_Activity** r) {
  *r = reinterpret_cast<CUpti_Activity*>(buffer);
  return CUPTI_SUCCESS;
}
CUptiResult next_leaves(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** r) {
  *r = reinterpret_cast<CUpti_Activity*>(buffer + (*r == nullptr ? 0 : valid + 64));
  return CUPTI_SUCCESS;
}
CUptiResult next_before(std::uint8_t* buffer, std::size_t, CUpti_Activity** r) {
  *r = reinterpret_cast<CUpti_Activity*>(reinterpret_cast<std::uintptr_t>(buffer) - 64);
  return CUPTI_SUCCESS;
}

/// A buffer whose end is the end of its allocation, so that the address sanitizer sees each byte too many.
struct buffer {
  template <class Record>
  void add(const Record& r) {
    const auto* p = reinterpret_cast<const std::uint8_t*>(&r);
    bytes.insert(bytes.end(), p, p + sizeof(r));
  }
  walk_result walk(decoded& d, std::size_t valid, next_record_function next = next_by_size) const {
    const std::unique_ptr<void, void (*)(void*)> exact(std::malloc(valid == 0 ? 1 : valid), &std::free);
    REQUIRE(exact != nullptr);
    if (valid != 0) std::memcpy(exact.get(), bytes.data(), valid);
    return walk_buffer(next, exact.get(), valid, d.context, d.emitter);
  }
  std::vector<std::uint8_t> bytes;
};

void freed(void* p) { *static_cast<int*>(p) += 1; }

}  // namespace

TEST_CASE_TEMPLATE("cupti decode: kernels of any layout", Kernel, CUpti_ActivityKernel8, newest_kernel) {
  decoded d;
  Kernel k = a_kernel<Kernel>();
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL}) {
    k.kind = kind;
    const event& e = d.one(k);
    CHECK(e.kind == event_kind::kernel);
    CHECK(e.start_ns == 1000);
    CHECK(e.end_ns == 1500);
    CHECK(e.device == 1);
    CHECK(e.context == 2);
    CHECK(e.stream == 13);
    CHECK(e.correlation_id == 0xfffffff0u);
    CHECK(e.kernel.grid[0] == 4);
    CHECK(e.kernel.grid[2] == 6);
    CHECK(e.kernel.block[0] == 32);
    CHECK(e.kernel.block[1] == 2);
    CHECK(e.kernel.cluster[0] == 2);
    CHECK(e.kernel.registers_per_thread == 40);
    CHECK(e.kernel.static_shared_bytes == 128);
    CHECK(e.kernel.dynamic_shared_bytes == 4096);
    CHECK(e.kernel.local_bytes_per_thread == 16);
    CHECK(e.kernel.graph_id == 7);
    CHECK(e.kernel.graph_node_id == 0x700000009ull);
    CHECK(string_of(e.kernel.mangled_name) == "_Z3addPf");
    CHECK(string_of(e.name) == "demangled _Z3addPf");
  }
  CHECK(d.emitter.lost_total() == 0);
  CHECK(d.emitter.quality.empty());
}

TEST_CASE("cupti decode: when a kernel was queued and submitted") {
  decoded d;
  newest_kernel k = a_kernel<newest_kernel>();
  CHECK(d.one(k).kernel.queued_ns == 0);
  CHECK(d.one(k).kernel.submitted_ns == 0);
  k.queued = 700;
  k.submitted = 900;
  const event& e = d.one(k);
  CHECK(e.kernel.queued_ns == 700);
  CHECK(e.kernel.submitted_ns == 900);
  CHECK(e.start_ns == 1000);
}

TEST_CASE("cupti decode: names are taken by content") {
  decoded d;
  char name[] = "_Z1av";
  newest_kernel k = a_kernel<newest_kernel>();
  k.name = name;
  CHECK(string_of(d.one(k).kernel.mangled_name) == "_Z1av");
  name[3] = 'b';  // the module was unloaded, another one has its memory
  CHECK(string_of(d.one(k).kernel.mangled_name) == "_Z1bv");
  k.name = nullptr;
  CHECK(d.one(k).kernel.mangled_name.size == 0);
}

TEST_CASE("cupti decode: times that are missing or odd") {
  decoded d;
  const event none = d.one(a_kernel<newest_kernel>(0, 0));
  CHECK(none.start_ns == 0);
  CHECK(d.emitter.quality[static_cast<std::uint32_t>(quality::no_timestamp)] == 1);
  CHECK(d.emitter.lost_total() == 0);

  CHECK_FALSE(none.incomplete);
  const event unfinished = d.one(a_kernel<newest_kernel>(1000, 0));
  CHECK(unfinished.incomplete);
  CHECK(unfinished.start_ns == 0);
  CHECK(unfinished.end_ns == 0);

  const event backwards = d.one(a_kernel<newest_kernel>(2000, 1500));
  CHECK(backwards.start_ns == 2000);
  CHECK(backwards.end_ns == 1500);
  CHECK_FALSE(backwards.incomplete);
  CHECK(d.emitter.lost_total() == 0);
  CHECK(d.emitter.quality.size() == 1);

  auto copy = record<newest_copy>(CUPTI_ACTIVITY_KIND_MEMCPY);
  copy.start = 5;
  CHECK(d.one(copy).incomplete);
  auto set = record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  set.start = 5;
  CHECK(d.one(set).incomplete);
  auto graph = record<CUpti_ActivityGraphTrace>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  graph.start = 5;
  CHECK(d.one(graph).incomplete);
  auto sync = record<newest_sync>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  sync.start = 5;
  CHECK(d.one(sync).incomplete);
  CHECK(d.emitter.quality[static_cast<std::uint32_t>(quality::no_timestamp)] == 1);
}

TEST_CASE("cupti decode: no times after a forced flush are of unfinished work, but never of a host activity") {
  decoded d;
  d.context.forced = true;
  const event unfinished = d.one(a_kernel<newest_kernel>(0, 0));
  CHECK(unfinished.incomplete);
  CHECK(unfinished.correlation_id == d.one(a_kernel<newest_kernel>(1, 2)).correlation_id);
  CHECK_FALSE(d.one(a_kernel<newest_kernel>(1, 2)).incomplete);
  CHECK(d.emitter.quality.empty());
  auto overhead = record<CUpti_ActivityOverhead>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  overhead.start = 5;
  d.context.cupti_version = 18;  // whose record is this long
  const event host = d.one(overhead);
  CHECK_FALSE(host.incomplete);
  CHECK(host.start_ns == 5);
  CHECK(host.end_ns == 5);
  CHECK(d.emitter.quality[static_cast<std::uint32_t>(quality::no_timestamp)] == 1);
}

TEST_CASE("cupti decode: copies") {
  decoded d;
  auto c = record<newest_copy>(CUPTI_ACTIVITY_KIND_MEMCPY);
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  c.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  c.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  c.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  c.bytes = 1ull << 33;
  c.start = 10;
  c.end = 20;
  c.deviceId = 3;
  c.contextId = 4;
  c.streamId = 5;
  c.correlationId = 6;
  c.graphId = 8;
  c.graphNodeId = 9;
  const event e = d.one(c);
  CHECK(e.kind == event_kind::memcpy);
  CHECK(e.device == 3);
  CHECK(e.context == 4);
  CHECK(e.stream == 5);
  CHECK(e.correlation_id == 6);
  CHECK(e.memcpy_.bytes == 1ull << 33);
  CHECK(e.memcpy_.direction == copy_direction::device_to_host);
  CHECK(e.memcpy_.source == memory_kind::device);
  CHECK(e.memcpy_.destination == memory_kind::pinned);
  CHECK(e.memcpy_.asynchronous);
  CHECK(e.memcpy_.graph_id == 8);
  CHECK(e.memcpy_.graph_node_id == 9);
  CHECK(string_of(e.name) == "memcpy DtoH");

  const struct {
    unsigned kind;
    copy_direction direction;
  } forms[] = {{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, copy_direction::host_to_device},
               {CUPTI_ACTIVITY_MEMCPY_KIND_HTOA, copy_direction::host_to_device},
               {CUPTI_ACTIVITY_MEMCPY_KIND_ATOH, copy_direction::device_to_host},
               {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, copy_direction::device_to_device},
               {CUPTI_ACTIVITY_MEMCPY_KIND_ATOD, copy_direction::device_to_device},
               {CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, copy_direction::host_to_host},
               {CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, copy_direction::peer},
               {200, copy_direction::unknown}};
  c.flags = 0;
  for (const auto& f : forms) {
    c.copyKind = static_cast<std::uint8_t>(f.kind);
    CHECK(d.one(c).memcpy_.direction == f.direction);
    CHECK_FALSE(d.one(c).memcpy_.asynchronous);
  }
}

TEST_CASE("cupti decode: copies between devices") {
  decoded d;
  auto c = record<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  c.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  c.bytes = 77;
  c.start = 10;
  c.end = 20;
  c.deviceId = 1;
  c.contextId = 2;
  c.streamId = 3;
  c.srcDeviceId = 1;
  c.dstDeviceId = 6;
  c.correlationId = 9;
  c.graphId = 5;
  const event& e = d.one(c);
  CHECK(e.kind == event_kind::memcpy);
  CHECK(e.memcpy_.direction == copy_direction::peer);
  CHECK(e.memcpy_.source_device == 1);
  CHECK(e.memcpy_.destination_device == 6);
  CHECK(e.memcpy_.bytes == 77);
  CHECK(e.correlation_id == 9);
  CHECK(e.memcpy_.graph_id == 5);
}

TEST_CASE("cupti decode: sets, graph replays") {
  decoded d;
  auto s = record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  s.value = 0xff;
  s.bytes = 64;
  s.start = 1;
  s.end = 2;
  s.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  s.flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  s.correlationId = 3;
  s.graphId = 4;
  s.graphNodeId = 5;
  const event e = d.one(s);
  CHECK(e.kind == event_kind::memset);
  CHECK(e.memset_.value == 0);  // what CUPTI says of a graph's node is not its value
  CHECK(e.memset_.bytes == 64);
  CHECK(e.memset_.memory == memory_kind::managed);
  CHECK(e.memset_.asynchronous);
  CHECK(e.memset_.graph_id == 4);
  CHECK(e.memset_.graph_node_id == 5);
  CHECK(e.correlation_id == 3);
  s.graphNodeId = 0;
  CHECK(decoded().one(s).memset_.value == 0xff);

  auto g = record<CUpti_ActivityGraphTrace>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  g.correlationId = 11;
  g.start = 5;
  g.end = 9;
  g.deviceId = 1;
  g.graphId = 12;
  g.contextId = 2;
  g.streamId = 3;
  const event r = d.one(g);
  CHECK(r.kind == event_kind::graph_launch);
  CHECK(string_of(r.name) == "graph 12");
  CHECK(r.kernel.graph_id == 12);
  CHECK(r.correlation_id == 11);
  CHECK(r.stream == 3);
}

TEST_CASE("cupti decode: synchronisation finds its device by the context") {
  decoded d;
  auto s = record<newest_sync>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  s.start = 1;
  s.end = 4;
  s.correlationId = 2;
  s.contextId = 70;
  s.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  s.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  CHECK(d.one(s).device == 0);
  auto c = record<CUpti_ActivityContext>(CUPTI_ACTIVITY_KIND_CONTEXT);
  c.contextId = 70;
  c.deviceId = 5;
  c.nullStreamId = 7;
  d.context.cupti_version = 18;  // from here on: the short form of this record
  const event described = d.one(c);
  CHECK(described.kind == event_kind::context);
  CHECK(described.device == 5);
  CHECK(described.context == 70);
  CHECK(described.stream == 7);
  const event e = d.one(s);
  CHECK(e.kind == event_kind::sync);
  CHECK(e.sync.what == sync_kind::context);
  CHECK(e.device == 5);
  CHECK(e.stream == 0);
  CHECK(e.sync.event_id == 0);
  c.contextId = 6;  // the same place in the table
  c.deviceId = 1;
  d.one(c);
  CHECK(d.one(s).device == 0);
  s.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  s.cudaEventId = 44;
  CHECK(d.one(s).sync.what == sync_kind::stream_wait_event);
  CHECK(d.one(s).sync.event_id == 44);
}

TEST_CASE("cupti decode: descriptions") {
  decoded d;
  auto v = record<CUpti_ActivityDevice4>(CUPTI_ACTIVITY_KIND_DEVICE);
  v.id = 2;
  v.name = "NVIDIA H200";
  v.globalMemoryBandwidth = 4800000000ull;  // kB/s
  v.globalMemorySize = 150ull << 30;
  v.numMultiprocessors = 132;
  v.computeCapabilityMajor = 9;
  v.computeCapabilityMinor = 1;
  v.coreClockRate = 1980000;
  std::memcpy(&v.uuid, "0123456789abcdef", 16);
  const event e = d.one(v);
  CHECK(e.kind == event_kind::device);
  CHECK(e.device == 2);
  CHECK(string_of(e.name) == "NVIDIA H200");
  CHECK(e.device_.memory_bandwidth_bytes_per_s == 4800000000000ull);
  CHECK(e.device_.memory_bytes == 150ull << 30);
  CHECK(e.device_.multiprocessors == 132);
  CHECK(e.device_.compute_major == 9);
  CHECK(e.device_.compute_minor == 1);
  CHECK(e.device_.core_clock_khz == 1980000);
  CHECK(std::memcmp(e.device_.uuid, "0123456789abcdef", 16) == 0);

  auto s = record<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM);
  s.contextId = 1;
  s.streamId = 13;
  s.priority = static_cast<std::uint32_t>(-5);
  s.flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
  const event stream = d.one(s);
  CHECK(stream.kind == event_kind::stream);
  CHECK(stream.stream == 13);
  CHECK(stream.stream_.priority == -5);
  CHECK(stream.stream_.flags == CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING);

  auto n = record<CUpti_ActivityName>(CUPTI_ACTIVITY_KIND_NAME);
  n.objectKind = CUPTI_ACTIVITY_OBJECT_STREAM;
  n.objectId.dcs.deviceId = 1;
  n.objectId.dcs.contextId = 2;
  n.objectId.dcs.streamId = 3;
  n.name = "copy stream";
  const event named = d.one(n);
  CHECK(named.kind == event_kind::stream);
  CHECK(named.device == 1);
  CHECK(named.context == 2);
  CHECK(named.stream == 3);
  CHECK(string_of(named.name) == "copy stream");
  n.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  n.objectId.pt.processId = 100;
  n.objectId.pt.threadId = 101;
  CHECK(d.one(n).kind == event_kind::thread);
  CHECK(d.one(n).thread_id == 101);
  n.objectKind = CUPTI_ACTIVITY_OBJECT_UNKNOWN;
  d.none(n);
  CHECK(d.emitter.lost[loss_cause::unknown_record] == 1);
}

TEST_CASE("cupti decode: memory operations") {
  decoded d;
  auto m = record<CUpti_ActivityMemory3>(CUPTI_ACTIVITY_KIND_MEMORY2);
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  m.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  m.correlationId = 3;
  m.address = 0x7f00;
  m.bytes = 256;
  m.timestamp = 99;
  m.processId = 12;
  m.deviceId = 1;
  m.contextId = 2;
  m.streamId = CUPTI_INVALID_STREAM_ID;
  const event e = d.one(m);
  CHECK(e.kind == event_kind::memory);
  CHECK(e.memory.operation == memory_operation::allocate);
  CHECK(e.memory.memory == memory_kind::device);
  CHECK(e.memory.address == 0x7f00);
  CHECK(e.memory.bytes == 256);
  CHECK(e.start_ns == 99);
  CHECK(e.end_ns == 99);
  CHECK(e.stream == 0);
  CHECK(e.process_id == 12);
  CHECK(e.correlation_id == 3);
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  CHECK(d.one(m).memory.operation == memory_operation::free);
  m.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_INVALID;
  d.none(m);
  CHECK(d.emitter.lost[loss_cause::unknown_record] == 1);

  auto life = record<CUpti_ActivityMemory>(CUPTI_ACTIVITY_KIND_MEMORY);
  life.address = 0x10;
  life.bytes = 20;
  life.start = 5;
  life.end = 50;
  d.emitter.events.clear();
  decode_record(activity(life), d.context, d.emitter);
  REQUIRE(d.emitter.events.size() == 2);
  CHECK(d.emitter.events[0].memory.operation == memory_operation::allocate);
  CHECK(d.emitter.events[0].start_ns == 5);
  CHECK(d.emitter.events[1].memory.operation == memory_operation::free);
  CHECK(d.emitter.events[1].start_ns == 50);
  life.end = 0;  // still allocated
  CHECK(d.one(life).memory.operation == memory_operation::allocate);
}

TEST_CASE("cupti decode: the size of a memory pool is a gauge") {
  decoded d;
  auto p = record<CUpti_ActivityMemoryPool2>(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
  p.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED;
  p.address = 0xab0;
  p.size = 1000;
  p.timestamp = 7;
  const event e = d.one(p);
  CHECK(e.kind == event_kind::counter);
  CHECK(e.counter.gauge);
  CHECK(e.counter.value == 1000);
  CHECK(e.counter.change == 1000);
  CHECK(e.start_ns == 7);
  CHECK(string_of(e.name) == "memory pool 0xab0 bytes");
  p.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED;
  p.size = 400;
  CHECK(d.one(p).counter.change == -600);
  p.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED;
  const event gone = d.one(p);
  CHECK(gone.counter.value == 0);
  CHECK(gone.counter.change == -400);
}

TEST_CASE("cupti decode: the environment of a device is gauges") {
  decoded d;
  auto r = record<CUpti_ActivityEnvironment>(CUPTI_ACTIVITY_KIND_ENVIRONMENT);
  r.deviceId = 3;
  r.timestamp = 50;
  const auto gauges = [&] {
    d.emitter.events.clear();
    decode_record(activity(r), d.context, d.emitter);
    for (const event& e : d.emitter.events) {
      CHECK(e.kind == event_kind::counter);
      CHECK(e.counter.gauge);
      CHECK(e.device == 3);
      CHECK(e.start_ns == 50);
      CHECK(e.end_ns == 50);
    }
    return d.emitter.events;
  };
  r.environmentKind = CUPTI_ACTIVITY_ENVIRONMENT_SPEED;
  r.data.speed.smClock = 1980;
  r.data.speed.memoryClock = 3201;
  const auto speed = gauges();
  REQUIRE(speed.size() == 2);
  CHECK(string_of(speed[0].name) == "GPU 3 SM clock MHz");
  CHECK(speed[0].counter.value == 1980);
  CHECK(speed[0].counter.change == 1980);
  CHECK(string_of(speed[1].name) == "GPU 3 memory clock MHz");
  CHECK(speed[1].counter.value == 3201);
  r.data.speed.smClock = 1500;
  CHECK(gauges()[0].counter.change == -480);

  r.environmentKind = CUPTI_ACTIVITY_ENVIRONMENT_TEMPERATURE;
  r.data.temperature.gpuTemperature = 41;
  const auto temperature = gauges();
  REQUIRE(temperature.size() == 1);
  CHECK(string_of(temperature[0].name) == "GPU 3 temperature C");
  CHECK(temperature[0].counter.value == 41);

  r.environmentKind = CUPTI_ACTIVITY_ENVIRONMENT_POWER;
  r.data.power.power = 120500;
  r.data.power.powerLimit = 700000;
  const auto power = gauges();
  REQUIRE(power.size() == 2);
  CHECK(string_of(power[0].name) == "GPU 3 power mW");
  CHECK(power[0].counter.value == 120500);
  CHECK(power[1].counter.value == 700000);

  r.environmentKind = CUPTI_ACTIVITY_ENVIRONMENT_COOLING;
  r.data.cooling.fanSpeed = 0;
  CHECK(gauges().empty());  // no fan
  r.data.cooling.fanSpeed = 30;
  CHECK(string_of(gauges().at(0).name) == "GPU 3 fan %");
  CHECK(d.emitter.lost_total() == 0);
}

TEST_CASE("cupti decode: pages of managed memory that move are copies, page faults are counters") {
  decoded d;
  auto r = record<CUpti_ActivityUnifiedMemoryCounter2>(CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER);
  constexpr std::uint32_t cpu = 0xffffffffu;
  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_HTOD;
  r.value = 65536;
  r.start = 100;
  r.end = 130;
  r.address = 0x7f0000000000;
  r.srcId = cpu;
  r.dstId = 2;
  r.streamId = 77;  // CUPTI documents the field as invalid
  r.processId = 12;
  const event in = d.one(r);
  CHECK(in.kind == event_kind::memcpy);
  CHECK(string_of(in.name) == "migration HtoD");
  CHECK(in.start_ns == 100);
  CHECK(in.end_ns == 130);
  CHECK(in.device == 2);
  CHECK(in.stream == 0);
  CHECK(in.process_id == 12);
  CHECK(in.correlation_id == 0);
  CHECK(in.memcpy_.bytes == 65536);
  CHECK(in.memcpy_.direction == copy_direction::host_to_device);
  CHECK(in.memcpy_.source == memory_kind::managed);
  CHECK(in.memcpy_.destination == memory_kind::managed);

  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOH;
  r.srcId = 1;
  r.dstId = cpu;
  const event out = d.one(r);
  CHECK(out.memcpy_.direction == copy_direction::device_to_host);
  CHECK(out.device == 1);
  CHECK(string_of(out.name) == "migration DtoH");

  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_BYTES_TRANSFER_DTOD;
  r.dstId = 3;
  const event peer = d.one(r);
  CHECK(peer.memcpy_.direction == copy_direction::peer);
  CHECK(peer.memcpy_.source_device == 1);
  CHECK(peer.memcpy_.destination_device == 3);
  r.end = 0;
  CHECK(d.one(r).incomplete);

  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_GPU_PAGE_FAULT;
  r.srcId = 2;
  r.value = 5;
  const event fault = d.one(r);
  CHECK(fault.kind == event_kind::counter);
  CHECK(string_of(fault.name) == "GPU 2 page faults");
  CHECK(fault.device == 2);
  CHECK(fault.start_ns == 100);
  CHECK(fault.end_ns == 100);
  CHECK(fault.counter.value == 5);
  CHECK(fault.counter.change == 5);
  CHECK_FALSE(fault.counter.gauge);
  CHECK(d.one(r).counter.value == 10);
  r.srcId = 1;
  CHECK(d.one(r).counter.value == 5);  // of its own device

  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_CPU_PAGE_FAULT_COUNT;
  r.value = 0x55aa;  // the program counter of the access
  const event host = d.one(r);
  CHECK(string_of(host.name) == "CPU page faults");
  CHECK(host.counter.value == 1);
  CHECK(d.one(r).counter.value == 2);

  CHECK(d.emitter.lost_total() == 0);
  r.counterKind = CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_THRASHING;  // never asked for
  d.none(r);
  CHECK(d.emitter.lost[loss_cause::unknown_record] == 1);
}

#if CUPTI_API_VERSION >= 24
TEST_CASE("cupti decode: green contexts and contexts of MPS say what they are") {
  decoded d;
  auto c = record<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
  c.contextId = 9;
  c.deviceId = 1;
  c.nullStreamId = 7;
  c.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  CHECK(d.one(c).name.size == 0);
  c.isGreenContext = 1;
  c.numMultiprocessors = 16;
  c.parentContextId = 4;
  const event green = d.one(c);
  CHECK(string_of(green.name) == "green context, 16 multiprocessors, of context 4");
  CHECK(green.context == 9);
  CHECK(green.stream == 7);
  c.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA_MPS;
  CHECK(string_of(d.one(c).name) == "MPS, green context, 16 multiprocessors, of context 4");
  d.context.cupti_version = 18;  // whose record ends before that
  CHECK(string_of(d.one(c).name) == "MPS");
}
#endif

TEST_CASE("cupti decode: overhead, and its details are freed only where they are ours") {
  decoded d;
  struct newest_overhead {  // CUpti_ActivityOverhead3, which older headers lack
    CUpti_ActivityOverhead base;
    std::uint32_t correlation, reserved;
    void* data;
  } o;
  std::memset(&o, 0, sizeof(o));
  int details = 0;
  o.base.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  o.base.overheadKind = static_cast<CUpti_ActivityOverheadKind>(6 << 16);
  o.base.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  o.base.objectId.pt.processId = 8;
  o.base.objectId.pt.threadId = 9;
  o.base.start = 3;
  o.base.end = 4;
  o.correlation = 21;
  o.data = &details;
  d.context.free_data = &freed;

  d.context.cupti_version = 18;
  const event old = d.one(o);
  CHECK(details == 0);
  CHECK(old.correlation_id == 0);
  d.context.cupti_version = 130000;
  const event e = d.one(o);
  CHECK(details == 1);
  CHECK(e.kind == event_kind::overhead);
  CHECK(string_of(e.name) == "command buffer full");
  CHECK(e.correlation_id == 21);
  CHECK(e.process_id == 8);
  CHECK(e.thread_id == 9);
  o.base.end = 0;  // an instant, and freed all the same
  CHECK(d.one(o).end_ns == 3);
  CHECK(details == 2);
  o.base.end = 4;
  o.base.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  CHECK(string_of(d.one(o).name) == "CUPTI buffer flush");
  CHECK(details == 2);
  o.base.overheadKind = static_cast<CUpti_ActivityOverheadKind>(99 << 16);
  CHECK(string_of(d.one(o).name) == "overhead");
}

#if CUPTI_API_VERSION >= 130000
TEST_CASE("cupti decode: CUDA events with device timestamps, compilation with threads") {
  decoded d;
  auto e = record<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  e.correlationId = 1;
  e.contextId = 2;
  e.streamId = 3;
  e.deviceId = 4;
  d.none(e);
  CHECK(d.emitter.lost_total() == 0);
  e.deviceTimestamp = 500;
  const event mark = d.one(e);
  CHECK(mark.kind == event_kind::mark);
  CHECK(mark.start_ns == 500);
  CHECK(mark.end_ns == 500);
  CHECK(mark.device == 4);
  CHECK(mark.stream == 3);
  d.context.cupti_version = 24;  // the older record ends before the timestamp
  d.none(e);

  auto j = record<CUpti_ActivityJit2>(CUPTI_ACTIVITY_KIND_JIT);
  j.jitEntryType = CUPTI_ACTIVITY_JIT_ENTRY_PTX_TO_CUBIN;
  j.jitOperationType = CUPTI_ACTIVITY_JIT_OPERATION_COMPILE;
  j.start = 1;
  j.end = 2;
  j.correlationId = 3;
  j.processId = 4;
  j.threadId = 5;
  const event jit = d.one(j);
  CHECK(jit.kind == event_kind::jit);
  CHECK(string_of(jit.name) == "PTX to cubin: compile");
  CHECK(jit.thread_id == 5);
  d.context.cupti_version = 18;
  CHECK(d.one(j).thread_id == 0);
}
#endif

TEST_CASE("cupti decode: calls come from elsewhere, unknown kinds are a loss") {
  decoded d;
  d.none(record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER));
  d.none(record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME));
  d.none(record<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
  CHECK(d.emitter.lost_total() == 0);
  d.none(record<CUpti_ActivityAPI>(static_cast<CUpti_ActivityKind>(999)));
  CHECK(d.emitter.lost[loss_cause::unknown_record] == 1);
  d.none(record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_INVALID));
  CHECK(d.emitter.lost[loss_cause::unknown_record] == 2);
  decode_record(nullptr, d.context, d.emitter);
  CHECK(d.emitter.lost_total() == 2);
}

TEST_CASE("cupti decode: a literal is interned once") {
  decoded d;
  auto c = record<newest_copy>(CUPTI_ACTIVITY_KIND_MEMCPY);
  c.end = 1;
  d.one(c);
  const std::uint64_t before = d.emitter.interned;
  d.one(c);
  CHECK(d.emitter.interned == before);
}

TEST_CASE("cupti decode: a whole buffer") {
  decoded d;
  buffer b;
  auto copy = record<newest_copy>(CUPTI_ACTIVITY_KIND_MEMCPY);
  copy.end = 1;
  b.add(a_kernel<newest_kernel>());
  b.add(record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER));
  b.add(copy);
  std::uint64_t future[4] = {999, 0, 0, 0};
  b.add(future);
  b.add(a_kernel<newest_kernel>(3000, 3500));
  const walk_result r = b.walk(d, b.bytes.size());
  CHECK(r.complete);
  CHECK(r.records == 5);
  CHECK(d.emitter.events.size() == 3);
  CHECK(d.emitter.events.back().start_ns == 3000);
  CHECK(d.emitter.lost[loss_cause::unknown_record] == 1);
  CHECK(walk_buffer(next_by_size, nullptr, 100, d.context, d.emitter).records == 0);
  CHECK(b.walk(d, 0).records == 0);
}

/// As a library that is newer than all headers: its kernels are longer.
CUptiResult next_of_the_future(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** r) {
  if (*r == nullptr) return next_by_size(buffer, valid, r);
  *r = reinterpret_cast<CUpti_Activity*>(reinterpret_cast<std::uint8_t*>(*r) + sizeof(newest_kernel) + 72);
  return reinterpret_cast<std::uint8_t*>(*r) < buffer + valid ? CUPTI_SUCCESS : CUPTI_ERROR_MAX_LIMIT_REACHED;
}

TEST_CASE("cupti decode: records of a newer library are longer, and are stepped over as it says") {
  decoded d;
  d.context.cupti_version = 990000;
  buffer b;
  struct longer {
    newest_kernel known;
    std::uint64_t grown[9];
  } k;
  for (std::uint64_t& g : k.grown) g = ~std::uint64_t{0};
  for (std::uint64_t start : {100u, 200u, 300u}) {
    k.known = a_kernel<newest_kernel>(start, start + 50);
    b.add(k);
  }
  static_assert(sizeof(longer) == sizeof(newest_kernel) + 72, "no padding");
  const walk_result r = b.walk(d, b.bytes.size(), next_of_the_future);
  CHECK(r.complete);
  REQUIRE(r.records == 3);
  REQUIRE(d.emitter.events.size() == 3);
  CHECK(d.emitter.events[2].start_ns == 300);
  CHECK(d.emitter.events[2].end_ns == 350);
  CHECK(string_of(d.emitter.events[2].name) == "demangled _Z3addPf");
  CHECK(d.emitter.lost_total() == 0);
}

TEST_CASE("cupti decode: a buffer cut off anywhere loses the rest and nothing else") {
  buffer b;
  b.add(a_kernel<newest_kernel>());
  b.add(record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET));
  b.add(a_kernel<newest_kernel>());
  const std::size_t first = sizeof(newest_kernel);
  const std::size_t second = first + sizeof(CUpti_ActivityMemset4);
  for (std::size_t valid = 1; valid < b.bytes.size(); ++valid) {
    decoded d;
    CAPTURE(valid);
    const walk_result r = b.walk(d, valid);
    // A record is whole once all members that are read are there.
    const std::size_t whole = (valid >= kernel_record_bytes ? 1u : 0u) +
                              (valid >= first + memset_record_bytes ? 1u : 0u) +
                              (valid >= second + kernel_record_bytes ? 1u : 0u);
    CHECK(r.records == whole);
    CHECK(d.emitter.events.size() == whole);
    CHECK(d.emitter.lost_total() == (r.complete ? 0 : 1));
    const bool at_boundary = (valid >= kernel_record_bytes && valid <= first) ||
                             (valid >= first + memset_record_bytes && valid <= second) ||
                             valid >= second + kernel_record_bytes;
    CHECK(r.complete == at_boundary);
  }
}

TEST_CASE("cupti decode: a library that answers nonsense ends the walk with a loss") {
  buffer b;
  b.add(a_kernel<newest_kernel>());
  b.add(a_kernel<newest_kernel>());
  const struct {
    next_record_function next;
    std::uint64_t records;
  } cases[] = {{next_fails, 0}, {next_stays, 1}, {next_leaves, 1}, {next_before, 0}};
  for (const auto& c : cases) {
    decoded d;
    const walk_result r = b.walk(d, b.bytes.size(), c.next);
    CHECK_FALSE(r.complete);
    CHECK(r.records == c.records);
    CHECK(d.emitter.lost[loss_cause::unknown_record] == 1);
  }
}

}  // namespace cupti_decode_test
