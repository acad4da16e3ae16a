# SPDX-License-Identifier: Apache-2.0
# The interval of a median, for the benchmarks in Python; as bench/support/pairs.hpp has it.
import random
import statistics


def interval(ratios):
    """The median of `ratios` and its 95 % interval by percentile bootstrap, as text."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(4000))
    return f"{statistics.median(ratios):.4f} [{medians[100]:.4f}, {medians[3899]:.4f}]"
