#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Colours of the HTML page's timeline are far enough apart, also to eyes without one kind of cone: any two of PALETTE
(names), any two of OWNER (owners of time, see breakdown.hpp), and each of PALETTE from those of copies and memsets.

  colors.py ROOT

How a colour is seen: Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color Vision
Deficiency" (IEEE TVCG 15, 2009), severity 1. How far two are apart: CIE 1976, where 2.3 is just noticeable."""
import itertools
import math
import re
import sys

LEAST = 16

SEEN = {
    "by most": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "without red cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "without green cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "without blue cones": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE = (0.95047, 1, 1.08883)


def times(matrix, vector):
    return [sum(m * v for m, v in zip(row, vector)) for row in matrix]


def lab(color, seen):
    values = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    xyz = times(TO_XYZ, [min(1, max(0, v)) for v in times(SEEN[seen], linear)])
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (v / w for v, w in zip(xyz, WHITE)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def alike(pairs, what):
    found = 0
    for (a, b), seen in itertools.product(pairs, SEEN):
        far = math.dist(lab(a, seen), lab(b, seen))
        if far < LEAST:
            print(f"{what}: {a} and {b} are {far:.1f} apart {seen}, not {LEAST}")
            found += 1
    return found


def main(root):
    text = open(root + "/assets/html/timeline.js", encoding="utf-8").read()
    palette, owners = (re.findall(r"#[0-9a-f]{6}", re.search(rf"^const {name} = (.*);$", text, re.M)[1])
                       for name in ("PALETTE", "OWNER"))
    if len(palette) != 10 or len(owners) != 11:
        print("timeline.js has not the ten colours of names and the eleven of owners that this looks for")
        return 1
    bad = alike(itertools.combinations(owners, 2), "owners of time") + alike(itertools.combinations(palette, 2), "names")
    bad += alike(itertools.product(palette, owners[1:3]), "a kernel's and that of copies or sets")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
