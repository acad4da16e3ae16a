#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches through a multi-layer perceptron in PyTorch: latency, throughput, and a digest of all results.

Batches come from pinned memory of the host, and results go back to it, as in a server. Phases are NVTX ranges (load,
warm-up, batch), which become stages of a trace:

  cutrace run -- python3 simple_inference.py

Weights and inputs follow from the seed: two runs on one machine print the same digest, traced or not.
"""
import argparse
import time

import common

try:
    import torch
except ImportError:
    torch = None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=common.positive, default=200, help="batches that are measured (200)")
    parser.add_argument("--batch-size", type=common.positive, default=64, help="samples in a batch (64)")
    parser.add_argument("--inputs", type=common.positive, default=784, help="numbers in a sample (784)")
    parser.add_argument("--width", type=common.positive, default=1024, help="width of the hidden layers (1024)")
    parser.add_argument("--layers", type=common.positive, default=4, help="hidden layers (4)")
    parser.add_argument("--outputs", type=common.positive, default=10, help="numbers in a result (10)")
    parser.add_argument("--warm-up", type=common.positive, default=10, help="batches before the measured ones (10)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def make_model(options):
    sizes = [options.inputs] + [options.width] * options.layers
    parts = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        parts += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(options.width, options.outputs))


def make_batches(options):
    """A few different ones, which take turns."""
    batches = [torch.randn(options.batch_size, options.inputs) for _ in range(min(options.batches, 8))]
    return [batch.pin_memory() for batch in batches] if options.device == "cuda" else batches


def infer(model, batch, device):
    return model(batch.to(device, non_blocking=True)).cpu()  # .cpu() waits for the result


def main():
    options = parse()
    common.require_torch(torch, options.device)
    phase = common.phases(torch, options.device)
    torch.manual_seed(options.seed)
    seconds, digest = [], common.Digest()
    with torch.inference_mode():
        with phase("load"):
            model = make_model(options).to(options.device)
            batches = make_batches(options)
        with phase("warm-up"):
            for i in range(options.warm_up):
                infer(model, batches[i % len(batches)], options.device)
        for i in range(options.batches):
            begin = time.perf_counter()
            with phase("batch"):
                result = infer(model, batches[i % len(batches)], options.device)
            seconds.append(time.perf_counter() - begin)
            digest.add(result.numpy())

    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    parameters = sum(p.numel() for p in model.parameters())
    print(f"model      {options.layers} hidden layers of {options.width}, {parameters:,} parameters, on {name}")
    print(f"latency    {common.latency(seconds)}; {options.batches} batches of {options.batch_size}")
    print(f"throughput {options.batches * options.batch_size / sum(seconds):.0f} samples/s")
    print(f"digest     {digest.text()}")


if __name__ == "__main__":
    main()
