// SPDX-License-Identifier: Apache-2.0
// An inference server in small: a queue, two workers that batch continuously, a transformer on the GPU. It shows where
// a server's stages go, and counts its own GPU work, so that a trace of it can be checked.
//
//   CUTRACE_SINKS=ascii,jsonl:trace.jsonl ./inference_server --requests 32 --graphs
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.hpp"
#include "devices.hpp"
#include "service.hpp"

namespace {

using namespace std::string_literals;

/// Opens the GPU that the options ask for and prints which one it is.
std::unique_ptr<server::gpu> open_gpu(server::device_choice choice) {
  std::unique_ptr<server::gpu> g;
  std::string reason;
  if (choice != server::device_choice::sim) {
    try {
      g = server::open_cuda_gpu();
    } catch (const std::runtime_error& e) {
      if (choice == server::device_choice::cuda) throw;
      reason = " (no real one: "s + e.what() + ")";
    }
  }
  try {
    if (g == nullptr) g = server::open_sim_gpu();
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(e.what() + reason);
  }
  std::printf("%s%s\n", g->description().c_str(), reason.c_str());
  return g;
}

server::model_config configure(const server::options& o) {
  server::model_config c;
  c.seed = o.seed;
  c.context = static_cast<int>(o.prompt_tokens + o.new_tokens);
  return c;
}

/// Compares every request's tokens with the CPU reference. Returns the number of requests that differ.
int check_requests(const std::vector<server::request_pointer>& answers, const server::model& m) {
  int requests = 0, wrong = 0, near_ties = 0;
  for (const server::request_pointer& r : answers) {
    const server::check_result result = server::check_tokens(m, r->prompt, r->output);
    ++requests;
    near_ties += result.near_ties;
    if (result.right()) continue;
    ++wrong;
    const auto at = static_cast<std::size_t>(result.wrong_at);
    std::printf("request %llu: token %d is %d, the CPU reference says %d\n", static_cast<unsigned long long>(r->id),
                result.wrong_at, r->output[at], result.wanted);
  }
  std::printf("check: %d of %d requests match the CPU reference, %d near ties\n", requests - wrong, requests,
              near_ties);
  return wrong;
}

void print_speed(const server::service_counts& c, double seconds) {
  const double steps = c.decode_steps == 0 ? 1.0 : static_cast<double>(c.decode_steps);
  std::printf("served %llu requests, %llu tokens in %.1f ms: %.0f tokens/s, %.2f requests a decode step\n",
              static_cast<unsigned long long>(c.requests), static_cast<unsigned long long>(c.new_tokens), seconds * 1e3,
              static_cast<double>(c.new_tokens) / seconds, static_cast<double>(c.new_tokens - c.prefills) / steps);
}

/// Serves the requests. Everything on the GPU is gone again when it returns.
std::vector<server::request_pointer> serve(server::gpu& g, const server::options& o,
                                           std::unique_ptr<const server::model>& m) {
  std::unique_ptr<server::service> s;
  {
    CUTRACE_STAGE("load_weights");  // covers calls of this thread; service.hpp hands it to the workers
    m = std::make_unique<server::model>(configure(o));
    s = std::make_unique<server::service>(g, *m, o);
  }
  const auto begin = std::chrono::steady_clock::now();
  server::submit_requests(*s, o);
  s->finish();
  print_speed(s->counts(), std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  server::print(stdout, s->gpu_counts(), s->counts());
  return s->take_finished();
}

/// Called by cutrace's collector, not by a worker, when all of a request's work is done.
void print_costs(const cutrace::request_done& r, void*) {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
  std::printf(
      "costs of request %llu: %.3f ms from begin to end, no GPU at work in %.3f ms of its stages; GPU: %.3f ms "
      "alone, %.3f ms in %u batches (its share, estimated: %.3f ms), %.3f ms queued%s\n",
      static_cast<unsigned long long>(r.id), ms(r.wall_ns()), ms(r.idle_inside_ns),
      ms(r.execution_alone_ns + r.transfer_alone_ns), ms(r.execution_in_batches_ns + r.transfer_in_batches_ns),
      r.batches, ms(r.estimated_share_ns), ms(r.queue_ns), r.exact() ? "" : " (incomplete)");
}

int run(const server::options& o) {
  std::unique_ptr<server::gpu> g;  // before the session, to outlive it: a simulated GPU delivers records until its end
  cutrace::session trace;          // sinks: CUTRACE_SINKS; without it, and with CUTRACE=0, nothing is written
  if (o.costs) trace.on_request_done(print_costs);
  g = open_gpu(o.device);
  g->attach(trace);
  std::unique_ptr<const server::model> m;
  const std::vector<server::request_pointer> answers = serve(*g, o, m);
  trace.stop();  // the check is no part of the service: it must not make the trace longer
  if (!o.check) return 0;
  if (!g->executes_kernels()) {
    std::printf("check: skipped, this GPU runs no kernels and its tokens mean nothing\n");
    return 0;
  }
  return check_requests(answers, *m) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == "--help"s) {
      std::fputs(server::usage, stdout);
      return 0;
    }
  }
  try {
    return run(server::parse_options(argc, argv));
  } catch (const std::invalid_argument& e) {
    std::fprintf(stderr, "inference_server: %s\n%s", e.what(), server::usage);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "inference_server: %s\n", e.what());
  }
  return 2;
}
