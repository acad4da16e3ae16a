// SPDX-License-Identifier: Apache-2.0
// Activity buffers, see buffers.hpp.
#include "buffers.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace standin {

namespace {

template <class Record>
void set_times(std::uint8_t* at, std::uint64_t start, std::uint64_t end) {
  Record r;
  std::memcpy(&r, at, sizeof r);
  r.start = start;
  r.end = end;
  std::memcpy(at, &r, sizeof r);
}

void set_times(std::uint8_t* at, std::uint64_t start, std::uint64_t end) {
  std::uint32_t kind = 0;
  std::memcpy(&kind, at, sizeof kind);
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      set_times<kernel_record>(at, start, end);
      kernel_record r;
      std::memcpy(&r, at, sizeof r);
      r.completed = end;
      std::memcpy(at, &r, sizeof r);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      set_times<memcpy_record>(at, start, end);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      set_times<peer_record>(at, start, end);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      set_times<memset_record>(at, start, end);
      break;
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      set_times<graph_record>(at, start, end);
      break;
    case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER:
      set_times<unified_record>(at, start, end);
      break;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: {
      event_record r;
      std::memcpy(&r, at, sizeof r);
      r.deviceTimestamp = start;
      std::memcpy(at, &r, sizeof r);
      break;
    }
    default:
      break;
  }
}

std::size_t size_at(const std::uint8_t* at) {
  std::uint32_t kind = 0;
  std::memcpy(&kind, at, sizeof kind);
  return record_size(kind);
}

constexpr const char* client_gave_unaligned = "a buffer is not aligned to ACTIVITY_RECORD_ALIGNMENT";
constexpr const char* client_gave_dirty = "a buffer is not zeroed, as ZEROED_OUT_ACTIVITY_BUFFER promises";

/// Where CUPTI would misbehave because of its client.
[[noreturn]] void end_of(const char* why) {
  std::fprintf(stderr, "cutrace stand-in: %s\n", why);
  std::abort();
}

/// Another order, the same in every run.
void shuffle_records(std::uint8_t* data, std::size_t used) {
  std::vector<std::vector<std::uint8_t>> records;
  for (std::size_t at = 0; at < used; at += records.back().size())
    records.emplace_back(data + at, data + at + size_at(data + at));
  std::uint64_t state = 88172645463325252u;  // Marsaglia's xorshift64
  for (std::size_t i = records.size(); i > 1; --i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::swap(records[i - 1], records[state % i]);
  }
  for (const auto& r : records) {
    std::memcpy(data, r.data(), r.size());
    data += r.size();
  }
}

}  // namespace

void buffers::set_callbacks(CUpti_BuffersCallbackRequestFunc ask, CUpti_BuffersCallbackCompleteFunc done) {
  complete_ = done;
  request_ = ask;
  // CUPTI 13.0 has a thread from here on, a child of the calling one (H200). It lives as long as the process, like the
  // library itself; a forked child has none.
  const std::lock_guard<std::mutex> hold(worker_lock_);
  if (worker_of_ == ::getpid()) return;
  worker_of_ = ::getpid();
  std::thread([this] { work(); }).detach();
}

buffers::lane& buffers::mine() {
  if (!per_thread.load(std::memory_order_relaxed)) return *shared_;
  static thread_local std::shared_ptr<lane>
      own;  // lanes_ holds the lane too, so its records can be flushed after the thread has ended
  if (own == nullptr) {
    own = std::make_shared<lane>();
    const std::lock_guard<std::mutex> hold(lanes_lock_);
    lanes_.push_back(own);
  }
  return *own;
}

std::unique_ptr<buffers::buffer> buffers::request(std::size_t least) {
  const CUpti_BuffersCallbackRequestFunc ask = request_.load();
  if (ask == nullptr) return nullptr;
  const std::chrono::nanoseconds slow(slow_ns.load());
  std::this_thread::sleep_for(slow);
  auto b = std::make_unique<buffer>();
  ask(&b->data, &b->size, &b->limit);
  if (b->data == nullptr && refusal_is_fatal) end_of("a buffer was refused; CUPTI before CUDA 12.9 crashes");
  if (b->data == nullptr) return nullptr;
  std::this_thread::sleep_for(slow);
  if (b->size < least) {
    deliver(*b);  // useless, but the client's
    return nullptr;
  }
  if (reinterpret_cast<std::uintptr_t>(b->data) % ACTIVITY_RECORD_ALIGNMENT != 0) end_of(client_gave_unaligned);
  if (!client_zeroes)
    std::memset(b->data, 0, b->size);
  else if (b->data[0] != 0 || std::memcmp(b->data, b->data + 1, b->size - 1) != 0)  // byte by byte it takes TSan 6 ms
    end_of(client_gave_dirty);
  return b;
}

bool buffers::append(const void* record, std::size_t size, const completion* later) {
  lane& l = mine();
  std::unique_lock<std::mutex> hold(l.lock);
  while (l.current == nullptr || !l.current->room_for(size)) {
    if (l.current != nullptr) {
      l.full.push_back(std::move(l.current));
      one_is_full();
    }
    hold.unlock();
    std::unique_ptr<buffer> fresh = request(size);
    if (fresh == nullptr) {
      ++dropped_;
      return false;
    }
    hold.lock();
    if (l.current != nullptr) l.full.push_back(std::move(l.current));  // another thread of a shared lane was faster
    l.current = std::move(fresh);
  }
  buffer& b = *l.current;
  std::memcpy(b.data + b.used, record, size);
  if (later != nullptr) b.incomplete.push_back({b.used, *later});
  b.used += size;
  ++b.records;
  return true;
}

void buffers::complete_records(buffer& b, std::uint64_t until_ns) {
  std::size_t kept = 0;
  for (pending& p : b.incomplete) {
    if (!p.when.complete(until_ns)) {
      if (&b.incomplete[kept] != &p) b.incomplete[kept] = std::move(p);
      ++kept;  // its times stay 0 if the buffer is handed over now (CUPTI 13.0, H200)
    } else if (!p.when.zero_time) {
      set_times(b.data + p.offset, clock_.map(p.when.start_ns - p.when.early_ns),
                clock_.map(p.when.end_ns - p.when.early_ns));
    }
  }
  b.incomplete.resize(kept);
}

void buffers::deliver(buffer& b) {
  if (shuffle) shuffle_records(b.data, b.used);
  if (const CUpti_BuffersCallbackCompleteFunc done = complete_.load()) done(nullptr, 0, b.data, b.size, b.used);
}

std::size_t buffers::flush(bool forced, bool full_only) {
  const std::uint64_t until = clock_.advance();
  std::vector<std::shared_ptr<lane>> all;
  {
    const std::lock_guard<std::mutex> hold(lanes_lock_);
    all.assign(lanes_.begin(), lanes_.end());
    all.push_back(shared_);
  }
  std::size_t records = 0;
  for (const auto& l : all) {
    std::vector<std::unique_ptr<buffer>> ready;
    {
      const std::lock_guard<std::mutex> hold(l->lock);
      // The current buffer is not filled further, even if unfinished work holds it back: the thread's next record asks
      // for another one (CUPTI 13.0, H200: ten a second, with a flush each 100 ms).
      if (l->current != nullptr && !full_only) l->full.push_back(std::move(l->current));
      bool held_back = false;  // unfinished work also holds back all later buffers (CUPTI 13.0, H200)
      for (auto& b : l->full) {
        complete_records(*b, until);
        held_back = held_back || !(b->incomplete.empty() || forced);
        if (!held_back) ready.push_back(std::move(b));
      }
      std::size_t kept = 0;
      for (auto& b : l->full)
        if (b != nullptr) l->full[kept++] = std::move(b);
      l->full.resize(kept);
    }
    for (auto& b : ready) {
      records += b->records;
      deliver(*b);
    }
  }
  return records;
}

void buffers::set_period(std::uint32_t ms) {
  const std::lock_guard<std::mutex> hold(worker_lock_);
  period_ms_ = ms;
  worker_wakes_.notify_one();
}

void buffers::one_is_full() {
  const std::lock_guard<std::mutex> hold(worker_lock_);
  ++full_waiting_;
  worker_wakes_.notify_one();
}

/// Delivers full buffers soon after their last record is complete.
void buffers::work() {
  std::unique_lock<std::mutex> hold(worker_lock_);
  for (;;) {
    const std::uint32_t period = period_ms_;
    if (full_waiting_ == 0 && period == 0)
      worker_wakes_.wait(hold);
    else
      worker_wakes_.wait_for(hold, std::chrono::milliseconds(full_waiting_ != 0 ? 1 : period));
    if (full_waiting_ == 0 && period == 0) continue;
    hold.unlock();
    flush(false, true);
    bool left = false;
    {
      const std::lock_guard<std::mutex> lanes(lanes_lock_);
      for (const auto& l : lanes_) {
        const std::lock_guard<std::mutex> one(l->lock);
        left = left || !l->full.empty();
      }
      const std::lock_guard<std::mutex> one(shared_->lock);
      left = left || !shared_->full.empty();
    }
    hold.lock();
    full_waiting_ = left ? 1 : 0;
  }
}

}  // namespace standin
