// SPDX-License-Identifier: Apache-2.0
// The Perfetto sink: each event is found again by a reader that replays the packets as trace_processor does, a file
// that is cut anywhere loses nothing but the packet that was cut, and protoc knows every field.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cutrace/base/clocks.hpp>
#include <cutrace/base/process_info.hpp>
#include <cutrace/sinks/perfetto.hpp>
#include <filesystem>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "contract/sink_contract.hpp"
#include "support/gzip_file.hpp"
#include "support/perfetto_trace.hpp"
#include "support/sanitized.hpp"

namespace perfetto_sink_test {

namespace {

using cutrace::event_kind;
using perfetto_trace::trace;

/// What a viewer shows for a time of the session: nanoseconds of CLOCK_MONOTONIC, within what readers hold.
std::uint64_t shown_ns(std::int64_t session_ns) {
  constexpr std::int64_t anchor = 5000000000;  // sample::info's
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (session_ns > most - anchor) return static_cast<std::uint64_t>(most);
  return session_ns < -anchor ? 0 : static_cast<std::uint64_t>(session_ns + anchor);
}

std::string shown_name(const cutrace::event& e) {
  std::string name;
  cutrace::detail::slice_names::render(name, e);
  return name;
}

bool is_host_slice(const cutrace::event& e) {
  switch (e.kind) {
    case event_kind::stage:
    case event_kind::api:
    case event_kind::sync:
    case event_kind::overhead:
    case event_kind::jit:
    case event_kind::nvtx:
    case event_kind::ioctl:
    case event_kind::window:
    case event_kind::system:
    case event_kind::alarm:
      return true;
    default:
      return false;
  }
}

using found = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // name, begin, end

/// All events, with their names and times, no more and no less.
void check_events(const trace& t, const sink_contract::events& all) {
  std::multiset<found> slices, gpu, instants;
  std::size_t losses = 0, counters = 0;
  for (const cutrace::event& e : all) {
    const std::uint64_t start = shown_ns(e.start_ns), end = std::max(start, shown_ns(e.end_ns));
    if (is_host_slice(e)) slices.insert({shown_name(e), start, end});
    if (e.is_gpu_work() || e.is_cuda_event()) gpu.insert({shown_name(e), start, end});
    if (e.kind == event_kind::mark && !e.is_cuda_event()) instants.insert({shown_name(e), start, start});
    if (e.kind == event_kind::memory) instants.insert({to_string(e.memory.operation), start, start});
    if (e.kind == event_kind::loss) instants.insert({"records lost", start, start});
    losses += e.kind == event_kind::loss ? 1 : 0;
    counters += e.kind == event_kind::counter ? 1 : 0;
  }
  instants.insert({"trace begins", shown_ns(0), shown_ns(0)});
  instants.insert({"trace ends", shown_ns(200000), shown_ns(200000)});
  std::multiset<found> slices_read, gpu_read, instants_read;
  for (const auto& s : t.slices) slices_read.insert({s.name, s.start_ns, s.end_ns});
  for (const auto& g : t.gpu_slices) gpu_read.insert({g.name, g.start_ns, g.start_ns + g.duration_ns});
  for (const auto& i : t.instants) instants_read.insert({i.name, i.ns, i.ns});
  CHECK(slices_read == slices);
  CHECK(gpu_read == gpu);
  CHECK(instants_read == instants);
  CHECK(t.counters.size() == counters);
  CHECK(t.dropped == losses);
  CHECK(t.unclosed == 0);
}

void check_trace(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  const std::string file = text_of_file(path);
  const trace t(file);
  CHECK(t.bytes == file.size());
  CHECK(t.snapshots.size() == 2);  // the sample's clocks are not this machine's, so none between begin and end
  check_events(t, all);
}

/// A whole life of a sink.
void write_trace(cutrace::sink& to, const std::vector<cutrace::event>& all, cutrace::trace_info info = sample::info()) {
  to.open(info);
  to.write(sample::view(all));
  to.close(sample::summary(all.size()));
}

std::string written(const std::vector<cutrace::event>& all, const cutrace::perfetto_options& options = {},
                    cutrace::trace_info info = sample::info()) {
  const temporary_folder folder;
  cutrace::perfetto_sink sink(folder.file("t.pftrace"), options);
  write_trace(sink, all, info);
  return content_of(folder.file("t.pftrace"));
}
trace trace_of(const std::vector<cutrace::event>& all, const cutrace::perfetto_options& options = {}) {
  return trace(written(all, options));
}

template <class Slices>
const typename Slices::value_type& named(const Slices& all, const std::string& name) {
  for (const auto& s : all) {
    if (s.name == name) return s;
  }
  FAIL("nothing is called " << name);
  return all.front();
}
std::string value_of(const perfetto_trace::notes& args, const std::string& key) {
  const auto at = args.find(key);
  return at == args.end() ? "(none)" : at->second;
}

/// A busy trace of calls, kernels and stages on some threads and streams, as it is delivered: by end, a few late ones.
std::vector<cutrace::event> random_run(unsigned seed, std::size_t count, std::int64_t span_ns, bool touching) {
  static const char* const names[] = {"prefill", "decode", "layer", "cuLaunchKernel", "gemm", "attention"};
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random); };
  std::vector<cutrace::event> all;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t start = below(span_ns), end = start + below(touching ? 6 : span_ns / 8);
    if (touching && below(4) == 0) end = start;
    const std::uint64_t id = i + 1;
    const char* name = names[below(6)];
    switch (below(4)) {
      case 0:
        all.push_back(sample::stage(name, start, end, id));
        break;
      case 1:
        all.push_back(sample::kernel(name, start, end, id, static_cast<std::uint64_t>(7 + below(3))));
        break;
      default:
        all.push_back(sample::api(name, start, end, id));
        break;
    }
    all.back().thread_id = static_cast<std::uint32_t>(4242 + below(2));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
  for (std::size_t i = 0; i < count / 10; ++i) {  // some come late
    std::swap(all[static_cast<std::size_t>(below(static_cast<std::int64_t>(count)))],
              all[static_cast<std::size_t>(below(static_cast<std::int64_t>(count)))]);
  }
  return all;
}

}  // namespace

TEST_CASE("perfetto sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::perfetto_sink(path)); };
  s.check = check_trace;
  sink_contract::check_sink_contract(s);
}

TEST_CASE("perfetto sink, compressed, keeps the contract of sinks") {
  sink_contract::subject s;
  s.make = [](const std::string& path) { return std::unique_ptr<cutrace::sink>(new cutrace::perfetto_sink(path)); };
  s.check = check_trace;
  s.extension = ".gz";
  sink_contract::check_sink_contract(s);
}

TEST_CASE("perfetto: each part can be read alone, and together they hold every event once") {
  std::vector<cutrace::event> all = {sample::device(0, "NVIDIA H200")};
  for (const cutrace::event& e : random_run(3, 6000, 1000000, false)) all.push_back(e);
  cutrace::perfetto_options options;
  options.file.rotate_bytes = 64 * 1024;
  const temporary_folder folder;
  cutrace::perfetto_sink sink(folder.file("t.pftrace"), options);
  write_trace(sink, all);
  std::multiset<found> slices, slices_read, gpu, gpu_read;
  for (const cutrace::event& e : all) {
    const found one{shown_name(e), shown_ns(e.start_ns), std::max(shown_ns(e.start_ns), shown_ns(e.end_ns))};
    if (is_host_slice(e)) slices.insert(one);
    if (e.is_gpu_work()) gpu.insert(one);
  }
  std::string together;
  std::size_t parts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) parts += entry.is_regular_file() ? 1 : 0;
  REQUIRE(parts > 3);
  for (std::size_t n = 1; n <= parts; ++n) {
    const std::string file = content_of(folder.file((n < 10 ? "t.000" : "t.00") + std::to_string(n) + ".pftrace"));
    together += file;
    const trace t(file);  // throws where an interning id is used that this part does not define
    CHECK(t.unclosed == 0);
    CHECK(t.bytes == file.size());
    CHECK(t.snapshots.size() >= 1);
    CHECK(t.gpus.size() == 1);
    for (const auto& s : t.slices) slices_read.insert({s.name, s.start_ns, s.end_ns});
    for (const auto& g : t.gpu_slices) gpu_read.insert({g.name, g.start_ns, g.start_ns + g.duration_ns});
    const auto has = [&](const char* what) {
      return std::any_of(t.instants.begin(), t.instants.end(), [&](const auto& i) { return i.name == what; });
    };
    CHECK(has("trace begins") == (n == 1));
    CHECK(has("part begins") == (n > 1));
    CHECK(has("part ends") == (n < parts));
    CHECK(has("trace ends") == (n == parts));
    if (n < parts) CHECK(file.size() < 66 * 1024);
  }
  CHECK(slices_read == slices);
  CHECK(gpu_read == gpu);
  CHECK(trace(together).slices.size() == slices.size());  // written one after the other they are one trace
}

TEST_CASE("perfetto: beyond its limit of bytes a file counts what it leaves out, and has its end") {
  const std::vector<cutrace::event> all = random_run(5, 4000, 1000000, false);
  cutrace::perfetto_options options;
  options.file.max_bytes = 32 * 1024;
  const temporary_folder folder;
  cutrace::perfetto_sink sink(folder.file("t.pftrace"), options);
  write_trace(sink, all);
  const std::string file = content_of(folder.file("t.pftrace"));
  const trace t(file);
  CHECK(file.size() < 40 * 1024);
  CHECK(t.slices.size() + t.gpu_slices.size() + sink.left_out() == all.size());
  CHECK(sink.left_out() > 1000);
  CHECK(named(t.instants, "trace ends").ns == shown_ns(200000));
}

TEST_CASE("perfetto: arguments on request, also those that are hard to write") {
  cutrace::perfetto_options options;
  options.arguments = true;
  const trace t = trace_of(sample::server_run(), options);
  const auto& copy = named(t.slices, "cuMemcpyHtoDAsync");
  CHECK(value_of(copy.args, "ByteCount") == "4000000");
  CHECK(value_of(copy.args, "dstDevice") == std::to_string(0x7f32a4000000u));
  const std::vector<cutrace::event> hostile_names = hostile::named_events();
  check_events(trace_of(hostile_names, options), hostile_names);
  const trace extreme = trace_of(hostile::extreme_events(), options);
  CHECK(value_of(named(extreme.slices, "arguments").args, "m") ==
        std::to_string(std::numeric_limits<std::int64_t>::min()));
  CHECK(value_of(named(extreme.slices, "arguments").args, "arg1") == std::to_string(~std::uint64_t{0}));
  CHECK(value_of(named(trace_of(sample::server_run()).slices, "cuMemcpyHtoDAsync").args, "ByteCount") == "(none)");
}

TEST_CASE("perfetto: names of 100 KB are cut, what fails is said with its result") {
  const std::string longest(100000, 'x');
  const trace t = trace_of({sample::stage(longest, 0, 10, 1), sample::kernel(longest, 5, 9, 1)});
  REQUIRE(t.slices.size() == 1);
  CHECK(t.slices[0].name == std::string(8192, 'x') + "...");
  CHECK(t.gpu_slices.at(0).demangled.size() == 8195);
  cutrace::event failed = sample::api("cuMemAlloc", 0, 10, 1);
  failed.api.result = 2;
  failed.api.result_name = sample::text_of("CUDA_ERROR_OUT_OF_MEMORY");
  const trace f = trace_of({failed});
  CHECK(value_of(f.slices.at(0).args, "result") == "2");
  CHECK(value_of(f.slices.at(0).args, "result_name") == "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_CASE("perfetto: a kernel has queue and context, and its launch shape as fields and as arguments") {
  const trace t = trace_of(sample::server_run());
  const auto& gemm = named(t.gpu_slices, "gemm(float const*, float const*, float*, int)");
  CHECK(gemm.event_id == 3);
  CHECK(gemm.start_ns == 5000126000);
  CHECK(gemm.duration_ns == 12300);
  CHECK(gemm.stage == "Kernel");
  CHECK(gemm.category == 2);
  CHECK(gemm.queue == "Stream 7");
  CHECK(gemm.context == 1);
  CHECK(gemm.pid == 4242);
  CHECK(gemm.kernel == "_Z4gemmPKfS0_Pfi");
  CHECK(gemm.demangled == gemm.name);
  CHECK(gemm.arch == "sm_90");
  CHECK(gemm.grid == std::vector<std::uint32_t>{12, 1, 1});
  CHECK(gemm.block == std::vector<std::uint32_t>{256, 1, 1});
  CHECK(value_of(gemm.args, "grid_size") == "12");
  CHECK(value_of(gemm.args, "workgroup_size") == "256");
  CHECK(value_of(gemm.args, "thread_count") == "3072");
  CHECK(value_of(gemm.args, "registers_per_thread") == "64");
  CHECK(value_of(gemm.args, "shared_mem_static") == "1024");
  CHECK(value_of(gemm.args, "shared_mem_dynamic") == "32768");
  CHECK(value_of(gemm.args, "stage") == "prefill");
  CHECK(value_of(gemm.args, "request") == "17");
  const auto& copy = named(t.gpu_slices, "Memcpy HtoD (Pinned -> Device)");
  CHECK(copy.stage == "Memcpy");
  CHECK(copy.category == 0);
  CHECK(value_of(copy.args, "bytes") == "4000000");
  CHECK(value_of(copy.args, "async") == "1");
  CHECK(value_of(copy.args, "stage") == "prefill");
  CHECK(named(t.gpu_slices, "Memset (Device)").stage == "Memset");
  const auto& graph = named(t.gpu_slices, "CUDA graph 9");
  CHECK(graph.stage == "Graph");
  CHECK(value_of(graph.args, "graph_id") == "9");
  CHECK(value_of(graph.args, "requests") == "17, 18, chat-0007");
  CHECK(value_of(named(t.gpu_slices, "warm_up()").args, "attribution") == "no_callback");
  REQUIRE(t.gpus.size() == 1);
  CHECK(t.gpus[0].name == "NVIDIA H200");
  CHECK(t.gpus[0].vendor == "NVIDIA");
  CHECK(t.gpus[0].architecture == "sm_90");
  CHECK(t.gpus[0].uuid.size() == 16);
}

TEST_CASE("perfetto: arrows go from each launch to its work, and from the last work to the call that waits for it") {
  const trace t = trace_of(sample::server_run());
  std::set<std::uint64_t> work;
  for (const auto& g : t.gpu_slices) work.insert(g.event_id);
  std::size_t launches = 0;
  for (const auto& s : t.slices) {
    for (const std::uint64_t id : s.submits) CHECK(work.count(id) == 1);
    launches += s.submits.size();
  }
  CHECK(launches == 4);  // copy, launch, set, graph
  CHECK(named(t.slices, "cuGraphLaunch").submits == std::vector<std::uint64_t>{6});
  CHECK(named(t.slices, "cuMemAlloc").submits.empty());
  CHECK(named(t.slices, "cuStreamSynchronize").waits_for == std::vector<std::uint64_t>{4});
  // All nodes of a graph come from one launch.
  const trace nodes = trace_of({sample::api("cuGraphLaunch", 0, 100, 9), sample::kernel("a()", 200, 300, 9),
                                sample::kernel("b()", 300, 400, 9), sample::kernel("own", 400, 500, 0)});
  CHECK(nodes.gpu_slices[0].event_id == 9);
  CHECK(nodes.gpu_slices[1].event_id == 9);
  CHECK(nodes.gpu_slices[2].event_id > 0xFFFFFFFFFFu);
}

TEST_CASE("perfetto: processes, threads, stages and requests") {
  const trace t = trace_of(sample::server_run());
  const auto& prefill = named(t.slices, "prefill");
  CHECK(prefill.category == "stage");
  CHECK(value_of(prefill.args, "request") == "17");
  CHECK(prefill.depth == 0);
  const auto& launch = named(t.slices, "cuLaunchKernel");
  CHECK(launch.category == "cuda_driver");
  CHECK(launch.track == prefill.track);
  CHECK(launch.depth == 1);
  CHECK(value_of(named(t.slices, "decode").args, "requests") == "17, 18, chat-0007 and 37 more");
  const perfetto_trace::track& main_thread = t.tracks.at(prefill.track);
  CHECK(main_thread.tid == 4242);
  CHECK(main_thread.thread_name == "scheduler");
  CHECK(t.tracks.at(named(t.slices, "tokenize").track).thread_name == "worker");
  CHECK(t.tracks.at(named(t.slices, "recorded").track).name == "recorded windows");
  CHECK(t.tracks.at(named(t.slices, "Stream Sync").track).name == "GPU 0 stream 7 (sync)");
  bool process = false;
  for (const auto& one : t.tracks) process = process || one.second.process_name == "llm_server";
  CHECK(process);
  REQUIRE(t.counters.size() == 1);
  CHECK(t.counters[0].value == 3);
  CHECK(t.tracks.at(t.counters[0].track).name == "queue depth");
  CHECK(t.tracks.at(t.counters[0].track).counter);
}

TEST_CASE("perfetto: totals and losses stand at the end") {
  const trace t = trace_of(sample::server_run());
  const auto& end = named(t.instants, "trace ends");
  CHECK(value_of(end.args, "delivered") == std::to_string(sample::server_run().size()));
  CHECK(value_of(end.args, "lost_total") == "12");
  CHECK(value_of(end.args, "lost.chunk_full") == "12");
  CHECK(end.args.count("note") == 2);
  const auto& lost = named(t.instants, "records lost");
  CHECK(value_of(lost.args, "cause") == "chunk_full");
  CHECK(value_of(lost.args, "count") == "12");
  CHECK(t.dropped == 1);
  CHECK(value_of(named(t.instants, "trace begins").args, "rank") == "3");
}

TEST_CASE("perfetto: slices nest as they did, in any order of arrival, even where they touch") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const std::vector<cutrace::event> all = random_run(seed, 200, seed % 2 != 0 ? 60 : 100000, seed % 2 != 0);
    check_events(trace_of(all), all);
  }
}

TEST_CASE("perfetto: clocks are written while the trace runs, once in a while, and only of this machine") {
  const auto snapshots = [](cutrace::trace_info info) {
    const temporary_folder folder;
    cutrace::perfetto_sink sink(folder.file("t.pftrace"));
    info.start = cutrace::detail::read_anchor(0);
    info.start.monotonic_ns -= 5000000000u;  // so that the first flush is late enough
    sink.open(info);
    sink.flush();
    sink.flush();
    cutrace::trace_summary end = sample::summary(0);
    end.stop = cutrace::detail::read_anchor(0);
    sink.close(end);
    return trace(content_of(folder.file("t.pftrace"))).snapshots.size();
  };
  CHECK(snapshots(sample::info()) == 2);
  const std::string boot = cutrace::detail::read_small_file("/proc/sys/kernel/random/boot_id", 64);
  cutrace::trace_info own = sample::info();
  own.boot_id = boot.c_str();
  own.process_id = static_cast<std::uint32_t>(::getpid());
  CHECK(snapshots(own) == 3);
}

TEST_CASE("perfetto: a file cut at any byte holds every whole packet before the cut") {
  std::vector<cutrace::event> all = random_run(7, 500, 1000000, false);
  for (const cutrace::event& e : sample::server_run()) all.push_back(e);
  const std::string file = written(all);
  const trace whole(file);
  std::mt19937 random(11);
  // Packets by their ends, read as plain length-delimited fields.
  std::vector<std::size_t> ends;
  protozero::pbf_reader top(file.data(), file.size());
  while (top.next()) {
    const protozero::data_view p = top.get_view();
    ends.push_back(static_cast<std::size_t>(p.data() + p.size() - file.data()));
  }
  REQUIRE(ends.size() == whole.packets);
  for (int i = 0; i < (sanitized ? 60 : 1000); ++i) {
    const std::size_t cut = std::uniform_int_distribution<std::size_t>(0, file.size())(random);
    const std::size_t expected =
        static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin());
    const trace part(std::string_view(file).substr(0, cut));
    REQUIRE(part.packets == expected);
    REQUIRE(part.unclosed <= 1);  // the slice whose end was cut off
  }
}

TEST_CASE("perfetto: what was flushed can be read before the end") {
  const temporary_folder folder;
  cutrace::perfetto_sink sink(folder.file("t.pftrace"));
  sink.open(sample::info());
  const std::vector<cutrace::event> all = sample::server_run();
  sink.write(sample::view(all));
  sink.flush();
  CHECK(trace(content_of(folder.file("t.pftrace"))).gpu_slices.size() == 5);
}

TEST_CASE("perfetto: numbers of names start anew when there are too many, and nothing is lost") {
  const temporary_folder folder;
  static std::vector<std::string> names(70000);
  cutrace::perfetto_sink sink(folder.file("t.pftrace"));
  sink.open(sample::info());
  std::vector<cutrace::event> batch, all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = "stage " + std::to_string(i);
    const auto at = static_cast<std::int64_t>(10 * i);
    batch.push_back(sample::stage(names[i], at, at + 5, i + 1));
    batch.push_back(sample::kernel("gemm", at, at + 5, i + 1));
    if (batch.size() == 1000 || i + 1 == names.size()) {
      sink.write(sample::view(batch));
      all.insert(all.end(), batch.begin(), batch.end());
      batch.clear();
    }
  }
  sink.close(sample::summary(all.size()));
  const trace t(content_of(folder.file("t.pftrace")));
  CHECK(t.resets == 2);
  check_events(t, all);
}

TEST_CASE("perfetto: a host slice and a kernel stay small") {
  std::vector<cutrace::event> all;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const auto at = static_cast<std::int64_t>(i * 20000);
    all.push_back(sample::api("cuLaunchKernel", at, at + 3000, 100000 + i));
    all.push_back(
        sample::in_stage(sample::kernel("gemm(float const*)", at + 5000, at + 12300, 100000 + i), "prefill", 1));
  }
  const trace t = trace_of(all);
  std::size_t host = 0, gpu = 0;
  for (const auto& s : t.slices) host += s.bytes;
  for (const auto& g : t.gpu_slices) gpu += g.bytes;
  MESSAGE("bytes of a launch " << host / 10000 << ", of a kernel " << gpu / 10000);
  CHECK(host <= 40 * 10000);
  CHECK(gpu <= 75 * 10000);
}

TEST_CASE("perfetto: protoc decodes every packet, and knows every field") {
  if (std::system("command -v protoc >/dev/null 2>&1") != 0) {
    MESSAGE("skipped: no protoc (Debian: protobuf-compiler; scripts/setup installs it)");
    return;
  }
  const temporary_folder folder;
  std::vector<cutrace::event> all = sample::server_run();
  for (const cutrace::event& e : hostile::extreme_events()) all.push_back(e);
  for (const cutrace::event& e : hostile::named_events()) all.push_back(e);
  cutrace::perfetto_options options;
  options.arguments = true;
  const std::string file = written(all, options);
  std::ofstream(folder.file("t.pftrace"), std::ios::binary) << file;
  const std::string command = "protoc -I '" PROTO_FOLDER "' --decode=cutrace.test.Trace perfetto_min.proto < " +
                              folder.file("t.pftrace") + " > " + folder.file("text") + " 2> " + folder.file("errors");
  CHECK(std::system(command.c_str()) == 0);
  CHECK(content_of(folder.file("errors")) == "");
  std::istringstream text(content_of(folder.file("text")));
  std::size_t packets = 0, unknown = 0;
  for (std::string line; std::getline(text, line);) {
    packets += line == "packet {" ? 1 : 0;
    const std::size_t at = line.find_first_not_of(' ');
    if (at != std::string::npos && line[at] >= '0' && line[at] <= '9') ++unknown;
  }
  CHECK(packets == trace(file).packets);
  CHECK(unknown == 0);
}

}  // namespace perfetto_sink_test
