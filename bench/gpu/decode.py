# SPDX-License-Identifier: Apache-2.0
# A decode loop of GPT-2's size (124 million parameters: 12 layers, 768 wide, 12 heads) with random weights made here: one
# sequence, fp16, a KV cache of fixed size, greedy choice. Each token is read by the host, as a server does to send it.
# Prints tokens a second of the eager loop and of the replayed CUDA graph of one step, the median of the parts.
#
#   python3 decode.py [--tokens N] [--parts N] [--kineto]       --kineto: under PyTorch's own profiler
import argparse
import contextlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, VOCABULARY, CONTEXT = 12, 768, 12, 50257, 1024
DEVICE, TYPE = "cuda", torch.float16


def weight(*shape):
    return torch.randn(*shape, device=DEVICE, dtype=TYPE) * 0.02


def norm():
    return torch.ones(WIDTH, device=DEVICE, dtype=TYPE), torch.zeros(WIDTH, device=DEVICE, dtype=TYPE)


def linear(outputs, inputs):
    return weight(outputs, inputs), torch.zeros(outputs, device=DEVICE, dtype=TYPE)


class Layer:
    def __init__(self):
        self.norm_1, self.norm_2 = norm(), norm()
        self.qkv, self.out = linear(3 * WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.up, self.down = linear(4 * WIDTH, WIDTH), linear(WIDTH, 4 * WIDTH)
        self.keys = torch.zeros(HEADS, CONTEXT, WIDTH // HEADS, device=DEVICE, dtype=TYPE)
        self.values = torch.zeros(HEADS, CONTEXT, WIDTH // HEADS, device=DEVICE, dtype=TYPE)

    def attend(self, x, position, hidden):
        q, k, v = F.linear(x, *self.qkv).view(3, HEADS, 1, WIDTH // HEADS).unbind(0)
        self.keys.index_copy_(1, position, k)
        self.values.index_copy_(1, position, v)
        scores = torch.matmul(q, self.keys.transpose(1, 2)) * (WIDTH // HEADS) ** -0.5 + hidden
        return F.linear(torch.matmul(torch.softmax(scores, -1), self.values).view(1, WIDTH), *self.out)

    def forward(self, x, position, hidden):
        x = x + self.attend(F.layer_norm(x, (WIDTH,), *self.norm_1), position, hidden)
        y = F.linear(F.layer_norm(x, (WIDTH,), *self.norm_2), *self.up)
        return x + F.linear(F.gelu(y, approximate="tanh"), *self.down)


class Model:
    def __init__(self):
        torch.manual_seed(1)
        self.words, self.places = weight(VOCABULARY, WIDTH), weight(CONTEXT, WIDTH)
        self.layers, self.norm = [Layer() for _ in range(LAYERS)], norm()
        self.all_places = torch.arange(CONTEXT, device=DEVICE)
        # The state of the loop lives on the GPU, so that a replayed step goes on where the last one ended.
        self.token = torch.zeros(1, device=DEVICE, dtype=torch.long)
        self.position = torch.zeros(1, device=DEVICE, dtype=torch.long)

    def step(self):
        x = F.embedding(self.token, self.words) + F.embedding(self.position, self.places)
        hidden = (self.all_places > self.position).to(TYPE) * -60000.0  # what is not written yet is not attended to
        for layer in self.layers:
            x = layer.forward(x, self.position, hidden)
        logits = F.linear(F.layer_norm(x, (WIDTH,), *self.norm), self.words)
        self.token.copy_(logits.argmax(-1))
        self.position.add_(1)

    def restart(self):
        self.token.zero_()
        self.position.zero_()


def capture(model):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step()
    return graph


def tokens_per_second(model, step, tokens, parts):
    """Median of `parts`, after one that is left out; and the tokens of the last part."""
    rates, text = [], []
    for part in range(parts + 1):
        model.restart()
        torch.cuda.synchronize()
        text = []
        begin = time.perf_counter()
        for _ in range(tokens):
            step()
            text.append(model.token.item())
        if part != 0:
            rates.append(tokens / (time.perf_counter() - begin))
    return statistics.median(rates), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--parts", type=int, default=3)
    parser.add_argument("--kineto", action="store_true")
    options = parser.parse_args()
    if not 0 < options.tokens <= CONTEXT:
        parser.error(f"--tokens must be from 1 to {CONTEXT}, the size of the KV cache")

    profiler = contextlib.nullcontext()
    if options.kineto:
        from torch.profiler import ProfilerActivity, profile
        profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with torch.inference_mode():
        model = Model()
        graph = capture(model)
        with profiler as profiled:
            eager, eager_text = tokens_per_second(model, model.step, options.tokens, options.parts)
            replayed, graph_text = tokens_per_second(model, graph.replay, options.tokens, options.parts)
            torch.cuda.synchronize()
    if options.kineto:
        gpu = sum(1 for e in profiled.profiler.kineto_results.events() if "CUDA" in str(e.device_type()))
        print(f"records {gpu} 1 0")  # how many there should be is not known; none would be wrong
    print(f"measured eager {eager:.2f}")
    print(f"measured graph {replayed:.2f}")
    # A graph that does not compute would be fast. Tokens may part where the matrix library chose another algorithm while
    # the step was captured.
    equal = sum(a == b for a, b in zip(eager_text, graph_text))
    print(f"tokens by graph that equal the eager ones: {equal} of {options.tokens}", flush=True)
    if equal == 0:
        sys.exit("the graph does not compute what the eager step computes")


main()
