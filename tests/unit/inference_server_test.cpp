// SPDX-License-Identifier: Apache-2.0
// The inference server whole, with its kernels executed on the CPU: batching, cache slots, graphs, and its own counts.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../examples/inference_server/check.hpp"
#include "../../examples/inference_server/options.hpp"
#include "../../examples/inference_server/service.hpp"
#include "../support/host_gpu.hpp"

namespace inference_server_test {

namespace {

struct outcome {
  std::map<std::uint64_t, std::vector<int>> tokens;  ///< by request
  server::gpu_work work;
  server::service_counts counts;
  std::string line;  ///< "counted {...}"
};

server::options small_load() {
  server::options o;
  o.requests = 7;
  o.workers = 1;
  o.max_batch = 3;
  o.prompt_tokens = 6;
  o.new_tokens = 6;
  o.quiet = true;
  return o;
}

/// Two layers instead of four: the kernels run on the CPU here.
server::model small_model(const server::options& o) {
  server::model_config c;
  c.width = 32;
  c.hidden = 48;
  c.layers = 2;
  c.seed = o.seed;
  c.context = static_cast<int>(o.prompt_tokens + o.new_tokens);
  return server::model(c);
}

std::string counted_line(const server::gpu_work& work, const server::service_counts& counts) {
  char text[1024] = "";
  std::FILE* file = fmemopen(text, sizeof(text), "w");
  REQUIRE(file != nullptr);
  server::print(file, work, counts);
  std::fclose(file);
  return text;
}

outcome serve(const server::options& o) {
  test_support::host_gpu g;
  const server::model m = small_model(o);
  server::service s(g, m, o);
  server::submit_requests(s, o);
  s.finish();
  outcome out;
  for (const server::request_pointer& r : s.take_finished()) {
    CHECK(r->output.size() == r->new_tokens);
    const server::check_result c = server::check_tokens(m, r->prompt, r->output);
    CHECK_MESSAGE(c.right(), "request ", r->id, " token ", c.wrong_at);
    out.tokens[r->id] = r->output;
  }
  out.work = s.gpu_counts();
  out.counts = s.counts();
  out.line = counted_line(out.work, out.counts);
  return out;
}

}  // namespace

TEST_CASE("inference server: host kernels follow the order of kernels.hpp") {
  REQUIRE(test_support::all_host_kernels().size() == server::kernel_count);
  for (std::size_t i = 0; i < server::kernel_count; ++i)
    CHECK(std::string(test_support::all_host_kernels()[i].name) == server::kernel_names[i]);
}

TEST_CASE("inference server: kernels give the reference's tokens, whatever the batch, the graphs and the workers") {
  server::options o = small_load();
  const outcome batched = serve(o);
  CHECK(batched.tokens.size() == o.requests);
  o.max_batch = 1;
  CHECK(serve(o).tokens == batched.tokens);
  o.max_batch = 3;
  o.graphs = true;
  CHECK(serve(o).tokens == batched.tokens);
  o.workers = 2;
  CHECK(serve(o).tokens == batched.tokens);
  o.seed = 2;
  CHECK(serve(o).tokens != batched.tokens);
}

TEST_CASE("inference server: one worker makes the same counts each time") {
  const server::options o = small_load();
  const outcome a = serve(o);
  CHECK(a.line == serve(o).line);
  CHECK(a.counts.requests == o.requests);
  CHECK(a.counts.prefills == o.requests);
  // Continuous batching: fewer steps than tokens, and at least as many as full batches would take.
  CHECK(a.counts.decode_steps < a.counts.new_tokens - a.counts.prefills);
  CHECK(a.counts.decode_steps * o.max_batch >= a.counts.new_tokens - a.counts.prefills);
}

TEST_CASE("inference server: counts follow from the model") {
  server::options o = small_load();
  const outcome plain = serve(o);
  const std::uint64_t steps = plain.counts.prefills + plain.counts.decode_steps;
  // Two layers of 13 kernels, and four around them (transformer.hpp).
  CHECK(plain.work.kernels == steps * (2 * 13 + 4));
  CHECK(plain.work.dtoh.count == steps);
  CHECK(plain.work.dtod.count == plain.counts.prefills);
  CHECK(plain.work.htod.count == 3 * steps + 1);  // the weights of this model are one piece
  const std::uint64_t rows = plain.counts.prompt_tokens + plain.counts.new_tokens - plain.counts.prefills;
  CHECK(plain.work.htod.bytes == 3 * 4 * rows + 4 * small_model(o).weights.size());
  CHECK(plain.work.memset.count == plain.counts.prefills + 2);  // two when the worker starts
  CHECK(plain.work.graph_launches == 0);

  o.graphs = true;
  const outcome graphs = serve(o);
  CHECK(graphs.work.kernels == plain.work.kernels);
  CHECK(graphs.work.htod.bytes == plain.work.htod.bytes);
  CHECK(graphs.work.graph_launches == graphs.counts.decode_steps);
  CHECK(graphs.work.kernels_in_graphs == graphs.counts.decode_steps * (2 * 13 + 4));
  CHECK(graphs.work.copies_in_graphs == graphs.counts.decode_steps * 4);
}

TEST_CASE("inference server: requests that arrive one by one are all served") {
  server::options o = small_load();
  o.workers = 2;
  o.arrival_us = 300;
  CHECK(serve(o).tokens.size() == o.requests);
}

TEST_CASE("inference server: a worker's error reaches the caller") {
  struct failing_gpu : server::gpu {
    test_support::host_gpu host;
    std::string description() const override { return "fails"; }
    bool executes_kernels() const override { return true; }
    void use_in_this_thread() override { throw std::runtime_error("no context"); }
    std::uint64_t allocate(std::size_t n) override { return host.allocate(n); }
    void release(std::uint64_t a) noexcept override { host.release(a); }
    void* allocate_pinned(std::size_t n) override { return host.allocate_pinned(n); }
    void release_pinned(void* p) noexcept override { host.release_pinned(p); }
    stream_handle open_stream() override { return host.open_stream(); }
    void close_stream(stream_handle s) noexcept override { host.close_stream(s); }
    void synchronize(stream_handle) override {}
    void copy_to_device(stream_handle, std::uint64_t, const void*, std::size_t) override {}
    void copy_to_host(stream_handle, void*, std::uint64_t, std::size_t) override {}
    void copy_on_device(stream_handle, std::uint64_t, std::uint64_t, std::size_t) override {}
    void clear(stream_handle, std::uint64_t, std::size_t) override {}
    void launch(stream_handle, std::uint32_t, std::uint32_t, std::uint32_t, void**, std::uint32_t) override {}
    void begin_capture(stream_handle) override {}
    graph_handle end_capture(stream_handle) override { return nullptr; }
    void launch_graph(stream_handle, graph_handle) override {}
    void release_graph(graph_handle) noexcept override {}
  } g;
  const server::options o = small_load();
  const server::model m = small_model(o);
  server::service s(g, m, o);
  server::submit_requests(s, o);
  CHECK_THROWS_WITH_AS(s.finish(), "no context", std::runtime_error);
}

TEST_CASE("inference server: options") {
  const char* good[] = {"server",   "--requests", "3",         "--graphs", "--seed", "18446744073709551615",
                        "--device", "sim",        "--no-check"};
  const server::options o = server::parse_options(9, good);
  CHECK(o.requests == 3);
  CHECK(o.graphs);
  CHECK(!o.check);
  CHECK(o.seed == ~std::uint64_t{0});
  CHECK(o.device == server::device_choice::sim);
  const std::vector<std::vector<const char*>> bad = {
      {"server", "--requests"},   {"server", "--requests", "0"}, {"server", "--requests", "3x"},
      {"server", "--seed", "-1"}, {"server", "--device", "tpu"}, {"server", "--speed", "3"},
      {"server", "extra"}};
  for (const std::vector<const char*>& words : bad)
    CHECK_THROWS_AS(server::parse_options(static_cast<int>(words.size()), words.data()), std::invalid_argument);
}

}  // namespace inference_server_test
