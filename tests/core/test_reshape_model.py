"""The fitted model: what it fits, which sizes it proposes, and where that ends."""

from __future__ import annotations

import math

import pytest

from dq_server.core.model.sizes import RunTime
from tests.core.cluster import MakeCluster

SIZES = (2, 4, 6, 9, 12, 16, 20, 25)
RULE = {"samples": 1, "discard": 0, "settle": 0, "threshold": 0.05}


def visited(
    cluster: MakeCluster,
    times: dict[int, float],
    resize: str,
    points: int = 40,
    sizes: tuple[int, ...] = SIZES,
) -> tuple[list[int], int | None]:
    c = cluster(max(sizes), resize=resize, **RULE)
    job = c.submit(*sizes)
    c.run(job, times, points)
    spot = job.performance.sweet_spot
    return [stay.configuration.size for stay in job.stays], spot.size if spot else None


@pytest.mark.parametrize(
    ("a", "b", "c"), [(3.0, 100.0, 0.5), (0.0, 100.0, 0.0), (5.0, 20.0, 0.0), (0.0, 50.0, 1.0)]
)
def test_a_curve_of_its_kind_is_met_exactly(a: float, b: float, c: float) -> None:
    times = {p: a + b / p + c * p for p in (1, 3, 4, 16)}
    model = RunTime.fitted(times)
    assert (model.serial_s, model.parallel_s, model.per_processor_s) == pytest.approx(
        (a, b, c), abs=1e-6
    )


def test_two_sizes_are_met_and_no_coefficient_is_ever_negative() -> None:
    model = RunTime.fitted({2: 10.0, 4: 6.0})
    assert (model.time_s(2), model.time_s(4)) == pytest.approx((10, 6))
    assert model.per_processor_s == 0
    for times in ({2: 10.0, 4: 3.0}, {2: 10.0, 4: 12.0, 6: 20.0}, {1: 5.0}, {2: 1.0, 4: 9.0, 8: 1}):
        found = RunTime.fitted(times)
        assert min(found.serial_s, found.parallel_s, found.per_processor_s) >= 0
        assert all(0 < found.time_s(p) < math.inf for p in times)


@pytest.mark.parametrize("optimum", [3, 5, 10, 17, 40])
def test_it_ends_where_the_chain_ends_on_smooth_curves_and_tries_fewer_sizes(
    cluster: MakeCluster, optimum: int
) -> None:
    times = {p: 1 + 100 / p + 100 / optimum**2 * p for p in SIZES}
    chain, spot = visited(cluster, times, "reshape")
    model, same = visited(cluster, times, "reshape-model")
    assert same == spot
    assert len(set(model)) <= len(set(chain)) + 1
    if optimum >= 10:
        assert len(set(model)) < len(set(chain))


def test_whatever_the_times_it_comes_to_rest_on_a_size_it_measured(cluster: MakeCluster) -> None:
    for seed in range(60):
        times = {p: 1 + 50 / p + (seed * 2654435761 * p) % 97 / 10 for p in SIZES}
        c = cluster(25, resize="reshape-model", **RULE)
        job = c.submit(*SIZES)
        c.run(job, times, 30)
        assert c.run(job, times, 10) == [(job.size, "continue")] * 10
        spot = job.performance.sweet_spot
        assert spot is None or spot in job.performance.known


def test_the_reason_tells_the_model_and_it_shrinks_for_who_waits(cluster: MakeCluster) -> None:
    c = cluster(25, resize="reshape-model", **RULE)
    job = c.submit(*SIZES)
    times = {p: 1 + 100 / p for p in SIZES}
    c.run(job, times, 2)
    assert job.size == 16
    reason = next(d.reason for d in job.decisions if d.reason.code == "model_probe")
    assert reason.text == (
        "26 s per iteration on 4; 1 + 100/p + 0*p s through 2 sizes expects 7.25 s on 16: try that"
    )
    c.point(job, times[16], carry_out=False)
    c.now += 1
    c.submit(20)
    assert c.point(job, times[16]).reason.code in ("shrink_for_waiting", "waiting_no_shrink")


def test_a_gain_of_exactly_the_threshold_is_none(cluster: MakeCluster) -> None:
    c = cluster(16, resize="reshape-model", **RULE | {"threshold": 0.5})
    job = c.submit(2, 4, 8, 16)
    c.run(job, {p: 20.0 / p for p in (2, 4, 8, 16)}, 6)
    assert [stay.configuration.size for stay in job.stays] == [2, 4, 2]
