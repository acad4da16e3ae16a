# SPDX-License-Identifier: Apache-2.0
# As much of PyTorch as examples/python and bench/gpu/decode.py use, without numbers: tensors have a shape, operations
# check it. So those scripts are run to their end where there is neither PyTorch nor a GPU.
#   FAKE_TORCH_NO_GPU=1   torch.cuda.is_available() is false
#   FAKE_TORCH_SHOW=1     prints each NVTX range, each capture and each replay to stderr
import contextlib
import ctypes
import os
import sys

from . import nn

float16, bfloat16, float32, long = "torch.float16", "torch.bfloat16", "torch.float32", "torch.long"


def show(what):
    if "FAKE_TORCH_SHOW" in os.environ:
        print("fake torch:", what, file=sys.stderr)


class Tensor:
    def __init__(self, *shape):
        self.shape = tuple(shape)

    def _broadcast(self, other):
        if not isinstance(other, Tensor):
            return Tensor(*self.shape)
        a, b = self.shape, other.shape
        n = max(len(a), len(b))
        a, b = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
        assert all(x == y or 1 in (x, y) for x, y in zip(a, b)), f"{self.shape} with {other.shape}"
        return Tensor(*(max(x, y) for x, y in zip(a, b)))

    __add__ = __mul__ = __mod__ = __gt__ = _broadcast

    def __getitem__(self, part):
        return Tensor(len(range(self.shape[0])[part]), *self.shape[1:])

    def to(self, kind, non_blocking=False):
        return self

    def pin_memory(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self

    def tobytes(self):
        return repr(self.shape).encode()

    def numel(self):
        return _count(self.shape)

    def view(self, *shape):
        assert _count(shape) == _count(self.shape), f"{self.shape} as {shape}"
        return Tensor(*shape)

    reshape = view

    def unsqueeze(self, dimension):
        return Tensor(*self.shape[:dimension], 1, *self.shape[dimension:])

    def permute(self, *order):
        assert sorted(order) == list(range(len(self.shape))), f"{self.shape} as {order}"
        return Tensor(*(self.shape[i] for i in order))

    def unbind(self, dimension):
        assert dimension == 0
        return [Tensor(*self.shape[1:]) for _ in range(self.shape[0])]

    def transpose(self, a, b):
        shape = list(self.shape)
        shape[a], shape[b] = shape[b], shape[a]
        return Tensor(*shape)

    def argmax(self, dimension):
        assert dimension == -1
        return Tensor(*self.shape[:-1])

    def index_copy_(self, dimension, index, source):
        wanted = self.shape[:dimension] + index.shape + self.shape[dimension + 1:]
        assert source.shape == wanted, f"{source.shape} into {wanted}"

    def copy_(self, source):
        assert source.shape == self.shape, f"{source.shape} into {self.shape}"

    def add_(self, number):
        return self

    def fill_(self, number):
        return self

    def item(self):
        assert _count(self.shape) == 1
        return 0


def _count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def _make(*shape, device=None, dtype=None):
    return Tensor(*shape)


randn = zeros = ones = arange = _make


def matmul(a, b):
    assert a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2], f"{a.shape} times {b.shape}"
    return Tensor(*a.shape[:-1], b.shape[-1])


def softmax(x, dimension):
    return x


def manual_seed(seed):
    pass


inference_mode = contextlib.nullcontext


class cuda:
    class Stream:
        cuda_stream = 0

        def wait_stream(self, other):
            pass

    class CUDAGraph:
        def __init__(self, keep_graph=False):
            pass

        def replay(self):
            show("replay")

        def raw_cuda_graph(self):
            """An empty graph of the driver that is there: the one thing of this module that calls CUDA."""
            driver, graph, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
            for failed in (driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
                           driver.cuCtxSetCurrent(context), driver.cuGraphCreate(ctypes.byref(graph), 0)):
                assert failed == 0, failed
            return graph.value

    class nvtx:
        @staticmethod
        def range(name):
            show(f"range {name}")
            return contextlib.nullcontext()

    current_stream = Stream
    stream = contextlib.nullcontext

    @staticmethod
    def graph(graph):
        show("capture")
        return contextlib.nullcontext()

    @staticmethod
    def is_available():
        return "FAKE_TORCH_NO_GPU" not in os.environ

    @staticmethod
    def get_device_name():
        return "no GPU at all"

    @staticmethod
    def synchronize():
        pass
