# SPDX-License-Identifier: Apache-2.0
# What the examples share: how they say that this machine lacks something, latencies as a line, and a digest by which
# the outputs of a traced and an untraced run are compared bit by bit.
import contextlib
import hashlib
import math
import sys

UNAVAILABLE = 77  # exit status where a library or a GPU is missing; test suites take it for "skipped"


def unavailable(reason):
    print(f"{sys.argv[0]}: {reason}", file=sys.stderr)
    sys.exit(UNAVAILABLE)


def require_torch(torch, device):
    """Ends the program where PyTorch is missing (`torch` is None) or sees no GPU though one is asked for."""
    if torch is None:
        unavailable("PyTorch is not installed for this Python (https://pytorch.org says how)")
    if device == "cuda" and not torch.cuda.is_available():
        unavailable("PyTorch sees no GPU here: --device cpu runs without one")


def phases(torch, device):
    """phase("load") is a context: an NVTX range, which a tracer shows as a stage. On a CPU it is nothing."""
    return torch.cuda.nvtx.range if device == "cuda" else lambda name: contextlib.nullcontext()


def percentile(values, percent):
    """Nearest rank: a value that was measured, never one in between."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def latency(seconds):
    """"mean 1.234 ms, p50 1.230 ms, p99 1.311 ms" of measured times."""
    mean = sum(seconds) / len(seconds)
    return ", ".join(f"{name} {1e3 * value:.3f} ms" for name, value in
                     (("mean", mean), ("p50", percentile(seconds, 50)), ("p99", percentile(seconds, 99))))


class Digest:
    """SHA-256 over arrays (NumPy's, or what converts to them) or lists of integers, in the order in which they come."""

    def __init__(self):
        self._hash = hashlib.sha256()

    def add(self, values):
        if isinstance(values, list):
            self._hash.update(",".join(map(str, values)).encode() + b"\n")
        else:
            self._hash.update(values.tobytes())

    def text(self):
        return self._hash.hexdigest()


def positive(text):
    """For argparse: an integer from 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
