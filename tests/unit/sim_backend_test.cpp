// SPDX-License-Identifier: Apache-2.0
// The simulated GPU as a backend: what its calls report to an event writer, with and without a session.
#include <doctest/doctest.h>

#include <atomic>
#include <cutrace/sim/sim_backend.hpp>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sim_backend_test {

namespace {

using cutrace::event_kind;
using cutrace::sim::status;

/// Keeps everything. Its clock has an origin and a rate of its own: ticks are half nanoseconds.
class fake_writer final : public cutrace::event_writer {
 public:
  struct exit_seen {
    std::string name;
    cutrace::api_call call;
    std::vector<std::uint64_t> words;
  };
  std::uint64_t ticks() const noexcept override { return (cutrace::clock::monotonic_ns() - origin) * 2; }
  std::uint64_t raw_ns(std::uint64_t t) const noexcept override { return t / 2; }
  void name_function(std::uint32_t id, bool, const cutrace::function_info& f) noexcept override { names[id] = f.name; }
  std::uint64_t enter(std::uint32_t, std::uint32_t correlation, std::uint64_t, bool work) noexcept override {
    const std::lock_guard<std::mutex> hold(lock);
    if (work) entered.push_back(correlation);
    return 77;
  }
  void exit(const cutrace::api_call& c) noexcept override {
    const std::lock_guard<std::mutex> hold(lock);
    exits.push_back({names[c.function], c, {c.words, c.words + c.word_count}});
  }
  void gpu(const cutrace::gpu_work& w) noexcept override {
    const std::lock_guard<std::mutex> hold(lock);
    works.push_back(w);
    reported_at.push_back(raw_ns(ticks()));
  }
  bool submit(const cutrace::activity_buffer&) noexcept override { return false; }
  void describe(const cutrace::event& e) noexcept override {
    const std::lock_guard<std::mutex> hold(lock);
    descriptions.push_back(e.kind);
  }
  void count_loss(cutrace::loss_cause c, std::uint64_t n) noexcept override { losses[c] += n; }
  void report(const char*, const char*) noexcept override {}

  std::vector<cutrace::gpu_work> of(event_kind k) const {
    std::vector<cutrace::gpu_work> all;
    for (const auto& w : works)
      if (w.kind == k) all.push_back(w);
    return all;
  }

  std::uint64_t origin = cutrace::clock::monotonic_ns() - 123456789;
  std::mutex lock;
  std::map<std::uint32_t, std::string> names;
  std::vector<std::uint32_t> entered;
  std::vector<exit_seen> exits;
  std::vector<cutrace::gpu_work> works;
  std::vector<std::uint64_t> reported_at;
  std::vector<event_kind> descriptions;
  std::map<cutrace::loss_cause, std::uint64_t> losses;
};

}  // namespace

TEST_CASE("sim backend: calls and GPU work share a correlation id and a clock") {
  cutrace::sim::gpu gpu;
  cutrace::sim::sim_backend backend(gpu);
  fake_writer writer;
  CHECK(std::string(backend.name()) == "sim");
  CHECK(backend.start(writer).active);
  CHECK(writer.descriptions == std::vector<event_kind>{event_kind::device, event_kind::context, event_kind::stream});
  auto& s = gpu.create_stream();
  const std::uint64_t before = writer.raw_ns(writer.ticks());
  CHECK(gpu.launch(s, "gemm", {3, 4, 5}, {6, 7, 8}, 50000, 9) == status::ok);
  CHECK(gpu.synchronize(s) == status::ok);
  CHECK(backend.flush(100));
  const std::uint64_t after = writer.raw_ns(writer.ticks());
  REQUIRE(writer.exits.size() == 3);
  const auto& call = writer.exits[1];
  CHECK(call.name == "cuLaunchKernel");
  CHECK(call.call.result == 0);
  CHECK(call.call.stage == 77);
  CHECK(call.call.end_ticks >= call.call.begin_ticks);
  REQUIRE(call.words.size() == 9);
  CHECK(call.words[3] == 5);
  CHECK(call.words[4] == 6);
  CHECK(call.words[7] == 9);
  const auto kernels = writer.of(event_kind::kernel);
  REQUIRE(kernels.size() == 1);
  CHECK(std::string(kernels[0].name) == "gemm");
  CHECK(kernels[0].correlation == call.call.correlation);
  CHECK(kernels[0].stream == s.id);
  CHECK(kernels[0].grid[1] == 4);
  CHECK(kernels[0].block[2] == 8);
  CHECK(kernels[0].shared_bytes == 9);
  CHECK_FALSE(kernels[0].times_are_ticks);
  CHECK(kernels[0].end - kernels[0].begin == 50000);
  CHECK(kernels[0].begin > before);
  CHECK(kernels[0].end <= after);
  CHECK(writer.of(event_kind::sync).size() == 1);
  CHECK(backend.stop(1000));
  CHECK(backend.stop(1000));
}

TEST_CASE("sim backend: copies, sets and memory carry bytes, kinds and results") {
  cutrace::sim::options o;
  o.memory_bytes = 1 << 20;
  cutrace::sim::gpu gpu(o);
  cutrace::sim::sim_backend backend(gpu);
  fake_writer writer;
  backend.start(writer);
  std::vector<unsigned char> in(1000, 7), out(1000, 0);
  CHECK(gpu.allocate(2 << 20) == 0);
  const std::uint64_t d = gpu.allocate(1000);
  REQUIRE(d != 0);
  auto& s = gpu.create_stream();
  CHECK(gpu.copy_in(s, d, in.data(), 1000) == status::ok);
  CHECK(gpu.set(s, d, 1, 10) == status::ok);
  CHECK(gpu.synchronize() == status::ok);
  CHECK(gpu.copy_out(out.data(), d, 1000) == status::ok);
  CHECK(out[9] == 1);
  CHECK(out[10] == 7);
  CHECK(gpu.copy_in(s, d, in.data(), 1001) == status::invalid_value);
  CHECK(gpu.free(d) == status::ok);
  backend.stop(1000);
  CHECK(writer.exits[0].name == "cuMemAlloc_v2");
  CHECK(writer.exits[0].call.result == 2);
  std::vector<std::string> names;
  for (const auto& e : writer.exits) names.push_back(e.name);
  CHECK(names == std::vector<std::string>{"cuMemAlloc_v2", "cuMemAlloc_v2", "cuStreamCreateWithPriority",
                                          "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuCtxSynchronize",
                                          "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemFree_v2"});
  CHECK(writer.exits[7].call.result == 1);
  const auto copies = writer.of(event_kind::memcpy);
  REQUIRE(copies.size() == 2);
  CHECK(copies[0].direction == cutrace::copy_direction::host_to_device);
  CHECK(copies[0].source == cutrace::memory_kind::pageable);
  CHECK(copies[0].destination == cutrace::memory_kind::device);
  CHECK(copies[0].bytes == 1000);
  CHECK(copies[1].direction == cutrace::copy_direction::device_to_host);
  CHECK(copies[1].correlation == writer.exits[6].call.correlation);
  REQUIRE(writer.of(event_kind::memset).size() == 1);
  CHECK(writer.of(event_kind::memset)[0].bytes == 10);
}

TEST_CASE("sim backend: nodes of a graph launch share its correlation id") {
  cutrace::sim::gpu gpu;
  cutrace::sim::sim_backend backend(gpu);
  fake_writer writer;
  backend.start(writer);
  auto& s = gpu.create_stream();
  CHECK(gpu.begin_capture(s) == status::ok);
  for (int i = 0; i < 5; ++i) CHECK(gpu.launch(s, "layer", {1, 1, 1}, {32, 1, 1}, 1000) == status::ok);
  cutrace::sim::graph* g = gpu.end_capture(s);
  REQUIRE(g != nullptr);
  cutrace::sim::graph_exec* e = gpu.instantiate(*g);
  CHECK(gpu.launch(*e, s) == status::ok);
  CHECK(gpu.launch(*e, s) == status::ok);
  CHECK(gpu.synchronize(s) == status::ok);
  backend.stop(1000);
  const auto kernels = writer.of(event_kind::kernel);
  REQUIRE(kernels.size() == 10);
  CHECK(kernels[0].correlation == kernels[4].correlation);
  CHECK(kernels[5].correlation != kernels[4].correlation);
  CHECK(kernels[0].graph_id == e->id());
  CHECK(kernels[0].graph_node_id != kernels[1].graph_node_id);
  CHECK(kernels[0].graph_node_id == kernels[5].graph_node_id);
  for (std::size_t i = 1; i < kernels.size(); ++i) CHECK(kernels[i].begin >= kernels[i - 1].end);
}

TEST_CASE("sim backend: nothing is reported before it has ended, what runs at the end is unfinished") {
  cutrace::sim::gpu gpu;
  cutrace::sim::sim_backend backend(gpu);
  fake_writer writer;
  backend.start(writer);
  auto& s = gpu.create_stream();
  gpu.launch(s, "short", {1, 1, 1}, {1, 1, 1}, 1000);
  gpu.launch(s, "endless", {1, 1, 1}, {1, 1, 1}, 3600u * 1000000000ull);
  CHECK_FALSE(backend.stop(50));
  REQUIRE(writer.works.size() == 2);
  CHECK(std::string(writer.works[0].name) == "short");
  CHECK(writer.reported_at[0] >= writer.works[0].end);
  CHECK(std::string(writer.works[1].name) == "endless");
  CHECK((writer.works[1].begin == 0 && writer.works[1].end == 0));
  CHECK(writer.losses.empty());
}

TEST_CASE("sim backend: works without a session, across sessions, and while paused") {
  cutrace::sim::gpu gpu;
  auto& s = gpu.create_stream();
  CHECK(gpu.launch(s, "before", {1, 1, 1}, {1, 1, 1}, 1000) == status::ok);
  CHECK(gpu.synchronize(s) == status::ok);
  std::uint64_t last = gpu.model().now();
  for (int session = 0; session < 3; ++session) {
    fake_writer writer;
    cutrace::sim::sim_backend backend(gpu);
    backend.start(writer);
    CHECK(gpu.model().now() >= last);  // the clock never goes back when it changes its source
    last = gpu.model().now();
    CHECK(gpu.launch(s, "in", {1, 1, 1}, {1, 1, 1}, 1000) == status::ok);
    backend.pause();
    CHECK(gpu.launch(s, "paused", {1, 1, 1}, {1, 1, 1}, 1000) == status::ok);
    backend.resume();
    CHECK(gpu.synchronize(s) == status::ok);
    CHECK(backend.stop(1000));
    REQUIRE(writer.of(event_kind::kernel).size() == 1);
    CHECK(std::string(writer.of(event_kind::kernel)[0].name) == "in");
    CHECK(gpu.model().now() >= last);
  }
  CHECK(gpu.launch(s, "after", {1, 1, 1}, {1, 1, 1}, 1000) == status::ok);
  CHECK(gpu.synchronize() == status::ok);
}

TEST_CASE("sim backend: threads launch while sessions come and go") {
  cutrace::sim::gpu gpu;
  std::atomic<bool> go{true};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      auto& s = gpu.create_stream();
      while (go) {
        if (gpu.launch(s, "k", {1, 1, 1}, {1, 1, 1}, 500) != status::ok) ++failures;
        if (gpu.synchronize(s) != status::ok) ++failures;
      }
    });
  for (int i = 0; i < 20; ++i) {
    fake_writer writer;
    cutrace::sim::sim_backend backend(gpu);
    backend.start(writer);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(backend.stop(1000));
    const std::size_t exits = writer.exits.size(), works = writer.works.size();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(writer.exits.size() == exits);  // nothing comes after stop
    CHECK(writer.works.size() == works);
  }
  go = false;
  for (auto& t : threads) t.join();
  CHECK(failures == 0);
}

}  // namespace sim_backend_test
