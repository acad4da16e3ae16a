// SPDX-License-Identifier: Apache-2.0
// The rows of the HTML report's timeline: stages by thread and depth, calls by thread, GPU work by device and stream.
// Memory is bounded: when the events no longer fit, neighbours shorter than a resolution become one, everywhere, and
// the resolution doubles until the events fit. So a trace of any length keeps its whole course.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/operations.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

// What events of the HTML report's timeline have in common, kept once and referred to by number: the stage with its
// requests, and the shape in which a kernel was launched. Number 0 says that nothing is known.

/// Texts with numbers from 1 on; texts beyond `limit_bytes` get number 0 and are counted.
class text_numbers {
 public:
  /// @param reserve_bytes the part of the limit that only `important` texts may use
  explicit text_numbers(std::size_t limit_bytes, std::size_t reserve_bytes = 0)
      : bytes_left_(limit_bytes), reserve_bytes_(reserve_bytes) {}

  std::uint32_t number(const std::string& text, bool important = false) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const std::size_t cost = text.size() + 96;  // a node of the map and a pointer
    if (cost + (important ? 0 : reserve_bytes_) > bytes_left_) {
      ++refused_;
      return 0;
    }
    bytes_left_ -= cost;
    const auto added = numbers_.emplace(text, static_cast<std::uint32_t>(texts_.size() + 1)).first;
    texts_.push_back(&added->first);
    return added->second;
  }
  const std::vector<const std::string*>& texts() const noexcept { return texts_; }
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  detail::seeded_map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> texts_;
  std::size_t bytes_left_;
  std::size_t reserve_bytes_;
  std::uint64_t refused_ = 0;
};

/// Stages with the requests they serve. An entry: number of the stage's name (four bytes), then text of the requests.
/// Each request makes new entries, so a long trace reaches the limit; then events keep their stage.
class context_table {
 public:
  explicit context_table(std::size_t limit_bytes) : known_(limit_bytes, limit_bytes / 8) {}

  /// @param stage_name number of the name of e's stage
  std::uint32_t number(const event& e, std::uint32_t stage_name) {
    // A mark may name requests of its own: its stage does not say which.
    if (e.stage_id == 0 || e.kind == event_kind::mark) return find_or_add(e, stage_name);
    recent& r = recent_[(e.stage_id ^ e.stage_id >> 7) % recent_count];
    if (r.stage_id == e.stage_id && r.stage_name == stage_name && r.requests == e.request_total) return r.number;
    r = {e.stage_id, stage_name, e.request_total, find_or_add(e, stage_name)};
    return r.number;
  }

  const std::vector<const std::string*>& entries() const noexcept { return known_.texts(); }
  static std::uint32_t stage_name(const std::string& entry) noexcept {
    std::uint32_t n = 0;
    std::memcpy(&n, entry.data(), sizeof(n));
    return n;
  }
  static std::string_view requests(const std::string& entry) noexcept {
    return std::string_view(entry).substr(sizeof(std::uint32_t));
  }
  std::uint64_t refused() const noexcept { return known_.refused(); }
  /// Whether of some refused entries the stage is not known either.
  bool stages_refused() const noexcept { return stages_refused_; }

 private:
  static constexpr std::size_t recent_count = 64;
  static constexpr std::uint32_t shown_requests = 16;
  struct recent {
    std::uint64_t stage_id = 0;
    std::uint32_t stage_name = 0;
    std::uint32_t requests = 0;
    std::uint32_t number = 0;
  };

  CUTRACE_NOINLINE std::uint32_t find_or_add(const event& e, std::uint32_t stage_name) {
    key_.assign(sizeof(stage_name), '\0');
    std::memcpy(&key_[0], &stage_name, sizeof(stage_name));
    append_requests(e);
    std::uint32_t n = known_.number(key_, key_.size() == sizeof(stage_name));
    if (n == 0 && key_.size() > sizeof(stage_name)) {
      key_.replace(sizeof(stage_name), std::string::npos, "(not kept: memory limit)");
      n = known_.number(key_, true);
    }
    stages_refused_ = stages_refused_ || n == 0;
    return n;
  }

  CUTRACE_NOINLINE void append_requests(const event& e) {
    const std::uint32_t shown = e.request_count < shown_requests ? e.request_count : shown_requests;
    for (std::uint32_t i = 0; i < shown; ++i) {
      if (i != 0) key_ += ", ";
      const request_ref& q = e.requests[i];
      if (q.name.size != 0)
        key_.append(q.name.data, q.name.size < 80 ? q.name.size : 80);
      else
        key_ += std::to_string(q.id);
    }
    const std::uint32_t all = e.request_total > e.request_count ? e.request_total : e.request_count;
    if (all > shown) key_ += " and " + std::to_string(all - shown) + " more";
  }

  text_numbers known_;
  recent recent_[recent_count];
  std::string key_;
  bool stages_refused_ = false;
};

/// grid, block, cluster, registers a thread, static and dynamic shared memory: the first members of kernel_data.
struct launch_shape {
  static constexpr std::size_t numbers = 12;
  std::uint32_t of[numbers];
};

class shape_table {
 public:
  explicit shape_table(std::size_t limit_bytes) : known_(limit_bytes) {}

  std::uint32_t number(const kernel_data& k) {
    launch_shape s;
    std::memcpy(s.of, k.grid, sizeof(k.grid));
    std::memcpy(s.of + 3, k.block, sizeof(k.block));
    std::memcpy(s.of + 6, k.cluster, sizeof(k.cluster));
    s.of[9] = k.registers_per_thread;
    s.of[10] = k.static_shared_bytes;
    s.of[11] = k.dynamic_shared_bytes;
    std::uint32_t mixed = 0;
    for (const std::uint32_t n : s.of) mixed = mixed * 31 + n;
    recent& r = recent_[(mixed * 0x9E3779B9u) >> 26];
    if (r.number == 0 || std::memcmp(&r.shape, &s, sizeof(s)) != 0)
      r = {s, known_.number(std::string(reinterpret_cast<const char*>(&s), sizeof(s)))};
    return r.number;
  }
  const std::vector<const std::string*>& entries() const noexcept { return known_.texts(); }
  static launch_shape shape(const std::string& entry) noexcept {
    launch_shape s;
    std::memcpy(&s, entry.data(), sizeof(s));
    return s;
  }

 private:
  struct recent {
    launch_shape shape = {};
    std::uint32_t number = 0;
  };
  text_numbers known_;
  recent recent_[64];
};

// The events of one row of the HTML report's timeline, packed as they come: about ten bytes each, numbers as LEB128
// (seven bits a byte, low ones first), signed ones in zigzag form, starts as distances from the record before. The page
// holds these bytes as they are, in base64; assets/html/model.js is their other reader.

/// What the timeline keeps of an event. Fields that are 0 take no room.
struct record {
  std::int64_t start_ns = 0;
  std::uint64_t length_ns = 0;
  std::uint32_t name = 0;
  std::uint32_t context = 0;  ///< stage and requests, an entry of the context table
  std::uint32_t detail = 0;   ///< GPU: an entry of the table of launch shapes; calls: the result
  std::uint32_t call = 0;     ///< name of the launching call
  std::int64_t delay_ns = 0;  ///< from the begin of the launching call to `start_ns`
  std::uint64_t bytes = 0;    ///< copied or set
  std::uint64_t joined = 0;   ///< events that this record stands for; 0: it is a single event
  std::uint64_t busy_ns = 0;  ///< of a joined record: length of its events without the gaps
  std::int64_t end_ns() const noexcept { return start_ns + static_cast<std::int64_t>(length_ns); }
};

class packed_records {
 public:
  void add(const record& r) {
    if (CUTRACE_UNLIKELY(bytes_.capacity() - bytes_.size() < longest)) grow();
    put(r.name);
    const unsigned flags = (r.context != 0 ? has_context : 0u) | (r.detail != 0 ? has_detail : 0u) |
                           (r.call != 0 ? has_call : 0u) | (r.bytes != 0 ? has_bytes : 0u) |
                           (r.joined != 0 ? is_joined : 0u);
    put(flags);
    put_signed(r.start_ns - last_start_ns_);
    put(r.length_ns);
    if (r.context != 0) put(r.context);
    if (r.detail != 0) put(r.detail);
    if (r.call != 0) put(r.call), put_signed(r.delay_ns);
    if (r.bytes != 0) put(r.bytes);
    if (r.joined != 0) put(r.joined), put(r.busy_ns);
    last_start_ns_ = r.start_ns;
    ++count_;
  }

  /// Calls `each(const record&)` in the order of `add`.
  template <class Each>
  void for_each(Each&& each) const {
    const unsigned char* at = bytes_.data();
    const unsigned char* const end = at + bytes_.size();
    std::int64_t start_ns = 0;
    while (at != end) {
      record r;
      r.name = static_cast<std::uint32_t>(get(at));
      const unsigned flags = static_cast<unsigned>(get(at));
      r.start_ns = start_ns += get_signed(at);
      r.length_ns = get(at);
      if (flags & has_context) r.context = static_cast<std::uint32_t>(get(at));
      if (flags & has_detail) r.detail = static_cast<std::uint32_t>(get(at));
      if (flags & has_call) {
        r.call = static_cast<std::uint32_t>(get(at));
        r.delay_ns = get_signed(at);
      }
      if (flags & has_bytes) r.bytes = get(at);
      if (flags & is_joined) {
        r.joined = get(at);
        r.busy_ns = get(at);
      }
      each(static_cast<const record&>(r));
    }
  }

  /// Joins neighbours shorter than `resolution_ns` as long as together they are no longer than `resolution_ns`.
  CUTRACE_NOINLINE void join(std::int64_t resolution_ns) {
    packed_records coarser;
    record open;
    bool any = false;
    const auto flush = [&] {
      if (any) coarser.add(open);
      any = false;
    };
    for_each([&](const record& r) {
      const std::int64_t from = any ? std::min(open.start_ns, r.start_ns) : r.start_ns;
      const std::int64_t to = any ? std::max(open.end_ns(), r.end_ns()) : r.end_ns();
      if (to - from > resolution_ns || !any) {
        flush();
        open = r;
        any = true;
        if (r.end_ns() - r.start_ns >= resolution_ns) flush();
        return;
      }
      record sum;  // without a context, since the parts' may differ; with the name of the longest part
      sum.name = longest_of(r) > longest_of(open) ? r.name : open.name;
      sum.start_ns = from;
      sum.length_ns = static_cast<std::uint64_t>(to - from);
      sum.joined = std::max<std::uint64_t>(open.joined, 1) + std::max<std::uint64_t>(r.joined, 1);
      sum.busy_ns = std::min(sum.length_ns, longest_of(open) + longest_of(r));
      open = sum;
    });
    flush();
    coarser.bytes_.shrink_to_fit();
    *this = std::move(coarser);
  }

  std::uint64_t count() const noexcept { return count_; }
  std::size_t memory_bytes() const noexcept { return bytes_.capacity(); }
  const std::vector<unsigned char>& bytes() const noexcept { return bytes_; }

 private:
  enum : unsigned { has_context = 1, has_detail = 2, has_call = 4, has_bytes = 8, is_joined = 16 };
  static constexpr std::size_t longest = 10 * 10;

  static std::uint64_t longest_of(const record& r) noexcept { return r.joined != 0 ? r.busy_ns : r.length_ns; }

  /// By a quarter, not to twice the capacity: unused capacity counts against the limit.
  CUTRACE_NOINLINE void grow() {
    bytes_.reserve(bytes_.capacity() + std::max<std::size_t>(512, bytes_.capacity() / 4));
  }

  void put(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_.push_back(static_cast<unsigned char>(n | 0x80));
    bytes_.push_back(static_cast<unsigned char>(n));
  }
  void put_signed(std::int64_t n) {
    put(static_cast<std::uint64_t>(n) << 1 ^ (n < 0 ? ~std::uint64_t{0} : std::uint64_t{0}));
  }
  static std::uint64_t get(const unsigned char*& at) noexcept {
    std::uint64_t n = 0;
    unsigned shift = 0;
    for (;; shift += 7) {
      const unsigned char c = *at++;
      n |= static_cast<std::uint64_t>(c & 0x7fu) << shift;
      if (c < 0x80) return n;
    }
  }
  static std::int64_t get_signed(const unsigned char*& at) noexcept {
    const std::uint64_t n = get(at);
    return static_cast<std::int64_t>(n >> 1 ^ (~(n & 1) + 1));
  }

  std::vector<unsigned char> bytes_;
  std::int64_t last_start_ns_ = 0;
  std::uint64_t count_ = 0;
};

/// In the order in which a thread's rows, and then a device's, stand.
enum class row_kind : std::uint8_t { spans, stages, marks, runtime_calls, driver_calls, ioctls, system, gpu };

struct row_key {
  row_kind kind = row_kind::stages;
  std::uint32_t device = 0;  ///< of GPU rows
  std::uint64_t id = 0;      ///< thread or stream
  std::uint32_t depth = 0;   ///< of stages

  bool on_gpu() const noexcept { return kind == row_kind::gpu; }
  friend bool operator<(const row_key& a, const row_key& b) noexcept {
    const auto order = [](const row_key& k) { return std::make_tuple(k.on_gpu(), k.device, k.id, k.kind, k.depth); };
    return order(a) < order(b);
  }
  friend bool operator==(const row_key& a, const row_key& b) noexcept {
    return a.kind == b.kind && a.device == b.device && a.id == b.id && a.depth == b.depth;
  }
};

class timeline {
 public:
  static constexpr std::uint32_t deepest_stage = 15;  ///< deeper ones share its row
  static constexpr std::size_t row_limit = 256;       ///< further rows of the host share one row, those of GPUs another

  /// @param limit_bytes of the packed events; the tables beside them take up to half as much again.
  timeline(std::int64_t start_ns, std::size_t limit_bytes)
      : names_(4096, limit_bytes / 16),
        contexts_(limit_bytes / 4),
        shapes_(limit_bytes / 16),
        start_ns_(start_ns),
        limit_bytes_(limit_bytes) {}

  void add(const event& e) {
    switch (e.kind) {
      case event_kind::stage:
        return put(e, e.stage.span ? key(row_kind::spans, 0)
                                   : key(row_kind::stages, e.thread_id, std::min(e.depth, deepest_stage)));
      case event_kind::mark:
        if (e.is_cuda_event()) return;
        return put(e, key(row_kind::marks, e.thread_id));
      case event_kind::api:
        return put(e, key(e.api.runtime_api ? row_kind::runtime_calls : row_kind::driver_calls, e.thread_id));
      case event_kind::jit:
        return put(e, key(row_kind::driver_calls, e.thread_id));
      case event_kind::ioctl:
        return put(e, key(row_kind::ioctls, e.thread_id));
      case event_kind::system:
        return put(e, key(row_kind::system, e.thread_id));
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch: {
        row_key k = key(row_kind::gpu, e.stream);
        k.device = e.device;
        return put(e, k);
      }
      case event_kind::thread:
        if (thread_names_.size() < row_limit || thread_names_.count(e.thread_id) != 0)
          thread_names_[e.thread_id] = std::string(e.name.data, std::min<std::size_t>(e.name.size, 64));
        return;
      default:
        return;
    }
  }

  const std::map<row_key, packed_records>& rows() const noexcept { return rows_; }
  const packed_records& other_host() const noexcept { return other_host_; }
  const packed_records& other_gpu() const noexcept { return other_gpu_; }
  const analysis::name_table& names() const noexcept { return names_; }
  const context_table& contexts() const noexcept { return contexts_; }
  const shape_table& shapes() const noexcept { return shapes_; }
  const std::map<std::uint64_t, std::string>& thread_names() const noexcept { return thread_names_; }
  /// Events shorter than this may have been joined; 0: none were.
  std::int64_t resolution_ns() const noexcept { return resolution_ns_; }
  std::uint64_t events() const noexcept { return events_; }

 private:
  static row_key key(row_kind kind, std::uint64_t id, std::uint32_t depth = 0) noexcept {
    row_key k;
    k.kind = kind;
    k.id = id;
    k.depth = depth;
    return k;
  }

  void put(const event& e, const row_key& where) {
    const analysis::interval v = analysis::clip(analysis::interval_of(e), {start_ns_, INT64_MAX});
    if (v.empty() && (v.end_ns < start_ns_ || e.start_ns != e.end_ns)) return;
    record r;
    r.start_ns = v.start_ns;
    r.length_ns = static_cast<std::uint64_t>(v.length_ns());
    r.name = names_.number(analysis::operation_name(e));
    if (CUTRACE_UNLIKELY(e.incomplete)) r.name = unfinished_name(e);
    const bool is_stage = e.kind == event_kind::stage;
    const text stage = is_stage ? e.name : e.stage_name;
    if (e.stage_id != 0 || e.request_total != 0) r.context = contexts_.number(e, names_.number(stage));
    if (e.is_gpu_work()) {
      add_gpu(r, e);
    } else if (e.kind == event_kind::api) {
      r.detail = static_cast<std::uint32_t>(e.api.result);
      r.bytes = e.api.bytes;
    }
    ++events_;
    packed_records& to = row(where);
    const std::size_t before = to.memory_bytes();
    to.add(r);
    if (CUTRACE_UNLIKELY(to.memory_bytes() != before)) {
      memory_bytes_ += to.memory_bytes() - before;
      if (memory_bytes_ > limit_bytes_) join();
    }
  }

  void add_gpu(record& r, const event& e) {
    if (e.call_name.size != 0) {
      r.call = names_.number(e.call_name);
      const analysis::interval delay = {std::max(e.call_start_ns, start_ns_ - (std::int64_t{1} << 60)), r.start_ns};
      r.delay_ns =
          delay.start_ns > r.start_ns ? -analysis::interval{r.start_ns, delay.start_ns}.length_ns() : delay.length_ns();
    }
    if (e.kind == event_kind::kernel) r.detail = shapes_.number(e.kernel);
    if (e.kind == event_kind::memcpy) r.bytes = e.memcpy_.bytes;
    if (e.kind == event_kind::memset) r.bytes = e.memset_.bytes;
  }

  /// A name with the words that the length was not measured: a reader of a single slice looks at its name.
  CUTRACE_NOINLINE std::uint32_t unfinished_name(const event& e) {
    const text name = analysis::operation_name(e);
    const std::string label = std::string(name.data, name.size) + " (unfinished: times not known)";
    return names_.number(analysis::text_of(label));
  }

  packed_records& row(const row_key& k) {
    recent& r = recent_[(k.id * 7 + k.device * 5 + k.depth * 3 + static_cast<std::size_t>(k.kind)) % recent_count];
    if (CUTRACE_UNLIKELY(r.row == nullptr || !(r.key == k))) {
      auto found = rows_.find(k);
      if (found == rows_.end()) {
        if (rows_.size() >= row_limit) return k.on_gpu() ? other_gpu_ : other_host_;
        found = rows_.emplace(k, packed_records()).first;
      }
      r = {k, &found->second};
    }
    return *r.row;
  }

  /// Joins neighbours in all rows until a quarter of the room is free again.
  CUTRACE_NOINLINE void join() {
    constexpr std::int64_t finest_ns = 1024, coarsest_ns = std::int64_t{1} << 60;
    do {
      resolution_ns_ = std::max(finest_ns, 2 * resolution_ns_);
      for (auto& r : rows_) r.second.join(resolution_ns_);
      other_host_.join(resolution_ns_);
      other_gpu_.join(resolution_ns_);
      memory_bytes_ = other_host_.memory_bytes() + other_gpu_.memory_bytes();
      for (const auto& r : rows_) memory_bytes_ += r.second.memory_bytes();
    } while (memory_bytes_ > limit_bytes_ / 4 * 3 && resolution_ns_ < coarsest_ns);
  }

  struct recent {
    row_key key;
    packed_records* row = nullptr;
  };
  static constexpr std::size_t recent_count = 64;

  analysis::name_table names_;
  context_table contexts_;
  shape_table shapes_;
  std::map<row_key, packed_records> rows_;
  packed_records other_host_, other_gpu_;
  std::map<std::uint64_t, std::string> thread_names_;
  recent recent_[recent_count];
  std::int64_t start_ns_;
  std::size_t limit_bytes_;
  std::size_t memory_bytes_ = 0;
  std::int64_t resolution_ns_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace html
CUTRACE_END_NAMESPACE
