// SPDX-License-Identifier: Apache-2.0
// The backend of the process that writes the trace of another process, from the tracer's records. It has no GPU time:
// ioctls are of the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/ioctl/decode.hpp>
#include <cutrace/ioctl/trace_record.hpp>
#include <cutrace/run/remote_backend.hpp>
#include <map>
#include <memory>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

/// The event of a record; times become those of the raw frame (clock.hpp) by `raw_ns`. Names are interned by `to`.
template <class Clock>
event event_of(const trace_record& r, std::uint32_t branch, event_emitter& to, Clock raw_ns) {
  capture c;
  c.device = r.device;
  c.request = r.request;
  c.branch = branch;
  c.result = r.result;
  constexpr std::size_t most = trace_record::block_bytes;
  c.entry = {r.entry, std::min<std::size_t>(r.entry_bytes, most)};
  c.exit = {r.exit, std::min<std::size_t>(r.exit_bytes, most)};
  c.inner_entry = {r.inner_entry, std::min<std::size_t>(r.inner_entry_bytes, most)};
  c.inner_exit = {r.inner_exit, std::min<std::size_t>(r.inner_exit_bytes, most)};
  c.status_read = r.status_read != 0;
  c.status = r.status;
  const decoded d = decode(c);
  char room[16];
  const auto named = [&](const char* name, std::uint32_t number) {
    const char* text_of = name != nullptr ? name : hex_name(number, room, sizeof(room));
    return to.intern(text_of, std::strlen(text_of));
  };
  event e;
  e.kind = event_kind::ioctl;
  e.thread_id = r.thread;
  e.start_ns = raw_ns(r.begin_ns);
  e.end_ns = raw_ns(r.end_ns);
  e.name = named(d.name, d.transferred ? d.number : r.request);
  ioctl_data& i = e.ioctl_;
  i.device = r.device;
  i.node = to.intern(r.node, ::strnlen(r.node, sizeof(r.node)));
  i.request = r.request;
  i.bytes = d.bytes;
  i.error = d.error;
  i.client = d.client;
  i.parent = d.parent;
  i.object = d.object;
  i.transferred = d.transferred;
  i.has_command = d.has_command;
  i.command = d.command;
  i.command_name = d.has_command ? named(d.command_name, d.command) : text{};
  i.status = d.status;
  i.status_name = d.has_status ? named(d.status_name, d.status) : text{};
  return e;
}

class CUTRACE_LOCAL ioctl_backend final : public cutrace::detail::remote_backend {
 public:
  /// `records`: the pipe's end, open until the backend is destroyed.
  ioctl_backend(int records, std::uint32_t branch) : remote_backend(records), branch_(branch) {}
  ~ioctl_backend() override { end_reading(); }

  const char* name() const noexcept override { return "ioctl"; }

  backend_status start(event_writer& w) override {
    begin_reading(w);
    backend_status status{};
    std::snprintf(status.detail, sizeof(status.detail),
                  branch_ != 0 ? "ioctls on devices of NVIDIA by ptrace, driver branch %u; no GPU time by this method"
                               : "ioctls on devices of NVIDIA by ptrace, driver unknown; no GPU time by this method",
                  static_cast<unsigned>(branch_));
    return status;
  }

 private:
  static constexpr std::size_t batch_records = 64;
  struct batch {
    const ioctl_backend* owner;
    std::size_t count;
    trace_record records[batch_records];
  };

  /// At least one record.
  bool read_batch() override {
    std::unique_ptr<batch> b(new batch);
    b->owner = this;
    char* const bytes = reinterpret_cast<char*>(b->records);
    std::size_t size = 0;
    do {
      const std::size_t n = read_some(bytes + size, sizeof(b->records) - size);
      if (n == 0) return false;
      size += n;
    } while (size % sizeof(trace_record) != 0);
    b->count = size / sizeof(trace_record);
    for (std::size_t i = 0; i < b->count; ++i) name_thread(b->records[i]);
    activity_buffer buffer{};
    buffer.data = b.get();
    buffer.valid_bytes = size;
    buffer.owner = b.get();
    buffer.decode = &decode_batch;
    buffer.release = [](const activity_buffer& done) { delete static_cast<batch*>(done.owner); };
    submit(buffer);
    static_cast<void>(b.release());
    return true;
  }

  void name_thread(const trace_record& r) {
    if (r.kind != trace_record::what::ioctl || r.thread_name[0] == '\0') return;
    const std::string name(r.thread_name, ::strnlen(r.thread_name, sizeof(r.thread_name)));
    std::string& known = thread_names_[r.thread];
    if (known == name) return;
    known = name;
    describe_thread(r.thread, name, r.begin_ns);
  }

  static void decode_batch(const activity_buffer& buffer, event_emitter& to) {
    const batch& b = *static_cast<const batch*>(buffer.owner);
    for (std::size_t i = 0; i < b.count; ++i) {
      const trace_record& r = b.records[i];
      switch (r.kind) {
        case trace_record::what::ioctl:
          to.emit(event_of(r, b.owner->branch_, to, [&](std::uint64_t ns) { return b.owner->raw_ns(ns); }));
          break;
        case trace_record::what::unfinished:
          to.count_loss(loss_cause::unpaired, 1);
          break;
        case trace_record::what::lost:
          to.count_loss(loss_cause::buffer_limit, static_cast<std::uint64_t>(r.result));
          break;
        case trace_record::what::ended:  // the command closes the pipe instead
          break;
      }
    }
  }

  std::uint32_t branch_;
  std::map<std::uint32_t, std::string> thread_names_;
};

}  // namespace ioctls
CUTRACE_END_NAMESPACE
