#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches through a multi-layer perceptron in JAX: latency, throughput, and a digest of all results.

  cutrace run -- python3 jax_inference.py

XLA measures which of several kernels is the fastest, so that two runs may differ in the last bits and in their kernels;
with XLA_FLAGS=--xla_gpu_autotune_level=0 it does not.
"""
import argparse
import time

import common

try:
    import jax
    import numpy
except ImportError:
    jax = None


def forward(layers, x):
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=common.positive, default=100, help="batches that are measured (100)")
    parser.add_argument("--batch-size", type=common.positive, default=64, help="samples in a batch (64)")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    options = parser.parse_args()
    if jax is None:
        common.unavailable("JAX is not installed for this Python")
    try:
        device = jax.devices(options.device)[0]
    except RuntimeError as failure:
        common.unavailable(f"JAX sees no such device: {failure}")

    random = numpy.random.default_rng(1)
    sizes = [784, 1024, 1024, 1024, 10]
    with jax.default_device(device):
        layers = [(jax.device_put(random.standard_normal((a, b), numpy.float32) * numpy.float32(0.03), device),
                   jax.device_put(numpy.zeros(b, numpy.float32), device)) for a, b in zip(sizes, sizes[1:])]
        batches = [random.standard_normal((options.batch_size, sizes[0]), numpy.float32) for _ in range(8)]
        infer = jax.jit(forward)
        numpy.asarray(infer(layers, batches[0]))  # compiles
        seconds, digest = [], common.Digest()
        for i in range(options.batches):
            begin = time.perf_counter()
            result = numpy.asarray(infer(layers, batches[i % len(batches)]))  # waits for the result
            seconds.append(time.perf_counter() - begin)
            digest.add(result)
    print(f"model      3 hidden layers of 1024, on {device.device_kind}")
    print(f"latency    {common.latency(seconds)}; {options.batches} batches of {options.batch_size}")
    print(f"throughput {options.batches * options.batch_size / sum(seconds):.0f} samples/s")
    print(f"digest     {digest.text()}")


if __name__ == "__main__":
    main()
