#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches through a multi-layer perceptron in CuPy: latency, throughput, and a digest of all results.

  cutrace run -- python3 cupy_inference.py

Phases are NVTX ranges (load, warm-up, batch), which become stages of a trace.
"""
import argparse
import time

import common

try:
    import cupy
    import cupyx.profiler
    import numpy
except ImportError:
    cupy = None


def forward(layers, x):
    for weight, bias in layers[:-1]:
        x = cupy.maximum(x @ weight + bias, 0)
    weight, bias = layers[-1]
    return x @ weight + bias


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=common.positive, default=100, help="batches that are measured (100)")
    parser.add_argument("--batch-size", type=common.positive, default=64, help="samples in a batch (64)")
    options = parser.parse_args()
    if cupy is None:
        common.unavailable("CuPy is not installed for this Python")
    if not cupy.is_available():
        common.unavailable("CuPy sees no GPU here")

    phase = cupyx.profiler.time_range
    random = numpy.random.default_rng(1)
    sizes = [784, 1024, 1024, 1024, 10]
    with phase("load"):
        layers = [(cupy.asarray(random.standard_normal((a, b), numpy.float32) * numpy.float32(0.03)),
                   cupy.zeros(b, cupy.float32)) for a, b in zip(sizes, sizes[1:])]
        batches = [random.standard_normal((options.batch_size, sizes[0]), numpy.float32) for _ in range(8)]
    with phase("warm-up"):
        cupy.asnumpy(forward(layers, cupy.asarray(batches[0])))  # compiles what is not in CuPy's cache
    seconds, digest = [], common.Digest()
    for i in range(options.batches):
        begin = time.perf_counter()
        with phase("batch"):
            result = cupy.asnumpy(forward(layers, cupy.asarray(batches[i % len(batches)])))
        seconds.append(time.perf_counter() - begin)
        digest.add(result)
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"model      3 hidden layers of 1024, on {name}")
    print(f"latency    {common.latency(seconds)}; {options.batches} batches of {options.batch_size}")
    print(f"throughput {options.batches * options.batch_size / sum(seconds):.0f} samples/s")
    print(f"digest     {digest.text()}")


if __name__ == "__main__":
    main()
