// SPDX-License-Identifier: Apache-2.0
// Call sites and other names that application threads introduce, copied so that they outlive the shared library they
// came from. Lock-free and of fixed size: a site is added by linking a finished entry into its bucket.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>
#include <cutrace/marker/table.hpp>
#include <memory>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class site_table {
 public:
  struct entry {
    std::atomic<std::uint32_t> next;  ///< in the bucket, 0 ends it
    std::uint32_t hash;
    std::uint8_t kind;
    std::uint32_t line;
    text name;
    text file;
    std::atomic<std::uint64_t> cell;  ///< counters and gauges
    std::int64_t sampled;             ///< collector's: value of the last sample
    std::atomic<bool> ready;
  };
  static constexpr std::uint32_t capacity = 8192;
  static constexpr std::uint8_t name_only = 255;  ///< kind of names that are no call sites (GPU work of a backend)
  static constexpr std::uint32_t full_id = 1;     ///< entry that stands for all that found no room
  static constexpr text unnamed{"(unnamed)", 9};  ///< name of what has none

  site_table() {
    entries_.reset(new entry[capacity]());
    text_.reset(new char[text_bytes]());
    next_.store(2, std::memory_order_relaxed);
    entries_[full_id].name = {"(too many call sites)", 21};
    entries_[full_id].ready.store(true, std::memory_order_release);
  }

  /// Id of a site; the same for the same kind, name, file and line (counters: for the same name). Any thread.
  std::uint32_t add(std::uint8_t kind, const char* name, std::size_t name_size, const char* file,
                    std::uint32_t line) noexcept {
    const bool by_name = kind == static_cast<std::uint8_t>(site_kind::counter) ||
                         kind == static_cast<std::uint8_t>(site_kind::gauge) || kind == name_only;
    if (by_name) file = "", line = 0;
    if (file == nullptr) file = "";
    const std::uint32_t h = hash(kind, name, name_size, line);
    std::atomic<std::uint32_t>& bucket = buckets_[h % bucket_count];
    std::uint32_t head = bucket.load(std::memory_order_acquire);
    if (const std::uint32_t found = find(head, 0, h, kind, name, name_size, file, line)) return found;

    const std::uint32_t id = next_.fetch_add(1, std::memory_order_relaxed);
    if (id >= capacity) {
      next_.store(capacity, std::memory_order_relaxed);
      return full_id;
    }
    entry& e = entries_[id];
    e.hash = h;
    e.kind = kind;
    e.line = line;
    e.name = keep(name, name_size);
    e.file = keep(file, std::strlen(file));
    for (;;) {
      e.next.store(head, std::memory_order_relaxed);
      e.ready.store(true, std::memory_order_release);
      if (bucket.compare_exchange_weak(head, id, std::memory_order_acq_rel, std::memory_order_acquire)) return id;
      // Somebody linked first: perhaps the same site. Then the entry made here stays unused.
      if (const std::uint32_t found =
              find(head, e.next.load(std::memory_order_relaxed), h, kind, name, name_size, file, line)) {
        e.ready.store(false, std::memory_order_relaxed);
        return found;
      }
    }
  }

  /// Gives a marker's site its id, and counters their cell. Any thread, idempotent. A marker whose name is empty gets
  /// one, as whoever reads a trace takes work without a stage's name for work in no stage.
  void add(site& s) noexcept {
    const char* name = s.name != nullptr && *s.name != '\0' ? s.name : unnamed.data;
    const std::uint32_t id = add(static_cast<std::uint8_t>(s.kind), name, std::strlen(name), s.file, s.line);
    if (s.kind == site_kind::counter || s.kind == site_kind::gauge)
      s.cell.store(&entries_[id].cell, std::memory_order_release);
    s.id.store(id, std::memory_order_release);
  }

  /// Entry of an id that a record carried.
  const entry& at(std::uint32_t id) const noexcept {
    return entries_[id != 0 && id < capacity && entries_[id].ready.load(std::memory_order_acquire) ? id : full_id];
  }

  /// Calls `visit(entry&)` for all counters and gauges. Collector's thread.
  template <class Visit>
  void for_each_counter(Visit visit) {
    const std::uint32_t end = std::min(next_.load(std::memory_order_acquire), capacity);
    for (std::uint32_t id = full_id + 1; id < end; ++id) {
      entry& e = entries_[id];
      if (!e.ready.load(std::memory_order_acquire)) continue;
      if (e.kind == static_cast<std::uint8_t>(site_kind::counter) ||
          e.kind == static_cast<std::uint8_t>(site_kind::gauge))
        visit(e);
    }
  }

  static constexpr std::uint64_t bytes() noexcept { return sizeof(entry) * capacity + text_bytes + bucket_count * 4; }

 private:
  static constexpr std::uint32_t bucket_count = 4096;
  static constexpr std::uint32_t text_bytes = 768u << 10;

  static std::uint32_t hash(std::uint8_t kind, const char* name, std::size_t size, std::uint32_t line) noexcept {
    std::uint32_t h = 2166136261u ^ kind;  // FNV-1a, 32 bits
    for (std::size_t i = 0; i < size; ++i) h = (h ^ static_cast<unsigned char>(name[i])) * 16777619u;
    return (h ^ line) * 16777619u;
  }

  /// Searches a bucket from `from` up to, not including, `until`.
  std::uint32_t find(std::uint32_t from, std::uint32_t until, std::uint32_t h, std::uint8_t kind, const char* name,
                     std::size_t size, const char* file, std::uint32_t line) const noexcept {
    for (std::uint32_t id = from; id != until && id != 0; id = entries_[id].next.load(std::memory_order_acquire)) {
      const entry& e = entries_[id];
      if (e.hash == h && e.kind == kind && e.line == line && e.name.size == std::min<std::size_t>(size, name_limit) &&
          std::memcmp(e.name.data, name, e.name.size) == 0 && std::strcmp(e.file.data, file) == 0)
        return id;
    }
    return 0;
  }

  text keep(const char* from, std::size_t size) noexcept {
    if (size == 0) return {};
    size = std::min<std::size_t>(size, name_limit);
    const std::uint32_t at = text_used_.fetch_add(static_cast<std::uint32_t>(size + 1), std::memory_order_relaxed);
    if (at + size + 1 > text_bytes) {
      text_used_.store(text_bytes, std::memory_order_relaxed);
      return {"(no room for names)", 19};
    }
    std::memcpy(text_.get() + at, from, size);
    return {text_.get() + at, static_cast<std::uint32_t>(size)};
  }

  static constexpr std::size_t name_limit = 16384;
  std::unique_ptr<entry[]> entries_;
  std::unique_ptr<char[]> text_;
  std::atomic<std::uint32_t> buckets_[bucket_count] = {};
  std::atomic<std::uint32_t> next_{2};
  std::atomic<std::uint32_t> text_used_{0};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
