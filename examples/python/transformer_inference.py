#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A decoder-only transformer of GPT-2's size (124 million parameters) in plain PyTorch: prefill, then token by token.

Random weights, made here; a KV cache of fixed size; greedy choice; each token is read by the host, as a server does
to send it. With --graphs a step of the decode loop is captured once as a CUDA graph and replayed for each token.
Phases are NVTX ranges (load, warm-up, prefill, decode), which become stages of a trace:

  cutrace run -- python3 transformer_inference.py --graphs

Weights and prompt follow from the seed: two runs on one machine print the same digest, traced or not. To try it out
without a GPU: --device cpu --layers 2 --vocabulary 1000
"""
import argparse
import contextlib
import dataclasses
import statistics
import time

import common

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None


@dataclasses.dataclass(frozen=True)
class Size:
    """That of GPT-2; `context` is how many tokens the KV cache holds."""
    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    context: int = 1024


class Layer:
    def __init__(self, size, maker):
        self.heads, self.head_width = size.heads, size.width // size.heads
        self.norm_1, self.norm_2 = maker.norm(size.width), maker.norm(size.width)
        self.qkv, self.out = maker.linear(3 * size.width, size.width), maker.linear(size.width, size.width)
        self.up, self.down = maker.linear(4 * size.width, size.width), maker.linear(size.width, 4 * size.width)
        self.keys = maker.zeros(size.heads, size.context, self.head_width)
        self.values = maker.zeros(size.heads, size.context, self.head_width)

    def attend(self, x, positions, hidden):
        count = x.shape[0]
        parts = F.linear(x, *self.qkv).view(count, 3, self.heads, self.head_width)
        q, k, v = parts.permute(1, 2, 0, 3).unbind(0)  # each: heads, tokens, width of a head
        self.keys.index_copy_(1, positions, k)
        self.values.index_copy_(1, positions, v)
        scores = torch.matmul(q, self.keys.transpose(1, 2)) * self.head_width ** -0.5 + hidden
        mixed = torch.matmul(torch.softmax(scores, -1), self.values)
        return F.linear(mixed.transpose(0, 1).reshape(count, self.heads * self.head_width), *self.out)

    def forward(self, x, positions, hidden):
        shape = (x.shape[-1],)
        x = x + self.attend(F.layer_norm(x, shape, *self.norm_1), positions, hidden)
        y = F.linear(F.layer_norm(x, shape, *self.norm_2), *self.up)
        return x + F.linear(F.gelu(y, approximate="tanh"), *self.down)


class Maker:
    """Makes tensors on a device, and counts the parameters among them."""

    def __init__(self, device, dtype):
        self.place, self.parameters = {"device": device, "dtype": dtype}, 0

    def weight(self, *shape):
        made = torch.randn(*shape, **self.place) * 0.02
        self.parameters += made.numel()
        return made

    def zeros(self, *shape):
        return torch.zeros(*shape, **self.place)

    def norm(self, width):
        self.parameters += 2 * width
        return torch.ones(width, **self.place), self.zeros(width)

    def linear(self, outputs, inputs):
        self.parameters += outputs
        return self.weight(outputs, inputs), self.zeros(outputs)


class Model:
    """One sequence. The state of the decode loop (token, position) lives on the device, so that a replayed step goes on
    where the last one ended."""

    def __init__(self, size, device, dtype):
        maker = Maker(device, dtype)
        self.words, self.places = maker.weight(size.vocabulary, size.width), maker.weight(size.context, size.width)
        self.layers, self.norm = [Layer(size, maker) for _ in range(size.layers)], maker.norm(size.width)
        self.size, self.dtype, self.parameters = size, dtype, maker.parameters
        self.all_places = torch.arange(size.context, device=device)
        self.token = torch.zeros(1, device=device, dtype=torch.long)
        self.position = torch.zeros(1, device=device, dtype=torch.long)

    def next_token(self, tokens, positions):
        x = F.embedding(tokens, self.words) + F.embedding(positions, self.places)
        # A token attends to itself and those before it; what is not written yet lies behind.
        hidden = (self.all_places > positions.unsqueeze(1)).to(self.dtype) * -60000.0
        for layer in self.layers:
            x = layer.forward(x, positions, hidden)
        logits = F.linear(F.layer_norm(x[-1:], (self.size.width,), *self.norm), self.words)
        return logits.argmax(-1)

    def prefill(self, prompt):
        """From the beginning: fills the cache with the prompt and chooses the first token."""
        count = prompt.shape[0]
        self.token.copy_(self.next_token(prompt, self.all_places[:count]))
        self.position.fill_(count)

    def step(self):
        self.token.copy_(self.next_token(self.token, self.position))
        self.position.add_(1)


def capture(model):
    """A function that replays model.step() as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # libraries make what they need before the capture, which allows no allocation
        for _ in range(3):
            model.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step()
    return graph.replay


def make_prompt(size, count, device):
    return (torch.arange(count, device=device) * 7919 + 11) % size.vocabulary


def generate(model, prompt, count, step, phase):
    """The `count` tokens behind the prompt, the seconds of the prefill, and the seconds of each further token."""
    begin = time.perf_counter()
    with phase("prefill"):
        model.prefill(prompt)
        tokens = [model.token.item()]  # waits for the device
    prefill, each = time.perf_counter() - begin, []
    for _ in range(count - 1):
        begin = time.perf_counter()
        with phase("decode"):
            step()
            tokens.append(model.token.item())
        each.append(time.perf_counter() - begin)
    return tokens, prefill, each


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompt", type=common.positive, default=128, help="tokens of the prompt (128)")
    parser.add_argument("--tokens", type=common.positive, default=200, help="tokens that are generated (200)")
    parser.add_argument("--repeat", type=common.positive, default=3, help="times that it does so (3)")
    parser.add_argument("--graphs", action="store_true", help="replay a CUDA graph of the decode step")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), help="float16; on a CPU float32")
    parser.add_argument("--seed", type=int, default=1)
    for field in dataclasses.fields(Size):
        parser.add_argument(f"--{field.name}", type=common.positive, default=field.default, help=f"({field.default})")
    options = parser.parse_args()
    total = options.prompt + options.tokens
    if total > options.context:
        parser.error(f"prompt and tokens are {total}, the KV cache has --context {options.context}")
    if options.tokens < 2:
        parser.error("--tokens must be at least 2: the first one comes from the prefill")
    if options.width % options.heads != 0:
        parser.error("--width must be a multiple of --heads")
    if options.graphs and options.device == "cpu":
        parser.error("--graphs needs a GPU")
    return options


def main():
    options = parse()
    common.require_torch(torch, options.device)
    phase = common.phases(torch, options.device)
    dtype = getattr(torch, options.dtype or ("float16" if options.device == "cuda" else "float32"))
    size = Size(*(getattr(options, field.name) for field in dataclasses.fields(Size)))
    torch.manual_seed(options.seed)
    digest, prefills, each = common.Digest(), [], []
    with torch.inference_mode():
        with phase("load"):
            model = Model(size, options.device, dtype)
            prompt = make_prompt(size, options.prompt, options.device)
        with phase("warm-up"):
            step = capture(model) if options.graphs else model.step
            generate(model, prompt, min(4, options.tokens), step, lambda name: contextlib.nullcontext())
        for _ in range(options.repeat):
            tokens, prefill, seconds = generate(model, prompt, options.tokens, step, phase)
            prefills.append(prefill)
            each += seconds
            digest.add(tokens)

    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    how = "by CUDA graph" if options.graphs else "eager"
    print(f"model      {model.parameters:,} parameters, {size.layers} layers, {str(dtype).split('.')[-1]}, on {name}")
    print(f"prefill    {1e3 * statistics.median(prefills):.3f} ms for {options.prompt} tokens")
    print(f"decode     {len(each) / sum(each):.1f} tokens/s {how}; {common.latency(each)} a token; {len(each)} tokens")
    print(f"digest     {digest.text()}")


if __name__ == "__main__":
    main()
