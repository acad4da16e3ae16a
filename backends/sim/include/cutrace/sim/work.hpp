// SPDX-License-Identifier: Apache-2.0
// What a simulated GPU can be asked to do, and what it answers. Plain data; times are nanoseconds of the model's clock.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

/// Answer of the model. Its two faces, sim::gpu and the stand-in libcuda, translate it into CUresult codes.
enum class status : std::uint8_t {
  ok,
  out_of_memory,
  invalid_value,
  invalid_handle,
  invalid_device,
  not_ready,
  already_registered,
  not_registered,
  capture_unsupported,  ///< the call may not be made on a capturing stream
  capture_invalidated,  ///< an earlier call has broken the capture
  capture_unmatched,    ///< the capture was not begun on this stream
  capture_unjoined,     ///< work forked to other streams was not joined before the end
  capture_implicit,     ///< the legacy stream would have to wait for a capturing stream
  captured_event,       ///< the event was last recorded in a capture
  context_lost,         ///< a kernel has faulted, see moment.hpp; `loss` holds the code
};

struct interval {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

struct kernel_work {
  const char* name = "";  ///< outlives the machine
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t cluster[3] = {0, 0, 0};
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t dynamic_shared_bytes = 0;
  std::uint32_t registers_per_thread = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint64_t duration_ns = 0;  ///< 0: drawn, see draw.hpp
  bool cooperative = false;
  const void* function = nullptr;  ///< the face's own handle
};

/// One side of a copy: a box of bytes in host or device memory, `pitch` bytes from row to row, `slice` from plane to
/// plane.
struct copy_side {
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;
  std::uint64_t slice = 0;
};

struct copy_work {
  copy_side source, destination;
  std::uint64_t width_bytes = 0;
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
  bool asynchronous = true;

  // Filled in by the model from the two addresses.
  copy_direction direction = copy_direction::unknown;
  memory_kind source_kind = memory_kind::unknown;
  memory_kind destination_kind = memory_kind::unknown;
  std::uint32_t source_device = 0;
  std::uint32_t destination_device = 0;

  std::uint64_t bytes() const noexcept { return width_bytes * height * depth; }
};

struct set_work {
  std::uint64_t address = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;  ///< 1, 2 or 4
  std::uint64_t width = 0;          ///< elements in a row
  std::uint64_t height = 1;
  std::uint64_t pitch_bytes = 0;
  bool asynchronous = true;
  memory_kind kind = memory_kind::device;

  std::uint64_t bytes() const noexcept { return width * element_bytes * height; }
};

/// A function of the host that runs in stream order, on a thread of the model.
struct host_work {
  void (*function)(void*) = nullptr;
  void* user = nullptr;
};

/// A stream waits for a value in memory, or writes one, in stream order.
enum class value_test : std::uint8_t { at_least, equal, any_bit, nor };  ///< as CUstreamWaitValue_flags
struct value_work {
  std::uint64_t address = 0;  ///< of device or host memory
  std::uint64_t value = 0;
  std::uint32_t bytes = 4;  ///< 4 or 8
  bool write = false;
  value_test test = value_test::at_least;
};

enum class work_kind : std::uint8_t { empty, kernel, copy, set, host, value };

/// Tagged by `kind`; only the matching member means something.
struct work {
  work_kind kind = work_kind::empty;
  kernel_work kernel;
  copy_work copy;
  set_work set;
  host_work host;
  value_work value;

  work() = default;
  work(const kernel_work& k) : kind(work_kind::kernel), kernel(k) {}  // NOLINT(google-explicit-constructor)
  work(const copy_work& c) : kind(work_kind::copy), copy(c) {}        // NOLINT(google-explicit-constructor)
  work(const set_work& s) : kind(work_kind::set), set(s) {}           // NOLINT(google-explicit-constructor)
  work(const host_work& h) : kind(work_kind::host), host(h) {}        // NOLINT(google-explicit-constructor)
  work(const value_work& v) : kind(work_kind::value), value(v) {}     // NOLINT(google-explicit-constructor)
};

}  // namespace sim
CUTRACE_END_NAMESPACE
