"""Means with 95 % confidence intervals by Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev


def t_95(freedom: int) -> float:
    """Return Student's t for a two-sided 95 % interval; within 0.3 % of the tables.

    From 4 degrees of freedom on by its expansion about the normal quantile, else from the tables.
    """
    if freedom <= 3:
        return (12.7062, 4.3027, 3.1824)[freedom - 1]
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def interval(values: Sequence[float]) -> float:
    """Return half the width of the 95 % confidence interval of the mean; NaN for one value."""
    if len(values) < 2:
        return float("nan")
    return t_95(len(values) - 1) * stdev(values) / sqrt(len(values))


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % confidence interval."""
    return fmean(values), interval(values)
