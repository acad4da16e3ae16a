# SPDX-License-Identifier: Apache-2.0
# Deterministic work for a traced run: a loop of matrix products and additions, copies both ways, and a CUDA graph that is
# captured and replayed. Prints a digest of all results, so that a traced run can be compared with an untraced one.
import hashlib

import torch


def main():
    torch.manual_seed(1)
    digest = hashlib.sha256()
    a = torch.randn(512, 512).cuda()
    b = torch.randn(512, 512).cuda()
    for _ in range(200):
        a = torch.tanh(a @ b * 0.01) + b
    digest.update(a.cpu().numpy().tobytes())

    x = torch.randn(64, 256, device="cuda")
    w = torch.randn(256, 256, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            y = torch.relu(x @ w)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x
        for _ in range(10):
            y = torch.relu(y @ w) * 0.05
    for _ in range(100):
        graph.replay()
    torch.cuda.synchronize()
    digest.update(y.cpu().numpy().tobytes())
    print("digest", digest.hexdigest())


main()
