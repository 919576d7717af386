"""What a job's remap points tell of its times, and which sizes and values are known by name."""

from __future__ import annotations

from typing import Literal

import pytest

from dq_server.core.model import events as ev
from dq_server.core.model.errors import InvalidTransition
from dq_server.core.model.options import decoded
from dq_server.core.model.sizes import RunTime, configuration, size_chain
from tests.core.cluster import MakeCluster


def test_more_samples_than_eight_are_a_window_of_that_length(cluster: MakeCluster) -> None:
    c = cluster(1, samples=9, discard=0)
    job = c.submit(1, 2)
    for time_s in (0.0, 9.0, *[1.0] * 4, *[2.0] * 4):
        c.point(job, time_s)
    assert job.performance.known[configuration(1)] == 2.0, "the first one is forgotten"


@pytest.mark.parametrize("times_s", [{1: 5.0, 2: 5.2, 4: 5.0}, {1: 4.9, 2: 5.0, 4: 4.9}])
def test_times_that_do_not_depend_on_the_size_are_serial_work(times_s: dict[int, float]) -> None:
    fitted = RunTime.fitted(times_s)
    assert (fitted.parallel_s, fitted.per_processor_s) == (0.0, 0.0)
    assert fitted.serial_s == pytest.approx(sum(times_s.values()) / 3, rel=0.01)


def test_the_square_chain_is_the_thesis_one() -> None:
    assert size_chain("square", 1, 25) == (1, 2, 4, 6, 9, 12, 16, 20, 25)
    assert size_chain("square", 3, 20) == (4, 6, 9, 12, 16, 20)


def test_a_value_is_read_as_the_first_type_that_takes_it() -> None:
    kind = int | Literal["all"] | list[int] | None
    assert [decoded(value, kind) for value in (3, "all", [1, 2], None)] == [3, "all", [1, 2], None]
    with pytest.raises(TypeError, match="'none' is not a whole number or"):
        decoded("none", kind)


def test_a_text_is_no_list_of_its_letters() -> None:
    for kind in (tuple[str, ...], list[str]):
        with pytest.raises(TypeError, match="'TOKEN' is no list"):
            decoded("TOKEN", kind)


@pytest.mark.parametrize("policy", ["reshape", "reshape-model", "intensive"])
def test_a_clock_that_says_zero_breaks_no_decision(cluster: MakeCluster, policy: str) -> None:
    start = "easy" if policy == "intensive" else "fcfs"
    c = cluster(4, resize=policy, start=start, samples=1, discard=0)
    job = c.submit(1, 2, 4, estimate_s=100.0)
    for time_s in (0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0):
        c.point(job, time_s)
    c.submit(2, start=2)
    for time_s in (0.0, 1.0, 0.0):
        c.point(job, time_s)
    assert job.planned_end_s < float("inf")


@pytest.mark.parametrize("time_s", [-1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused_and_changes_nothing(
    cluster: MakeCluster, time_s: float
) -> None:
    c = cluster(2, samples=1, discard=0)
    job = c.submit(1, 2)
    with pytest.raises(InvalidTransition, match="reports an iteration of"):
        c.do(ev.RemapPoint(job.id, job.instance, 1, 1, 0, time_s))
    with pytest.raises(InvalidTransition, match="reports an iteration of"):
        c.do(ev.PointsPassed(job.id, job.instance, 3, time_s))
    assert job.remap_points == 0 and not job.performance.known
