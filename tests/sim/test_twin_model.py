"""The model that the simulation twin fits from a live run."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model.config import SchedulerConfig
from experiments.twin import fit, simulate

TIMES_S = {4: 1.0, 6: 0.7, 9: 0.5}
SLOWER, START_S, RESIZE_S = 1.1, 0.5, 0.4


def lived(name: str, *stays: Any) -> Any:
    """A job as `dq job --json` tells it: stays as (processors, iterations)."""
    sizes, now_s = [], 100.0
    for number, (size, count) in enumerate(stays):
        told = {"processors": size, "iterations": count, "iteration_time_s": TIMES_S[size]}
        sizes.append({**told, "since_s": now_s})
        now_s += SLOWER * count * TIMES_S[size] + (START_S * size if number == 0 else RESIZE_S)
    return {
        "name": name, "submit_s": 100.0, "start_s": 100.0, "end_s": now_s,
        "legal_sizes": [4, 6, 9], "sizes": sizes,
    }  # fmt: skip


JOBS = [lived("a", (4, 3), (6, 4), (9, 30)), lived("b", (4, 20)), lived("c", (6, 5), (9, 9))]


def test_what_was_put_in_comes_out() -> None:
    model = fit(JOBS)
    assert model.start_per_rank_s == pytest.approx(START_S)
    assert model.resize_s == pytest.approx(RESIZE_S)
    assert [model.iteration_s(size) for size in TIMES_S] == pytest.approx([1.1, 0.77, 0.55])
    assert 0.55 < model.iteration_s(8) < 0.77


def test_a_job_that_stays_on_its_size_takes_as_long_in_simulation() -> None:
    rigid = {**lived("b", (4, 20)), "legal_sizes": [4]}
    (ran,) = simulate([rigid], [20], 8, SchedulerConfig())
    assert ran.end_s - ran.start_s == pytest.approx(rigid["end_s"] - rigid["start_s"], rel=0.05)
