// SPDX-License-Identifier: Apache-2.0
// Chrome Trace Event JSON in the shape of PyTorch's Kineto: opens in ui.perfetto.dev, speedscope and HTA as it is.
// Streamed to "<path>.tmp" as events come, in bounded memory, and renamed when complete: a cut file of this format is
// of no use to any viewer. Rows: threads under the process, streams under pid = device; see sinks/chrome_rows.hpp.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/detail/output_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/chrome_args.hpp>
#include <cutrace/sinks/chrome_rows.hpp>
#include <cutrace/sinks/json_trace.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE

class chrome_sink : public sink {
 public:
  /// `path`: %p is the process id, %h the host's name, "-" standard output. Created by `open`, mode 0600.
  explicit chrome_sink(std::string path = "cutrace-%h-%p.json") : path_(std::move(path)) {}

  const char* name() const noexcept override { return "chrome"; }
  /// Where the finished file lies, once open.
  const std::string& path() const noexcept { return file_.path(); }

  void open(const trace_info& info) override {
    file_.open(path_.c_str(), detail::publish::at_close);
    process_id_ = info.process_id;
    rows_.name_process(info.process_id, detail::view_of(info.process_name));
    // HTA finds the rank with a regular expression that wants white space after the colon, early in the file.
    std::string head = "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"rank\": ";
    head += std::to_string(info.rank < 0 ? 0 : info.rank);
    head += ", \"world_size\": " + std::to_string(info.world_size <= 0 ? 1 : info.world_size);
    head += "},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ";
    // UTC of trace time 0: Kineto's readers add it to each ts.
    head += std::to_string(static_cast<std::int64_t>(info.start.realtime_ns) - info.start.trace_ns);
    head += ",\n\"cutraceInfo\": ";
    json_.clear();
    json_.begin_object();
    detail::info_fields(json_, info);
    json_.end_object();
    head.append(json_.view()).append(",\n\"traceEvents\": [");
    file_.write(head);
    json_.clear();
  }

  void write(event_view events) override {
    for (const event& e : events) write_event(e);
  }

  void flush() override { file_.flush(); }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // it failed before and said so
    for (auto& h : held_) release(h.second, 0);
    write_window_end(summary.stop.trace_ns);
    rows_.write_names(json_, [this] { end_item(); });
    std::string tail = "\n],\n\"deviceProperties\": [";
    for (const auto& d : devices_) tail += (d.first == devices_.begin()->first ? "\n" : ",\n") + d.second;
    json_.begin_object();
    detail::summary_fields(json_, summary);
    json_.field("overlapping_slices", rows_.overlapping());
    json_.end_object();
    tail.append("\n],\n\"cutraceSummary\": ").append(json_.view());
    json_.clear();
    json_.value(file_.path());
    tail.append(",\n\"traceName\": ").append(json_.view()).append("\n}\n");
    file_.write(tail);
    file_.close();
  }

 private:
  /// A driver call that waits for the next event of its thread: if that is the runtime call around it, with the same
  /// correlation id, only the outer one carries the id, or readers would count the launch twice.
  struct held_call {
    bool waiting = false;
    event call;
    std::string args;  ///< rendered, since arguments and requests do not outlive the write
  };
  using thread_key = std::pair<std::uint32_t, std::uint32_t>;
  static constexpr std::size_t held_limit = 2048;

  void write_event(const event& e) {
    release_held(e);
    switch (e.kind) {
      case event_kind::process:
        return rows_.name_process(e.process_id, detail::view_of(e.name));
      case event_kind::thread:
        return rows_.name_thread(e.process_id, e.thread_id, detail::view_of(e.name));
      case event_kind::device:
        return describe_device(e);
      case event_kind::context:
      case event_kind::stream:
        return;
      case event_kind::api:
        return write_api(e);
      case event_kind::counter:
        return write_counter(e);
      case event_kind::mark:
      case event_kind::memory:
      case event_kind::loss:
        return write_instant(e);
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch:
      case event_kind::sync:
        return write_gpu(e);
      case event_kind::stage:
      case event_kind::overhead:
      case event_kind::jit:
      case event_kind::nvtx:
      case event_kind::ioctl:
        return write_host(e);
    }
  }

  static std::int64_t clamped_end(const event& e) noexcept { return e.end_ns < e.start_ns ? e.start_ns : e.end_ns; }

  /// Opens a slice and its args.
  void begin_slice(const event& e, const detail::row_place& at) {
    name_.clear();
    detail::chrome_name(name_, e);
    json_.begin_object();
    json_.field("ph", "X");
    json_.field("cat", detail::chrome_category(e));
    json_.field("name", name_);
    json_.field("pid", at.pid);
    json_.field("tid", at.tid);
    json_.key("ts");
    json_.microseconds(e.start_ns);
    json_.key("dur");
    json_.microseconds(detail::shown_duration_ns(e));
    json_.key("args");
    json_.begin_object();
  }
  void end_slice() {
    json_.end_object();
    json_.end_object();
    end_item();
  }

  void write_host(const event& e) {
    const bool is_stage = e.kind == event_kind::stage;
    const detail::row_kind kind = is_stage && e.stage.span         ? detail::row_kind::spans
                                  : e.kind == event_kind::overhead ? detail::row_kind::overhead
                                                                   : detail::row_kind::thread;
    const std::uint64_t id = kind == detail::row_kind::thread ? e.thread_id : 0;
    const std::uint64_t owner = is_stage ? e.stage.parent : e.stage_id;
    begin_slice(e, rows_.host(kind, e.process_id, id, e.start_ns, clamped_end(e), owner));
    if (is_stage) {
      detail::optional_field(json_, "parent", e.stage.parent);
      detail::flag(json_, "adopted", e.stage.adopted);
      if (kind == detail::row_kind::spans) detail::optional_field(json_, "thread", e.thread_id);
    }
    detail::common_args(json_, e, stages_);
    end_slice();
  }

  void write_gpu(const event& e) {
    const std::int64_t end_ns = clamped_end(e);
    detail::row_kind kind = detail::row_kind::stream;
    std::uint64_t id = e.stream;
    if (e.kind == event_kind::sync) {
      const bool whole = e.sync.what == sync_kind::context || detail::is_no_stream(e.stream);
      kind = whole ? detail::row_kind::context_sync : detail::row_kind::stream_sync;
      if (whole) id = e.context;
    }
    const detail::row_place at = rows_.gpu(kind, e.device, id, e.start_ns, end_ns);
    begin_slice(e, at);
    detail::gpu_args(json_, e, at, detail::shown_duration_ns(e));
    detail::common_args(json_, e, stages_);
    end_slice();
    if (e.correlation_id == 0 || !detail::knows_call(e) || !detail::starts_flow(detail::view_of(e.call_name))) return;
    // An arrow that ends before it begins is dropped by viewers; one that ends outside of its slice binds to another.
    const std::int64_t arrive_ns = e.start_ns < e.call_start_ns ? e.call_start_ns : e.start_ns;
    if (arrive_ns == e.start_ns || arrive_ns < end_ns) write_flow('f', e.correlation_id, at, arrive_ns);
  }

  void write_api(const event& e) {
    if (!e.api.runtime_api && e.correlation_id != 0) {
      const thread_key key(e.process_id, e.thread_id);
      if (held_.size() < held_limit || held_.count(key) != 0) return hold(held_[key], e);
    }
    std::string args;
    render_api_args(args, e);
    write_call(e, args, e.correlation_id);
  }

  void render_api_args(std::string& out, const event& e) {
    args_.clear();
    detail::api_args(args_, e.api);
    detail::common_args(args_, e, stages_);
    out = args_.view();
  }

  void write_call(const event& e, const std::string& args, std::uint64_t correlation) {
    const detail::row_place at =
        rows_.host(detail::row_kind::thread, e.process_id, e.thread_id, e.start_ns, clamped_end(e), e.stage_id);
    begin_slice(e, at);
    json_.raw(args);
    if (correlation != 0) json_.field("correlation", correlation);
    end_slice();
    if (correlation != 0 && detail::starts_flow(detail::view_of(e.name))) write_flow('s', correlation, at, e.start_ns);
  }

  void hold(held_call& held, const event& e) {
    render_api_args(held.args, e);
    held.call = e;
    held.call.requests = nullptr;
    held.call.api.arguments = nullptr;
    held.waiting = true;
  }

  /// Before any slice of a host thread, the call that waits there is written.
  void release_held(const event& e) {
    const bool on_thread = e.kind == event_kind::api || e.kind == event_kind::stage || e.kind == event_kind::nvtx ||
                           e.kind == event_kind::jit || e.kind == event_kind::ioctl;
    if (!on_thread || held_.empty()) return;
    const auto at = held_.find(thread_key(e.process_id, e.thread_id));
    if (at != held_.end()) release(at->second, e.kind == event_kind::api && e.api.runtime_api ? e.correlation_id : 0);
  }
  void release(held_call& held, std::uint64_t outer_correlation) {
    if (!held.waiting) return;
    held.waiting = false;
    const std::uint64_t own = held.call.correlation_id;
    write_call(held.call, held.args, own == outer_correlation ? 0 : own);
  }

  void write_flow(char phase, std::uint64_t id, const detail::row_place& at, std::int64_t ts_ns) {
    json_.begin_object();
    json_.field("ph", std::string_view(&phase, 1));
    json_.field("id", id);
    json_.field("pid", at.pid);
    json_.field("tid", at.tid);
    json_.key("ts");
    json_.microseconds(ts_ns);
    json_.field("cat", "ac2g");
    json_.field("name", "ac2g");
    if (phase == 'f') json_.field("bp", "e");
    json_.end_object();
    end_item();
  }

  void begin_point(const char* phase, std::string_view name, std::uint32_t pid, std::int64_t ts_ns) {
    json_.begin_object();
    json_.field("ph", phase);
    json_.field("name", name);
    json_.field("pid", pid);
    json_.key("ts");
    json_.microseconds(ts_ns);
  }

  void write_counter(const event& e) {
    begin_point("C", detail::view_of(e.name), detail::chrome_rows::host_pid(e.process_id), e.start_ns);
    json_.key("args");
    json_.begin_object();
    json_.field("value", e.counter.value);
    end_slice();
  }

  void write_instant(const event& e) {
    const bool global = e.kind == event_kind::loss || e.thread_id == 0;
    name_.clear();
    detail::chrome_name(name_, e);
    begin_point("i", name_, detail::chrome_rows::host_pid(e.process_id), e.start_ns);
    // An instant takes no time, so it shares the first lane of its thread with whatever is open there.
    json_.field("tid", rows_.thread_tid(e.process_id, e.thread_id));
    json_.field("cat", detail::chrome_category(e));
    json_.field("s", global ? "g" : "t");
    json_.key("args");
    json_.begin_object();
    if (e.kind == event_kind::loss) json_.field("count", e.loss.count);
    if (e.kind == event_kind::memory) {
      json_.field("device", e.device);
      json_.key("address");
      json_.hex(e.memory.address);
      json_.field("bytes", e.memory.bytes);
    }
    detail::common_args(json_, e, stages_);
    end_slice();
  }

  /// Kineto's mark of the end of the recording.
  void write_window_end(std::int64_t ts_ns) {
    const std::uint32_t pid = detail::chrome_rows::host_pid(process_id_);
    begin_point("i", "Record Window End", pid, ts_ns);
    json_.field("tid", pid);
    json_.field("s", "g");
    json_.end_object();
    end_item();
  }

  void describe_device(const event& e) {
    rows_.name_device(e.device, detail::view_of(e.name));
    detail::json_text properties;
    detail::device_properties(properties, e);
    devices_[e.device] = properties.view();
  }

  /// Writes the object that stands in json_.
  void end_item() {
    file_.write(first_ ? "\n" : ",\n");
    first_ = false;
    file_.write(json_.view());
    json_.clear();
  }

  std::string path_;
  detail::output_file file_;
  detail::json_text json_;
  detail::json_text args_;
  detail::membership_fields stages_;
  detail::chrome_rows rows_;
  std::map<thread_key, held_call> held_;
  std::map<std::uint32_t, std::string> devices_;
  std::string name_;
  std::uint32_t process_id_ = 0;
  bool first_ = true;
};

CUTRACE_END_NAMESPACE
