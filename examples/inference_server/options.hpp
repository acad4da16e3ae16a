// SPDX-License-Identifier: Apache-2.0
// The command line: every number that shapes the load, in one struct. Nothing here knows the GPU.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

namespace server {

enum class device_choice { automatic, cuda, sim };

constexpr int slow_ms = 50;

struct options {
  std::uint32_t requests = 16;
  std::uint32_t workers = 2;
  std::uint32_t max_batch = 4;       ///< requests that one decode step serves at most, per worker
  std::uint32_t prompt_tokens = 24;  ///< longest prompt; a request's own length is derived from its id and the seed
  std::uint32_t new_tokens = 24;     ///< most tokens to generate for a request; derived likewise
  std::uint32_t arrival_us = 0;      ///< 0: every request waits in the queue before the workers begin
  std::uint64_t seed = 1;            ///< weights, prompts and lengths
  std::uint64_t slow_request = 0;    ///< whose text takes `slow_ms` to tokenize; 0: none
  bool graphs = false;               ///< decode by CUDA graph, one for each batch size
  bool naive = false;                ///< pageable memory, a copy and a synchronise for each token
  bool check = true;                 ///< compare the tokens with the CPU reference
  bool quiet = false;                ///< leave out the generated texts
  bool costs = false;                ///< print what each request cost, as cutrace reports it to the program
  device_choice device = device_choice::automatic;
};

constexpr const char* usage =
    "usage: inference_server [options]\n"
    "  --requests N        requests to serve (16)\n"
    "  --workers N         worker threads, each with its own stream (2)\n"
    "  --max-batch N       most requests in one decode step of a worker (4)\n"
    "  --prompt-tokens N   longest prompt (24)\n"
    "  --new-tokens N      most tokens generated for a request (24)\n"
    "  --arrival-us N      microseconds between requests; 0: all are queued before the workers begin (0)\n"
    "  --slow-request N    the text of request N takes 50 ms to tokenize, for `cutrace why` to find\n"
    "  --graphs            decode by CUDA graph\n"
    "  --naive             with the usual faults, for the report to find: pageable memory, each token copied by\n"
    "                      itself and waited for, no graphs\n"
    "  --seed N            seed of weights, prompts and lengths (1)\n"
    "  --check, --no-check compare the tokens with the CPU reference (on)\n"
    "  --quiet             do not print the generated texts\n"
    "  --costs             print what each request cost on the host and on the GPU\n"
    "  --device D          auto, cuda or sim (auto: cuda where a driver is, else sim)\n"
    "With one worker and --arrival-us 0 the line 'counted {...}' depends on the options alone.\n";

namespace detail {

inline std::uint64_t parse_number(const std::string& name, const char* text, std::uint64_t low, std::uint64_t high) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || text[0] == '-' || value < low || value > high)
    throw std::invalid_argument(name + " needs a number from " + std::to_string(low) + " to " + std::to_string(high) +
                                ", not '" + text + "'");
  return value;
}

inline device_choice parse_device(const std::string& text) {
  if (text == "auto") return device_choice::automatic;
  if (text == "cuda") return device_choice::cuda;
  if (text == "sim") return device_choice::sim;
  throw std::invalid_argument("--device needs auto, cuda or sim, not '" + text + "'");
}

/// The options without a value. False when `name` is none of them.
inline bool parse_switch(const std::string& name, options& o) {
  if (name == "--graphs") return o.graphs = true;
  if (name == "--naive") return o.naive = true;
  if (name == "--quiet") return o.quiet = true;
  if (name == "--costs") return o.costs = true;
  if (name == "--check") return o.check = true;
  if (name != "--no-check") return false;
  o.check = false;
  return true;
}

}  // namespace detail

/// @throws std::invalid_argument with a sentence for the user.
inline options parse_options(int count, const char* const* words) {
  options o;
  for (int i = 1; i < count; ++i) {
    const std::string name = words[i];
    if (detail::parse_switch(name, o)) continue;
    if (i + 1 == count) throw std::invalid_argument("unknown option or missing value: " + name);
    const char* value = words[++i];
    const auto number = [&](std::uint64_t low, std::uint64_t high) {
      return static_cast<std::uint32_t>(detail::parse_number(name, value, low, high));
    };
    if (name == "--requests")
      o.requests = number(1, 1000000);
    else if (name == "--workers")
      o.workers = number(1, 64);
    else if (name == "--max-batch")
      o.max_batch = number(1, 64);
    else if (name == "--prompt-tokens")
      o.prompt_tokens = number(1, 512);
    else if (name == "--new-tokens")
      o.new_tokens = number(1, 512);
    else if (name == "--arrival-us")
      o.arrival_us = number(0, 10000000);
    else if (name == "--seed")
      o.seed = detail::parse_number(name, value, 0, std::numeric_limits<std::uint64_t>::max());
    else if (name == "--slow-request")
      o.slow_request = number(1, 1000000);
    else if (name == "--device")
      o.device = detail::parse_device(value);
    else
      throw std::invalid_argument("unknown option: " + name);
  }
  if (o.naive && o.graphs) throw std::invalid_argument("--naive synchronises inside of a step: no --graphs with it");
  return o;
}

}  // namespace server
