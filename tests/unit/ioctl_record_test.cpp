// SPDX-License-Identifier: Apache-2.0
// Records of ioctls on their way: the ring between two processes, and what becomes of a record's bytes in an event.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <cutrace/ioctl/ioctl_backend.hpp>
#include <cutrace/ioctl/record_ring.hpp>
#include <cutrace/ioctl/tracee_memory.hpp>

#include "recording_emitter.hpp"

namespace ioctl_record_test {

namespace {

using namespace cutrace;          // NOLINT(google-build-using-namespace)
using namespace cutrace::ioctls;  // NOLINT(google-build-using-namespace)
using support::recording_emitter;
using support::string_of;

trace_record record_of(std::uint32_t request, ioctl_device device) {
  trace_record r;
  std::memset(static_cast<void*>(&r), 0, sizeof(r));
  r.kind = trace_record::what::ioctl;
  r.process = 10;
  r.thread = 11;
  r.request = request;
  r.device = device;
  r.begin_ns = 1000;
  r.end_ns = 3000;
  std::strcpy(r.node, "nvidiactl");
  return r;
}
void put(std::uint8_t* block, std::size_t at, std::uint32_t value) { std::memcpy(block + at, &value, sizeof(value)); }
event decoded_event(const trace_record& r, recording_emitter& to) {
  return event_of(r, 580, to, [](std::uint64_t ns) { return static_cast<std::int64_t>(ns + 5); });
}

TEST_CASE("a ring takes as many records as it has room for, in order, from another process") {
  record_ring ring(8);
  REQUIRE(ring.usable());
  const pid_t writer = ::fork();
  if (writer == 0) {
    int refused = 0;
    for (std::uint32_t i = 0; i < 11; ++i)
      if (!ring.push(record_of(i, ioctl_device::control))) ++refused;
    ::_exit(refused);
  }
  int status = 0;
  ::waitpid(writer, &status, 0);
  CHECK(WEXITSTATUS(status) == 3);
  for (std::uint32_t i = 0; i < 8; ++i) {
    REQUIRE(ring.front() != nullptr);
    CHECK(ring.front()->request == i);
    ring.drop();
    CHECK(ring.push(record_of(100 + i, ioctl_device::control)));
    CHECK_FALSE(ring.push(record_of(0, ioctl_device::control)));
  }
  CHECK(ring.front()->request == 100);
}

TEST_CASE("an event says what a record holds") {
  recording_emitter to;
  trace_record r = record_of(0xc020462a, ioctl_device::control);
  r.entry_bytes = r.exit_bytes = 32;
  for (std::uint8_t* b : {r.entry, r.exit}) {
    put(b, 0, 7);
    put(b, 4, 8);
    put(b, 8, 0x20800102);
  }
  put(r.exit, 28, 0x56);
  const event e = decoded_event(r, to);
  CHECK(e.kind == event_kind::ioctl);
  CHECK(e.thread_id == 11);
  CHECK(e.start_ns == 1005);
  CHECK(e.end_ns == 3005);
  CHECK(string_of(e.name) == "NV_ESC_RM_CONTROL");
  CHECK(string_of(e.ioctl_.node) == "nvidiactl");
  CHECK(string_of(e.ioctl_.command_name) == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
  CHECK(string_of(e.ioctl_.status_name) == "NV_ERR_NOT_SUPPORTED");
  CHECK(e.ioctl_.status == 0x56);
  CHECK(e.ioctl_.client == 7);
  CHECK(e.ioctl_.object == 8);
  CHECK(e.ioctl_.enclosing == 0);
}

TEST_CASE("what has no name is reported in hex, an unknown status too") {
  recording_emitter to;
  trace_record r = record_of(0xc0044601, ioctl_device::gpu);
  CHECK(string_of(decoded_event(r, to).name) == "0xc0044601");
  CHECK(decoded_event(r, to).ioctl_.status_name.size == 0);
  r = record_of(0xc020462a, ioctl_device::control);
  r.entry_bytes = r.exit_bytes = 32;
  put(r.entry, 8, 0x2080ff77);
  put(r.exit, 28, 0x4711);
  const event e = decoded_event(r, to);
  CHECK(string_of(e.ioctl_.command_name) == "0x2080ff77");
  CHECK(string_of(e.ioctl_.status_name) == "0x4711");
  r = record_of(5000, ioctl_device::uvm);
  CHECK(string_of(decoded_event(r, to).name) == "0x1388");
}

TEST_CASE("a failed system call has its errno; a status that lies far into the block is read by itself") {
  recording_emitter to;
  trace_record r = record_of(51, ioctl_device::uvm);
  r.result = -EINVAL;
  r.status_read = 1;
  r.status = 0;
  CHECK(decoded_event(r, to).ioctl_.error == EINVAL);
  CHECK(decoded_event(r, to).ioctl_.status_name.size == 0);
  r.result = 0;
  CHECK(string_of(decoded_event(r, to).ioctl_.status_name) == "NV_OK");
  CHECK(string_of(decoded_event(r, to).name) == "UVM_MIGRATE");
}

TEST_CASE("sizes that a broken record claims are not believed") {
  recording_emitter to;
  trace_record r = record_of(0xc01046d3, ioctl_device::control);
  r.entry_bytes = r.exit_bytes = r.inner_entry_bytes = r.inner_exit_bytes = 255;
  put(r.entry, 0, 0x2a);
  CHECK(string_of(decoded_event(r, to).name) == "NV_ESC_RM_CONTROL");
}

TEST_CASE("memory is read up to the page that is not there") {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* at = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  char* const bytes = static_cast<char*>(at);
  std::memset(bytes, 'x', page);
  REQUIRE(::munmap(bytes + page, page) == 0);
  char to[64] = "";
  const auto address = [&](std::size_t before_end) {
    return reinterpret_cast<std::uintptr_t>(bytes + page - before_end);
  };
  CHECK(read_tracee(::getpid(), address(64), to, 64) == 64);
  CHECK(read_tracee(::getpid(), address(16), to, 64) == 16);
  CHECK(to[15] == 'x');
  CHECK(read_tracee(::getpid(), address(0), to, 64) == 0);
  CHECK(read_tracee(::getpid(), 0, to, 64) == 0);
  ::munmap(bytes, page);
}

}  // namespace

}  // namespace ioctl_record_test
