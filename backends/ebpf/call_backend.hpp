// SPDX-License-Identifier: Apache-2.0
// The backend in the process that writes the trace: it makes events of what BPF probes recorded in another process. It
// has no GPU time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/run/remote_backend.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "call_stream.hpp"
#include "call_words.hpp"
#include "kernel_events.hpp"
#include "user_events.hpp"

namespace cutrace_ebpf {

class CUTRACE_LOCAL call_backend final : public cutrace::detail::remote_backend {
 public:
  /// `records`: the pipe's read end, open until the backend is destroyed. `how`: the kind of probes, for the status.
  /// `view`: for records of kernel.bpf.c, where those are wanted. `probes`: those that the user named.
  call_backend(int records, std::string how, kernel_view view = {}, probe_view probes = {})
      : remote_backend(records), how_(std::move(how)), kernel_(std::move(view)), user_(std::move(probes)) {}
  ~call_backend() override { end_reading(); }

  const char* name() const noexcept override { return "ebpf"; }

  cutrace::backend_status start(cutrace::event_writer& w) override {
    preload::name_results(w);
    begin_reading(w);
    cutrace::backend_status status{};
    std::snprintf(status.detail, sizeof(status.detail), "calls of the driver by %s; no GPU time by this method",
                  how_.c_str());
    return status;
  }

 private:
  static constexpr std::size_t batch_bytes = 64 << 10;
  static constexpr int batches_at_once = 64;

  struct batch {
    call_backend* owner;
    std::vector<unsigned char> bytes;  ///< whole records
  };

  bool read_batch() override {
    std::unique_ptr<batch> b(new batch{this, std::move(rest_)});
    const std::size_t before = b->bytes.size();
    b->bytes.resize(before + batch_bytes);
    const std::size_t n = read_some(b->bytes.data() + before, batch_bytes);
    if (n == 0) return false;
    b->bytes.resize(before + n);
    const std::size_t whole = take_names(b->bytes);
    rest_.assign(b->bytes.begin() + static_cast<std::ptrdiff_t>(whole), b->bytes.end());
    b->bytes.resize(whole);
    if (whole == 0) return true;
    cutrace::activity_buffer buffer{};
    buffer.data = b->bytes.data();
    buffer.valid_bytes = whole;
    buffer.owner = b.get();
    buffer.decode = &decode;
    buffer.release = [](const cutrace::activity_buffer& done) {
      const batch* const of = static_cast<const batch*>(done.owner);
      of->owner->waiting_.fetch_sub(1, std::memory_order_relaxed);
      delete of;
    };
    // While this thread waits, records wait in the kernel's ring, which holds more and counts what it cannot hold.
    while (waiting_.load(std::memory_order_relaxed) >= batches_at_once && !is_over()) wait_a_little();
    waiting_.fetch_add(1, std::memory_order_relaxed);
    submit(buffer);
    static_cast<void>(b.release());
    return true;
  }

  template <class Record>
  static Record at(const std::vector<unsigned char>& bytes, std::size_t offset) {
    Record r;
    std::memcpy(static_cast<void*>(&r), bytes.data() + offset, sizeof(r));
    return r;
  }

  /// Takes names, notes and losses: names must be known before the calls that follow them are decoded. Returns the
  /// number of bytes that are whole records.
  std::size_t take_names(const std::vector<unsigned char>& bytes) {
    std::size_t offset = 0;
    while (offset + sizeof(cutrace_ebpf_head) <= bytes.size()) {
      const auto head = at<cutrace_ebpf_head>(bytes, offset);
      const std::size_t size = bytes_of(head.kind);
      if (size == 0) throw std::runtime_error("a record of an unknown kind came through the pipe");
      if (offset + size > bytes.size()) break;
      if (head.kind == stream_name) name_function(at<name_record>(bytes, offset));
      if (head.kind == CUTRACE_EBPF_THREAD) name_thread(at<cutrace_ebpf_thread>(bytes, offset));
      if (head.kind == stream_note) take_note(at<note_record>(bytes, offset));
      if (head.kind == stream_lost) count(at<lost_record>(bytes, offset));
      offset += size;
    }
    return offset;
  }

  void take_note(const note_record& r) {
    note_.append(r.text, ::strnlen(r.text, sizeof(r.text)));
    if ((r.head.flags & note_goes_on) != 0) return;
    writer().note("ebpf", note_.c_str());
    note_.clear();
  }

  void name_function(const name_record& r) {
    const std::string symbol(r.name, ::strnlen(r.name, sizeof(r.name)));
    std::unique_ptr<call_words> words(new call_words(symbol.c_str(), r.exported != 0));
    words->name(writer(), r.function, symbol.c_str());
    if (r.function < CUTRACE_EBPF_FUNCTIONS && known_[r.function].load(std::memory_order_relaxed) == nullptr) {
      known_[r.function].store(words.get(), std::memory_order_release);
      owned_.push_back(std::move(words));
    }
  }

  void name_thread(const cutrace_ebpf_thread& r) {
    describe_thread(r.head.thread, {r.name, ::strnlen(r.name, sizeof(r.name))}, cutrace::clock::monotonic_ns());
  }

  void count(const lost_record& r) {
    using cutrace::loss_cause;
    writer().count_loss(loss_cause::buffer_limit, r.lost[CUTRACE_EBPF_RING_FULL]);
    writer().count_loss(loss_cause::chunk_full, r.lost[CUTRACE_EBPF_TOO_DEEP] + r.lost[CUTRACE_EBPF_NO_MEMORY]);
    writer().count_loss(loss_cause::unpaired, r.lost[CUTRACE_EBPF_NO_ENTRY]);
  }

  static void decode(const cutrace::activity_buffer& buffer, cutrace::event_emitter& to) {
    const batch& b = *static_cast<const batch*>(buffer.owner);
    for (std::size_t offset = 0; offset < b.bytes.size();) {
      const auto head = at<cutrace_ebpf_head>(b.bytes, offset);
      if (head.kind == CUTRACE_EBPF_CALL) b.owner->emit(at<cutrace_ebpf_call>(b.bytes, offset), nullptr, to);
      if (head.kind == CUTRACE_EBPF_LONG_CALL) {
        const auto r = at<cutrace_ebpf_long_call>(b.bytes, offset);
        b.owner->emit(r.call, &r, to);
      }
      if (kernel_events::knows(head.kind))
        b.owner->kernel_.emit(b.bytes.data() + offset, head.kind, to,
                              [&](std::uint64_t ns) { return b.owner->raw_ns(ns); });
      if (user_events::knows(head.kind))
        b.owner->user_.emit(b.bytes.data() + offset, to, [&](std::uint64_t ns) { return b.owner->raw_ns(ns); });
      offset += bytes_of(head.kind);
    }
  }

  void emit(const cutrace_ebpf_call& c, const cutrace_ebpf_long_call* more, cutrace::event_emitter& to) const {
    cutrace::event e;
    e.kind = cutrace::event_kind::api;
    e.thread_id = c.head.thread;
    e.start_ns = raw_ns(c.entry_ns);
    e.end_ns = raw_ns(c.exit_ns);
    e.correlation_id = c.id;
    e.api.function = c.function;
    e.api.enclosing = c.parent;
    e.api.joined = c.joined;
    const bool left = (c.head.flags & CUTRACE_EBPF_LEFT) != 0;
    e.api.result = left ? preload::did_not_return : c.result;
    std::array<std::uint64_t, call_words::limit> words{};
    cutrace::argument arguments[call_words::limit];
    const call_words* const known =
        c.function < CUTRACE_EBPF_FUNCTIONS ? known_[c.function].load(std::memory_order_acquire) : nullptr;
    if (known != nullptr) e.api.argument_count = known->read(c, more, words);
    for (std::uint32_t i = 0; i < e.api.argument_count; ++i) arguments[i].value = words[i];
    e.api.arguments = arguments;
    to.emit(e);
  }

  std::string how_;
  kernel_events kernel_;
  std::vector<unsigned char> rest_;  ///< the beginning of a record whose end comes later
  user_events user_;
  std::string note_;  ///< the beginning of a note whose end comes later
  std::atomic<int> waiting_{0};
  std::atomic<const call_words*> known_[CUTRACE_EBPF_FUNCTIONS] = {};
  std::vector<std::unique_ptr<call_words>> owned_;
};

}  // namespace cutrace_ebpf
