// SPDX-License-Identifier: Apache-2.0
// Memory of the simulated machine. A device address is a number inside a range that is reserved but never accessible,
// so that a host program which dereferences it faults as on a real GPU; the bytes live in a backing that is mapped when
// a copy first touches the allocation. Not thread-safe: the machine's lock guards it, except for the views it hands
// out.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/sim/work.hpp>
#include <map>
#include <memory>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class memory {
 public:
  struct location {
    memory_kind kind = memory_kind::pageable;
    std::uint32_t device = 0;
    std::uint64_t base = 0;  ///< of the allocation or pinned range, 0 for pageable memory
    std::uint64_t bytes = 0;
  };
  /// Bytes that the host may touch; keeps the backing alive while a copy runs outside of the lock.
  struct view {
    unsigned char* data = nullptr;
    std::shared_ptr<void> keep;
  };

  memory(std::uint32_t devices, std::uint64_t limit_bytes) : arenas_(devices) {
    for (arena& a : arenas_) {
      a.limit = limit_bytes;
      a.size = round_up(limit_bytes, alignment) * 2;  // twice: room for holes
      void* p = ::mmap(nullptr, a.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED)
        a.size = a.limit = 0;  // every allocation then fails as out of memory
      else
        a.base = a.cursor = reinterpret_cast<std::uint64_t>(p);
    }
  }
  ~memory() {
    for (arena& a : arenas_)
      if (a.size != 0) ::munmap(reinterpret_cast<void*>(a.base), a.size);
  }
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;

  /// Address of `bytes` bytes, aligned to 512; 0 when the limit would be passed.
  std::uint64_t allocate(std::uint32_t device, std::uint64_t bytes) {
    arena& a = arenas_[device];
    if (bytes == 0 || bytes > a.limit || a.live > a.limit - bytes) return 0;
    const std::uint64_t need = round_up(bytes, alignment);
    for (int pass = 0; pass < 2; ++pass, a.cursor = a.base) {
      while (a.cursor + need <= a.base + a.size) {
        const auto next = a.blocks.lower_bound(a.cursor);
        if (next == a.blocks.end() || a.cursor + need <= next->first) {
          a.blocks.emplace(a.cursor, block{bytes, need, nullptr});
          a.live += bytes;
          a.cursor += need;
          return a.cursor - need;
        }
        a.cursor = next->first + next->second.reserved;
      }
    }
    return 0;
  }

  /// Bytes that were freed; 0 when `address` is not the start of an allocation.
  std::uint64_t free(std::uint64_t address) {
    for (arena& a : arenas_) {
      const auto it = a.blocks.find(address);
      if (it == a.blocks.end()) continue;
      const std::uint64_t bytes = it->second.bytes;
      a.live -= bytes;
      a.blocks.erase(it);
      return bytes;
    }
    return 0;
  }

  std::uint64_t live_bytes(std::uint32_t device) const { return arenas_[device].live; }
  std::uint64_t limit_bytes(std::uint32_t device) const { return arenas_[device].limit; }

  bool pin(const void* host, std::uint64_t bytes) {
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(host);
    const auto next = pinned_.lower_bound(address);
    if (next != pinned_.end() && address + bytes > next->first) return false;
    if (next != pinned_.begin() && std::prev(next)->first + std::prev(next)->second > address) return false;
    pinned_.emplace(address, bytes);
    return true;
  }
  bool unpin(const void* host) { return pinned_.erase(reinterpret_cast<std::uint64_t>(host)) != 0; }

  /// Where an address lies. An address in no live allocation of a device range has kind `unknown`.
  location find(std::uint64_t address) const {
    for (std::size_t d = 0; d < arenas_.size(); ++d) {
      const arena& a = arenas_[d];
      if (address < a.base || address >= a.base + a.size) continue;
      location l;
      l.kind = memory_kind::unknown;
      l.device = static_cast<std::uint32_t>(d);
      const auto next = a.blocks.upper_bound(address);
      if (next == a.blocks.begin()) return l;
      const auto& block_of = *std::prev(next);
      if (address >= block_of.first + block_of.second.bytes) return l;
      l.kind = memory_kind::device;
      l.base = block_of.first;
      l.bytes = block_of.second.bytes;
      return l;
    }
    location l;
    const auto next = pinned_.upper_bound(address);
    if (next == pinned_.begin()) return l;
    const auto& range = *std::prev(next);
    if (address >= range.first + range.second) return l;
    l.kind = memory_kind::pinned;
    l.base = range.first;
    l.bytes = range.second;
    return l;
  }

  /// The bytes behind [address, address + bytes); no data where device addresses are not all in one live
  /// allocation. @throws std::bad_alloc
  view look(std::uint64_t address, std::uint64_t bytes) {
    const location l = find(address);
    if (l.kind == memory_kind::unknown) return {};
    if (l.kind != memory_kind::device) return {reinterpret_cast<unsigned char*>(address), nullptr};
    if (bytes > l.base + l.bytes - address) return {};
    block& b = arenas_[l.device].blocks.find(l.base)->second;
    if (b.backing == nullptr) b.backing = map_backing(b.reserved);
    return {static_cast<unsigned char*>(b.backing.get()) + (address - l.base), b.backing};
  }

 private:
  static constexpr std::uint64_t alignment = 512;
  struct block {
    std::uint64_t bytes;
    std::uint64_t reserved;
    std::shared_ptr<void> backing;
  };
  struct arena {
    std::uint64_t base = 0, size = 0, limit = 0, live = 0, cursor = 0;
    std::map<std::uint64_t, block> blocks;
  };

  static std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }
  static std::shared_ptr<void> map_backing(std::uint64_t bytes) {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return std::shared_ptr<void>(p, [bytes](void* q) { ::munmap(q, bytes); });
  }

  std::vector<arena> arenas_;
  std::map<std::uint64_t, std::uint64_t> pinned_;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
