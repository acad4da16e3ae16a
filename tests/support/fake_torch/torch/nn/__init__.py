# SPDX-License-Identifier: Apache-2.0
# Modules with weights of a shape and no values.
class Linear:
    def __init__(self, inputs, outputs):
        from torch import Tensor
        self._shapes = [Tensor(outputs, inputs), Tensor(outputs)]

    def parameters(self):
        return self._shapes

    def __call__(self, x):
        from torch.nn.functional import linear
        return linear(x, *self._shapes)


class ReLU:
    def parameters(self):
        return []

    def __call__(self, x):
        return x


class Sequential:
    def __init__(self, *parts):
        self._parts = parts

    def to(self, device):
        return self

    def parameters(self):
        return [p for part in self._parts for p in part.parameters()]

    def __call__(self, x):
        for part in self._parts:
            x = part(x)
        return x
