// SPDX-License-Identifier: Apache-2.0
// The inference server's CPU reference, held against a second implementation that keeps no cache and computes in
// double.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "../../examples/inference_server/check.hpp"
#include "../../examples/inference_server/cpu_reference.hpp"
#include "../../examples/inference_server/exponential.hpp"
#include "../../examples/inference_server/model.hpp"

namespace reference_model_test {

namespace {

using row = std::vector<double>;

server::model_config small_config() {
  server::model_config c;
  c.vocabulary = 32;
  c.width = 16;
  c.heads = 4;
  c.layers = 2;
  c.hidden = 24;
  c.context = 12;
  return c;
}

row norm(const row& x, const float* gain) {
  double mean = 0;
  for (double v : x) mean += v * v / static_cast<double>(x.size());
  row y(x);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= static_cast<double>(gain[i]) / std::sqrt(mean + 1e-5);
  return y;
}

row multiply(const row& x, const float* matrix, std::size_t outputs) {
  row y(outputs);
  for (std::size_t o = 0; o < outputs; ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += x[i] * static_cast<double>(matrix[i * outputs + o]);
  return y;
}

void add(row& x, const row& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

/// Attention of the last row over all rows, from their queries, keys and values.
row attend(const std::vector<row>& qkv, std::size_t last, const server::model_config& c) {
  const auto width = static_cast<std::size_t>(c.width), head_width = static_cast<std::size_t>(c.head_width());
  row out(width);
  for (std::size_t first = 0; first < width; first += head_width) {
    row p;
    double sum = 0;
    for (std::size_t t = 0; t <= last; ++t) {
      double dot = 0;
      for (std::size_t i = first; i < first + head_width; ++i) dot += qkv[last][i] * qkv[t][width + i];
      p.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_width))));
      sum += p.back();
    }
    for (std::size_t t = 0; t <= last; ++t)
      for (std::size_t i = first; i < first + head_width; ++i) out[i] += p[t] / sum * qkv[t][2 * width + i];
  }
  return out;
}

/// Logits after the last of `tokens`: every row of every layer is computed anew.
row logits_without_cache(const server::model& m, const std::vector<int>& tokens) {
  const auto width = static_cast<std::size_t>(m.config.width);
  std::vector<row> x;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    x.emplace_back(width);
    for (std::size_t i = 0; i < width; ++i)
      x[t][i] = static_cast<double>(m.at(m.layout.tokens)[static_cast<std::size_t>(tokens[t]) * width + i]) +
                static_cast<double>(m.at(m.layout.positions)[t * width + i]);
  }
  for (const server::weight_layout::layer& w : m.layout.layers) {
    std::vector<row> qkv;
    for (const row& r : x) qkv.push_back(multiply(norm(r, m.at(w.attention_gain)), m.at(w.qkv), 3 * width));
    for (std::size_t t = 0; t < x.size(); ++t) {
      add(x[t], multiply(attend(qkv, t, m.config), m.at(w.projection), width));
      row h = multiply(norm(x[t], m.at(w.feed_gain)), m.at(w.up), static_cast<std::size_t>(m.config.hidden));
      for (double& v : h) v /= 1 + std::exp(-v);
      add(x[t], multiply(h, m.at(w.down), width));
    }
  }
  return multiply(norm(x.back(), m.at(m.layout.final_gain)), m.at(m.layout.output),
                  static_cast<std::size_t>(m.config.vocabulary));
}

}  // namespace

TEST_CASE("inference server: weights are a function of the seed") {
  server::model_config c = small_config();
  const server::model a(c), b(c);
  CHECK(a.weights == b.weights);
  c.seed = 2;
  CHECK(a.weights != server::model(c).weights);
  double sum = 0;
  const std::size_t n = static_cast<std::size_t>(c.width) * 3 * static_cast<std::size_t>(c.width);
  for (std::size_t i = 0; i < n; ++i) sum += std::pow(static_cast<double>(a.at(a.layout.layers[0].qkv)[i]), 2);
  CHECK(sum / static_cast<double>(n) == doctest::Approx(1.0 / c.width).epsilon(0.1));  // variance one for each output
}

TEST_CASE("inference server: exponential") {
  for (double x = -86; x < 86; x += 0.37) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    CHECK(static_cast<double>(server::exponential(static_cast<float>(x))) == doctest::Approx(exact).epsilon(3e-7));
  }
  CHECK(server::exponential(0) == 1.0f);
  CHECK(std::isfinite(server::exponential(1000)));
  CHECK(server::exponential(-1000) > 0);
}

TEST_CASE("inference server: the reference with its cache equals a model without one") {
  const server::model m(small_config());
  server::cpu_reference reference(m);
  std::vector<int> tokens;
  for (int t : {3, 17, 0, 31, 3, 3, 8, 25, 11, 30, 1, 12}) {
    tokens.push_back(t);
    const std::vector<float> logits = reference.step(t);
    const row wanted = logits_without_cache(m, tokens);
    REQUIRE(logits.size() == wanted.size());
    for (std::size_t i = 0; i < logits.size(); ++i) CHECK(std::abs(static_cast<double>(logits[i]) - wanted[i]) < 1e-5);
  }
  CHECK(reference.position() == 12);
}

TEST_CASE("inference server: greedy decoding repeats itself and answers the prompt") {
  const server::model m(small_config());
  const std::vector<int> a = server::decode_greedily(m, {1, 2, 3}, 8);
  CHECK(a.size() == 8);
  CHECK(a == server::decode_greedily(m, {1, 2, 3}, 8));
  CHECK(a != server::decode_greedily(m, {4, 2, 3}, 8));
}

TEST_CASE("inference server: check_tokens accepts the reference's tokens and finds a wrong one") {
  const server::model m(small_config());
  const std::vector<int> prompt = {5, 6};
  std::vector<int> tokens = server::decode_greedily(m, prompt, 7);
  CHECK(server::check_tokens(m, prompt, tokens).right());
  const int wanted = tokens[4];
  for (int bad : {(wanted + 1) % m.config.vocabulary, -1, m.config.vocabulary}) {
    tokens[4] = bad;
    const server::check_result r = server::check_tokens(m, prompt, tokens);
    CHECK(r.wrong_at == 4);
    CHECK(r.wanted == wanted);
  }
}

TEST_CASE("inference server: a near tie accepts either token and is counted") {
  server::model m(small_config());
  const std::vector<int> prompt = {5, 6};
  const int best = server::decode_greedily(m, prompt, 1)[0];
  const int other = (best + 1) % m.config.vocabulary;
  const auto columns = static_cast<std::size_t>(m.config.vocabulary);
  float* output = m.weights.data() + m.layout.output;  // give `other` the same logit as `best`
  for (std::size_t i = 0; i < static_cast<std::size_t>(m.config.width); ++i)
    output[i * columns + static_cast<std::size_t>(other)] = output[i * columns + static_cast<std::size_t>(best)];
  for (int token : {best, other}) {
    const server::check_result r = server::check_tokens(m, prompt, {token});
    CHECK(r.right());
    CHECK(r.near_ties == 1);
  }
  CHECK(!server::check_tokens(m, prompt, {(best + 2) % m.config.vocabulary}).right());
}

}  // namespace reference_model_test
