# SPDX-License-Identifier: Apache-2.0
# As much of PyTorch as bench/gpu/decode.py uses, without numbers: tensors have a shape, operations check theirs. So that
# script is run to its end where there is neither PyTorch nor a GPU.
import contextlib

float16, long = "float16", "long"


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

    __add__ = __mul__ = __gt__ = _broadcast

    def to(self, kind):
        return self

    def view(self, *shape):
        assert _count(shape) == _count(self.shape), f"{self.shape} as {shape}"
        return Tensor(*shape)

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

    def zero_(self):
        return self

    def item(self):
        assert _count(self.shape) == 1
        return 0


def _count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def _make(*shape, device, dtype=None):
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
        def wait_stream(self, other):
            pass

    class CUDAGraph:
        def replay(self):
            pass

    current_stream = Stream
    stream = graph = contextlib.nullcontext

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def synchronize():
        pass
