// SPDX-License-Identifier: Apache-2.0
// Chrome Trace Event JSON in the shape of PyTorch's Kineto: opens in ui.perfetto.dev, speedscope and HTA (Holistic
// Trace Analysis) as it is. Streamed to "<path>.tmp" as events come, in bounded memory, and renamed when complete: a
// truncated file of this format is of no use to any viewer. Rows: threads under the process, streams under pid =
// device; see sinks/chrome/rows.hpp.
#pragma once

#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/config.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/chrome/rows.hpp>
#include <cutrace/sinks/common/arguments.hpp>
#include <cutrace/sinks/common/json_membership.hpp>
#include <cutrace/sinks/common/json_trace.hpp>
#include <cutrace/sinks/common/kineto_names.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// The document around the events of a Chrome JSON trace: Kineto's keys, and cutrace's own, which begin with "cutrace".

/// From the first brace to before "traceEvents".
inline std::string chrome_head(const trace_info& info) {
  // HTA finds the rank with a regular expression that wants white space after the colon, early in the file.
  std::string head = "{\n\"schemaVersion\": 1,\n\"distributedInfo\": {\"rank\": ";
  head += std::to_string(info.rank < 0 ? 0 : info.rank);
  head += ", \"world_size\": " + std::to_string(info.world_size <= 0 ? 1 : info.world_size);
  head += "},\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": ";
  // UTC of trace time 0: Kineto's readers add it to each ts.
  head += std::to_string(static_cast<std::int64_t>(info.start.realtime_ns) - info.start.trace_ns);
  head += ",\n\"cutraceInfo\": ";
  json_text json;
  json.begin_object();
  info_fields(json, info);
  json.end_object();
  return head.append(json.view()).append(",\n");
}

/// From behind the last event to the end. `devices`: a JSON object of each device; `summary`: a JSON object. Of `path`
/// the file's name alone: the folder's may say who made the trace.
inline std::string chrome_tail(const std::map<std::uint32_t, std::string>& devices, const std::string& summary,
                               const std::string& path) {
  std::string tail = "\n],\n\"deviceProperties\": [";
  for (const auto& d : devices) tail += (d.first == devices.begin()->first ? "\n" : ",\n") + d.second;
  tail.append("\n],\n\"cutraceSummary\": ").append(summary);
  json_text name;
  name.value(std::string_view(path).substr(path.rfind('/') + 1));  // npos + 1 is 0
  return tail.append(",\n\"traceName\": ").append(name.view()).append("\n}\n");
}

}  // namespace detail
CUTRACE_END_NAMESPACE

CUTRACE_BEGIN_NAMESPACE

class chrome_sink : public sink {
 public:
  /// `path`: %p process id, %h host name, "-" standard output; compressed where it ends in ".gz". `open` creates the
  /// file, mode 0600.
  explicit chrome_sink(std::string path = "cutrace-%h-%p.json", const file_limits& limits = {})
      : path_(std::move(path)), limits_(limits) {}

  const char* name() const noexcept override { return "chrome"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }
  const std::string& path() const noexcept { return file_.path(); }

  void open(const trace_info& info) override {
    file_.open(path_.c_str(), detail::publish::at_close, limits_);
    process_id_ = info.process_id;
    rows_.name_process(info.process_id, detail::view_of(info.process_name));
    head_ = detail::chrome_head(info);
    newest_ns_ = info.start.trace_ns;
    begin_part();
  }

  void write(event_view events) override {
    for (const event& e : events) {
      if (CUTRACE_UNLIKELY(file_.is_full(out_.size()))) {
        file_.leave_out(1);
        continue;
      }
      write_event(e);
      file_.event_ends(out_.size());
      if (CUTRACE_UNLIKELY(out_.size() >= full)) out_.drop_front(file_.write_blocks(out_.view()));
      if (CUTRACE_UNLIKELY(file_.part_is_full(out_.size()) && !file_.is_full(out_.size()))) next_part(e.end_ns);
    }
    if (file_.has_parts() && events.size != 0) newest_ns_ = events.data[events.size - 1].end_ns;
  }

  std::uint64_t left_out() const noexcept override { return file_.left_out(); }
  const char* left_out_because() const noexcept override { return file_.left_out_because(); }
  std::uint64_t arrived() const noexcept override { return file_.arrived(); }

  void flush() override {
    write_out();
    if (!empty() && file_.part_is_old()) next_part(newest_ns_);
    file_.flush();
  }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // it failed before and said so
    json_.begin_object();
    detail::summary_fields(json_, summary);
    json_.field("overlapping_slices", rows_.overlapping());
    end_part(summary.stop.trace_ns);
  }

 private:
  void begin_part() {
    out_.append(head_);
    if (file_.has_parts()) out_.append("\"cutracePart\": " + std::to_string(file_.part()) + ",\n");
    out_.append("\"traceEvents\": [\n");
    json_.clear();
    begun_at_ = file_.written() + out_.size();
  }
  bool empty() const noexcept { return file_.written() + out_.size() == begun_at_; }

  /// Completes the document. The fields of its summary stand in json_.
  CUTRACE_NOINLINE void end_part(std::int64_t ts_ns) {
    json_.end_object();
    const std::string summary(json_.view());
    json_.clear();
    rows_.write_names(json_, [this] { end_item(); });
    write_window_end(ts_ns);
    out_.append(detail::chrome_tail(device_properties_, summary, file_.path()));
    write_out();
    file_.close();
  }

  /// In the next part rows keep their numbers and names, unless there are no more rows to be had: most are then those
  /// of threads that have ended. Totals stand in the last part only.
  CUTRACE_NOINLINE void next_part(std::int64_t ts_ns) {
    json_.begin_object();
    json_.field("next", file_.next_name());
    end_part(ts_ns);
    file_.next_part();
    if (rows_.full()) {
      rows_.forget();
      inner_calls_.clear();
    }
    begin_part();
  }

  static constexpr std::size_t device_limit = 1024;
  /// The buffer stays in the second level of the processor's cache; see output_file::write_blocks for its size.
  static constexpr std::size_t full = 2 * detail::output_file::block;

  CUTRACE_INLINE void write_event(const event& e) {
    switch (e.kind) {
      case event_kind::process:
        return rows_.name_process(e.process_id, detail::view_of(e.name));
      case event_kind::thread:
        return rows_.name_thread(e.process_id, e.thread_id, detail::view_of(e.name));
      case event_kind::device:
        return describe_device(e);
      case event_kind::context:
      case event_kind::stream:
      case event_kind::other:
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
      default:
        return write_host(e);
    }
  }

  static std::int64_t clamped_end(const event& e) noexcept { return e.end_ns < e.start_ns ? e.start_ns : e.end_ns; }

  /// An open slice at the end of a buffer.
  struct open_slice {
    char* to;             ///< where its args go on
    std::string_view ts;  ///< its time, as text in the buffer
  };
  /// `more`: room for the characters that the caller will write
  CUTRACE_INLINE open_slice begin_slice(const event& e, const detail::row_place& at, std::size_t more) {
    out_.append("{\"ph\":\"X\",\"cat\":\"");
    out_.append(detail::chrome_category(e));
    out_.append("\",\"name\":\"");
    detail::append_escaped(out_, detail::chrome_name(e, name_));
    out_.append("\"");
    char* const ts = detail::put_text(out_.room(at.text.size() + slice_room + more), at.text);
    char* to = detail::put_microseconds(ts, e.start_ns);
    const std::string_view shown(ts, static_cast<std::size_t>(to - ts));
    to = detail::put_microseconds(detail::put_literal(to, ",\"dur\":"), detail::shown_duration_ns(e));
    return {detail::put_literal(to, ",\"args\":{"), shown};
  }
  static char* end_slice(char* to) noexcept { return detail::put_literal(to, "}},\n"); }
  static constexpr std::size_t slice_room = 2 * detail::microseconds_room + 32;

  void write_host(const event& e) {
    const bool is_stage = e.kind == event_kind::stage;
    const detail::host_row_key row = detail::host_row_of(e);
    const std::uint64_t owner = is_stage ? e.stage.parent : e.stage_id;
    const detail::row_place at = rows_.host(row, e.process_id, e.start_ns, clamped_end(e), owner);
    const std::string_view stage = is_stage ? stages_.fields_of_stage(e) : stages_.fields(e);
    // Nothing here for a marker's stage: put_stage_args writes its fields, faster, as such stages are frequent.
    if (!is_stage)
      detail::with_field_list(e.kind, [&](const auto& list) { detail::write_fields(json_, e, list, "arguments"); });
    else if (e.stage.origin != stage_origin::marker)
      detail::write_fields(json_, e, detail::origin_fields);
    const std::string_view own = json_.view();
    char* to = begin_slice(e, at, own.size() + detail::stage_args_room + detail::common_args_room + stage.size()).to;
    if (is_stage) to = detail::put_stage_args(to, e, row.kind == detail::row_kind::spans);
    if (!own.empty()) to = detail::put_text(detail::put_separator(to), own);
    out_.commit(end_slice(detail::put_common_args(to, e, stage)));
    json_.clear();
  }

  void write_gpu(const event& e) {
    const std::int64_t end_ns = clamped_end(e);
    detail::row_kind kind = detail::row_kind::stream;
    std::uint64_t row = e.stream;
    if (e.kind == event_kind::sync) {
      const bool whole = e.sync.what == sync_kind::context || detail::is_no_stream(e.stream);
      kind = whole ? detail::row_kind::context_sync : detail::row_kind::stream_sync;
      if (whole) row = e.context;
    }
    const detail::row_place at = rows_.gpu(kind, e.device, row, e.start_ns, end_ns);
    const std::string_view stage = stages_.fields(e), capture = stages_.capture(e);
    const open_slice slice = begin_slice(
        e, at, detail::gpu_args_room + detail::common_args_room + stage.size() + capture.size() + flow_room(at));
    char* to = detail::put_gpu_args(slice.to, e, at.base_tid, devices_, process_id_);
    if (!capture.empty()) to = detail::put_text(detail::put_literal(to, ","), capture);
    to = end_slice(detail::put_common_args(to, e, stage));
    if (e.correlation_id != 0 && detail::knows_call(e) &&
        analysis::arrow_of_call(e.call_name) != analysis::call_arrow::none) {
      // Viewers drop an arrow that ends before it begins; one that ends outside of its slice binds to another slice.
      if (e.start_ns >= e.call_start_ns) {
        to = put_arrival(to, e.correlation_id, at, slice.ts);
      } else if (e.call_start_ns < end_ns) {
        char moved[detail::microseconds_room];
        const char* const moved_end = detail::put_microseconds(moved, e.call_start_ns);
        to =
            put_arrival(to, e.correlation_id, at, std::string_view(moved, static_cast<std::size_t>(moved_end - moved)));
      }
    }
    out_.commit(to);
  }

  void write_api(const event& e) {
    const detail::row_place at =
        rows_.host({detail::row_kind::thread, e.thread_id}, e.process_id, e.start_ns, clamped_end(e), e.stage_id);
    // A runtime call and the driver call in it have one correlation id. Only the inner one, which ends first, is
    // written with it, or readers would count the launch twice.
    if (at.row >= inner_calls_.size()) inner_calls_.resize(at.row + 1);
    std::uint64_t& inner = inner_calls_[at.row];
    const std::uint64_t correlation = e.api.runtime_api && e.correlation_id == inner ? 0 : e.correlation_id;
    inner = e.api.runtime_api ? 0 : e.correlation_id;

    const std::string_view stage = stages_.fields(e);
    const open_slice slice =
        begin_slice(e, at, detail::api_args_room(e.api) + detail::common_args_room + stage.size() + 64 + flow_room(at));
    char* to = detail::put_common_args(detail::put_api_args(slice.to, e.api), e, stage);
    if (correlation != 0) to = detail::put_field(to, ",\"correlation\":", correlation);
    to = end_slice(to);
    if (correlation != 0 && analysis::arrow_of_call(e.name) != analysis::call_arrow::none) {
      to = put_flow(detail::put_literal(to, "{\"ph\":\"s\",\"id\":"), correlation, at, slice.ts);
      to = detail::put_literal(to, "},\n");
    }
    out_.commit(to);
  }

  static std::size_t flow_room(const detail::row_place& at) noexcept { return at.text.size() + 128; }
  static char* put_arrival(char* to, std::uint64_t id, const detail::row_place& at, std::string_view ts) noexcept {
    to = put_flow(detail::put_literal(to, "{\"ph\":\"f\",\"id\":"), id, at, ts);
    return detail::put_literal(to, ",\"bp\":\"e\"},\n");
  }
  static char* put_flow(char* to, std::uint64_t id, const detail::row_place& at, std::string_view ts) noexcept {
    to = detail::put_text(detail::put_text(detail::put_decimal(to, id), at.text), ts);
    return detail::put_literal(to, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
  }

  void begin_point(const char* phase, std::string_view name, std::uint32_t pid, std::int64_t ts_ns) {
    json_.begin_object();
    json_.field("ph", phase);
    json_.field("name", name);
    json_.field("pid", pid);
    json_.key("ts");
    json_.microseconds(ts_ns);
  }

  void end_point() {
    json_.end_object();
    json_.end_object();
    end_item();
  }

  void write_counter(const event& e) {
    begin_point("C", detail::view_of(e.name), detail::chrome_rows::host_pid(e.process_id), e.start_ns);
    json_.key("args");
    json_.begin_object();
    json_.field("value", e.counter.value);
    end_point();
  }

  void write_instant(const event& e) {
    const bool on_gpu = e.is_cuda_event();
    const bool global = e.kind == event_kind::loss || (e.thread_id == 0 && !on_gpu);
    begin_point("i", detail::chrome_name(e, name_),
                on_gpu ? detail::chrome_rows::gpu_pid(e.device) : detail::chrome_rows::host_pid(e.process_id),
                e.start_ns);
    // An instant takes no time: it shares the first lane of its thread or stream with whatever is open there.
    const std::uint32_t tid =
        on_gpu ? rows_.stream_tid(e.device, e.stream) : rows_.thread_tid(e.process_id, e.thread_id);
    json_.field("tid", tid);
    json_.field("cat", detail::chrome_category(e));
    json_.field("s", global ? "g" : "t");
    json_.key("args");
    json_.begin_object();
    if (e.kind == event_kind::loss) json_.field("count", e.loss.count);
    if (e.kind == event_kind::mark) detail::write_fields(json_, e, detail::origin_fields);
    if (on_gpu) write_place(e, tid);
    if (e.kind == event_kind::memory) {
      json_.field("device", e.device);
      json_.key("address");
      json_.hex(e.memory.address);
      json_.field("bytes", e.memory.bytes);
      if (analysis::in_host_memory(e)) json_.field("memory", to_string(e.memory.memory));
    }
    stages_.write(json_, e);
    detail::flag(json_, "late", e.late);
    detail::flag(json_, "skewed", e.skewed);
    if (e.end_ns < e.start_ns) json_.field("ended_before_start_ns", detail::difference_ns(e.start_ns, e.end_ns));
    end_point();
  }

  void write_place(const event& e, std::uint32_t tid) {
    json_.field("device", e.device);
    json_.field("context", e.context);
    if (e.process_id != process_id_) json_.field("process", e.process_id);
    json_.field("stream", tid);
    if (tid != e.stream) json_.field("cuda_stream", e.stream);
    if (e.correlation_id != 0) json_.field("correlation", e.correlation_id);
    if (e.joined != attribution::by_call) json_.field("attribution", to_string(e.joined));
  }

  /// Kineto's mark of the end of the recording: the last item of a part's list of events.
  void write_window_end(std::int64_t ts_ns) {
    const std::uint32_t pid = detail::chrome_rows::host_pid(process_id_);
    begin_point("i", "Record Window End", pid, ts_ns);
    json_.field("tid", pid);
    json_.field("s", "g");
    json_.end_object();
    out_.append(json_.view());
    json_.clear();
  }

  void describe_device(const event& e) {
    rows_.name_device(e.device, detail::view_of(e.name));
    detail::json_text properties;
    detail::device_properties(properties, e);
    device_properties_[e.device] = properties.view();
    if (devices_.size() < device_limit) devices_[e.device] = e.device_;
  }

  /// Writes the object that stands in json_.
  void end_item() {
    out_.append(json_.view());
    out_.append(",\n");
    json_.clear();
  }

  void write_out() {
    file_.write(out_.view());
    out_.clear();
  }

  std::string path_;
  file_limits limits_;
  detail::trace_file file_;
  std::string head_;            ///< text before the events of each part
  std::uint64_t begun_at_ = 0;  ///< bytes before the first event of this part
  std::int64_t newest_ns_ = 0;  ///< end of the last event, kept where there are parts
  detail::text_buffer out_;     ///< what is to be written to the file
  detail::json_text json_;      ///< an object, or its fields, until they are in `out_`
  detail::membership_fields stages_;
  detail::chrome_rows rows_;
  std::vector<std::uint64_t> inner_calls_;  ///< by number of the row: correlation id of its newest driver call
  std::map<std::uint32_t, device_data> devices_;
  std::map<std::uint32_t, std::string> device_properties_;  ///< objects of the tail that ends each part
  std::string name_;                                        ///< room for a name that is made here
  std::uint32_t process_id_ = 0;
};

CUTRACE_END_NAMESPACE
