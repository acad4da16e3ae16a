// SPDX-License-Identifier: Apache-2.0
// What the BPF programs report of an ioctl, byte by byte, before anything is decoded: this process makes ioctls on
// device nodes that every machine has, in place of NVIDIA's. /dev/null refuses them and leaves the block (the memory
// that the ioctl's argument points to) as it is; /dev/ptmx writes into the block.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "call_probes.hpp"
#include "call_stream.hpp"
#include "kernel_probes.hpp"

namespace kernel_record_test {

namespace {

using bytes = std::vector<unsigned char>;

struct reported {
  cutrace_ebpf_ioctl head;
  bytes entry, exit, inner_entry, inner_exit;  ///< the bytes that were read of each block
};

/// The programs in the kernel, which trace this process.
class tracing {
 public:
  explicit tracing(const std::string& devices, std::uint64_t ring_bytes = 1 << 20, bool older_kernel = false)
      : probes_([&] {
          cutrace_ebpf::probe_options o;
          o.ring_bytes = ring_bytes;
          return o;
        }()) {
    cutrace::ioctls::device_numbers numbers;
    REQUIRE(numbers.add(devices));
    cutrace_ebpf::kernel_options only;
    only.kinds = "ioctl";
    only.older_kernel = older_kernel;
    kernel_.emplace(probes_, numbers, 580, only);
    works_ = kernel_->working() == "ioctl";
    if (!works_) MESSAGE("skipped: " << (kernel_->notes().empty() ? "" : kernel_->notes()[0]));
    REQUIRE(probes_.trace(static_cast<std::uint32_t>(::getpid())));
  }
  bool works() const { return works_; }
  /// Whether the kernel has woken the reader, or does so within that time.
  bool woken(int ms) const {
    epoll_event one;
    return ::epoll_wait(probes_.wake_fd(), &one, 1, ms) == 1;
  }

  reported ask(int fd, std::uint32_t request, const void* block) {
    result = ::syscall(SYS_ioctl, fd, request, block) < 0 ? -errno : 0;
    std::vector<reported> all;
    probes_.consume([&](const void* record, std::size_t size) {
      cutrace_ebpf_head head;
      std::memcpy(&head, record, sizeof(head));
      CHECK(size == cutrace_ebpf::bytes_of(head.kind));
      if (head.kind == CUTRACE_EBPF_IOCTL || head.kind == CUTRACE_EBPF_TRANSFER)
        all.push_back(read(static_cast<const unsigned char*>(record), head.kind));
      return true;
    });
    REQUIRE(all.size() == 1);
    CHECK(all[0].head.request == request);
    CHECK(all[0].head.result == result);
    CHECK(all[0].head.begin_ns <= all[0].head.end_ns);
    CHECK(all[0].head.head.thread == static_cast<std::uint32_t>(::syscall(SYS_gettid)));
    return all[0];
  }

  long result = 0;  ///< of the last ioctl

 private:
  static reported read(const unsigned char* record, std::uint16_t kind) {
    reported t{};
    std::memcpy(&t.head, record, sizeof(t.head));
    bytes* const blocks[] = {&t.entry, &t.exit, &t.inner_entry, &t.inner_exit};
    const unsigned char* at = record + sizeof(t.head);
    for (unsigned i = 0; i < (kind == CUTRACE_EBPF_TRANSFER ? 4 : 2); ++i, at += CUTRACE_EBPF_BLOCK)
      blocks[i]->assign(at, at + t.head.bytes[i]);
    return t;
  }

  cutrace_ebpf::call_probes probes_;
  std::optional<cutrace_ebpf::kernel_probes> kernel_;
  bool works_ = false;
};

struct opened {
  explicit opened(const char* path) : fd(::open(path, O_RDWR | O_CLOEXEC | O_NOCTTY)) { REQUIRE(fd >= 0); }
  ~opened() { ::close(fd); }
  opened(const opened&) = delete;
  opened& operator=(const opened&) = delete;
  const int fd;
};

/// Bytes that count up from `first`.
bytes counted(std::size_t size, unsigned first) {
  bytes all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = static_cast<unsigned char>(first + i);
  return all;
}
bytes first_of(const bytes& all, std::size_t size) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)};
}
template <class Word>
void put(bytes& block, std::size_t at, Word word) {
  std::memcpy(block.data() + at, &word, sizeof(word));
}
/// As the kernel's headers make it: read and written, type 'F'.
constexpr std::uint32_t word_of(std::uint32_t number, std::uint32_t size) {
  return 0xc0000000u | size << 16 | 'F' << 8 | number;
}

TEST_CASE("blocks are reported as they are: short ones, long ones, and those of a control command once") {
  tracing t("control=1:3");
  if (!t.works()) return;
  const opened null("/dev/null");
  for (const std::uint32_t size : {1u, 16u, 31u, 33u, 48u, 64u}) {
    CAPTURE(size);
    const bytes block = counted(size, 7);
    const reported r = t.ask(null.fd, word_of(0x2b, size), block.data());
    CHECK(r.entry == block);
    CHECK(r.exit == block);
    CHECK(r.head.status_read == 0);
    CHECK(r.head.device == (1u << 20 | 3));
  }
  const bytes longer = counted(200, 1);
  const reported cut = t.ask(null.fd, word_of(0x4a, 200), longer.data());
  CHECK(cut.entry == first_of(longer, 64));
  CHECK(cut.exit == first_of(longer, 64));
  CHECK(cut.head.status_read == 0);
  const bytes control = counted(32, 100);
  const reported once = t.ask(null.fd, word_of(0x2a, 32), control.data());
  CHECK(once.entry.empty());
  CHECK(once.exit == control);
  const reported other_size = t.ask(null.fd, word_of(0x2a, 40), counted(40, 3).data());
  CHECK(other_size.entry == counted(40, 3));
  CHECK(t.result == -ENOTTY);
}

TEST_CASE(
    "where the kernel has no more than helpers, blocks are reported all the same, and those of other devices are not") {
  tracing t("control=1:3", 1 << 20, true);
  if (!t.works()) return;
  const opened null("/dev/null");
  const opened zero("/dev/zero");
  const bytes block = counted(48, 7);
  CHECK(::syscall(SYS_ioctl, zero.fd, word_of(0x2b, 48), block.data()) < 0);
  const reported r = t.ask(null.fd, word_of(0x2b, 48), block.data());  // the only one that is reported
  CHECK(r.entry == block);
  CHECK(r.exit == block);
  CHECK(r.head.device == (1u << 20 | 3));
}

TEST_CASE("a status that lies beyond what is copied is read at its place") {
  tracing t("control=1:3");
  if (!t.works()) return;
  const opened null("/dev/null");
  bytes registry = counted(72, 1);  // NV_ESC_RM_ACCESS_REGISTRY
  put<std::uint32_t>(registry, 64, 0x56);
  const reported r = t.ask(null.fd, word_of(0x4d, 72), registry.data());
  CHECK(r.exit == first_of(registry, 64));
  CHECK(r.head.status_read == 1);
  CHECK(r.head.status == 0x56);
}

TEST_CASE("the block that a transfer points to is reported, too") {
  tracing t("control=1:3");
  if (!t.works()) return;
  const opened null("/dev/null");
  for (const std::uint32_t size : {16u, 48u, 72u}) {
    CAPTURE(size);
    bytes inner = counted(size, 50), outer(16);
    if (size == 72) put<std::uint32_t>(inner, 64, 0x1f);
    put<std::uint32_t>(outer, 0, size == 72 ? 0x4d : 0x2b);
    put<std::uint32_t>(outer, 4, size);
    put<const void*>(outer, 8, inner.data());
    const reported r = t.ask(null.fd, word_of(0xd3, 16), outer.data());
    CHECK(r.head.head.kind == CUTRACE_EBPF_TRANSFER);
    CHECK(r.entry == outer);
    CHECK(r.exit == outer);
    CHECK(r.inner_entry == first_of(inner, size < 64 ? size : 64));
    CHECK(r.inner_exit == r.inner_entry);
    CHECK(r.head.status_read == (size == 72 ? 1 : 0));
    CHECK(r.head.status == (size == 72 ? 0x1f : 0));
  }
  bytes nowhere(16);
  put<std::uint64_t>(nowhere, 8, 16);
  put<std::uint32_t>(nowhere, 4, 32);
  const reported r = t.ask(null.fd, word_of(0xd3, 16), nowhere.data());
  CHECK(r.head.head.kind == CUTRACE_EBPF_IOCTL);
  CHECK(r.entry == nowhere);
}

TEST_CASE("a block that ends where memory does is reported up to there, and none at all as none") {
  tracing t("control=1:3");
  if (!t.works()) return;
  const opened null("/dev/null");
  auto* const page = static_cast<unsigned char*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  REQUIRE(page != MAP_FAILED);
  REQUIRE(::munmap(page + 4096, 4096) == 0);
  const bytes block = counted(20, 9);
  std::memcpy(page + 4096 - block.size(), block.data(), block.size());
  const void* const at = page + 4096 - block.size();
  const reported cut = t.ask(null.fd, word_of(0x2b, 48), at);
  CHECK(cut.entry == block);
  CHECK(cut.exit == block);
  CHECK(t.ask(null.fd, word_of(0x2a, 32), at).exit == block);
  for (const std::uint32_t number : {0x2au, 0x2bu}) {
    const reported none = t.ask(null.fd, word_of(number, 32), nullptr);
    CHECK(none.entry.empty());
    CHECK(none.exit.empty());
  }
  ::munmap(page, 4096);
}

TEST_CASE("the reader is woken when a quarter of the ring waits for it, and not before") {
  constexpr unsigned ring_bytes = 4 << 20, record = 8 + sizeof(cutrace_ebpf_ioctl) + 2 * CUTRACE_EBPF_BLOCK;
  tracing t("control=1:3", ring_bytes);
  if (!t.works()) return;
  const opened null("/dev/null");
  const auto report = [&](unsigned in_all) {
    for (unsigned n = in_all / record; n > 0; --n) ::syscall(SYS_ioctl, null.fd, word_of(0x2a, 32), nullptr);
  };
  report(ring_bytes / 4 - 100 * record);
  CHECK_FALSE(t.woken(0));
  report(200 * record);
  CHECK(t.woken(10000));
}

TEST_CASE("what the device writes into the block is reported as it is after the call") {
  tracing t("control=5:2");
  if (!t.works()) return;
  if (::access("/dev/ptmx", R_OK | W_OK) != 0) {
    MESSAGE("skipped: no pseudo terminals here");
    return;
  }
  const opened terminal("/dev/ptmx");
  constexpr std::uint32_t number_of_terminal = 0x80045430;  // TIOCGPTN
  const bytes before = counted(4, 200);
  bytes block = before;
  const reported r = t.ask(terminal.fd, number_of_terminal, block.data());
  CHECK(t.result == 0);
  CHECK(block != before);
  CHECK(r.entry == before);
  CHECK(r.exit == block);
}

}  // namespace

}  // namespace kernel_record_test
