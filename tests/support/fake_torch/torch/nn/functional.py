# SPDX-License-Identifier: Apache-2.0
from torch import Tensor


def embedding(index, table):
    return Tensor(*index.shape, *table.shape[1:])


def linear(x, weight, bias=None):
    assert x.shape[-1] == weight.shape[1], f"{x.shape} through {weight.shape}"
    assert bias is None or bias.shape == weight.shape[:1]
    return Tensor(*x.shape[:-1], weight.shape[0])


def layer_norm(x, shape, weight, bias):
    assert x.shape[-1:] == tuple(shape) == weight.shape == bias.shape
    return x


def gelu(x, approximate):
    assert approximate in ("none", "tanh")
    return x
