"""Models of speed-up, and the malleable jobs that are made with them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.speedup import MODELS, amdahl, downey, largest_with, linear, nearest_rho, power
from dq_server.sim.workload import RigidWorkload
from harness.examples import examples
from harness.generators.lublin import lublin


def test_values_by_hand() -> None:
    assert amdahl(4, 0.25) == pytest.approx(1 / (0.25 + 0.75 / 4))
    assert amdahl(10**9, 0.1) == pytest.approx(10, rel=1e-6)
    assert power(8, 1 / 3) == pytest.approx(4)
    # Downey 1997: sigma = 0 is linear up to A; sigma = 1 meets at A in both formulas
    assert downey(5, 8, 0.0) == pytest.approx(5)
    assert downey(100, 8, 0.0) == 8
    assert downey(8, 8, 1.0) == pytest.approx(8 * 8 / (8 + 3.5))
    assert downey(8, 8, 1.0 + 1e-12) == pytest.approx(downey(8, 8, 1.0))
    assert downey(8 + 16 - 2, 8, 2.0) == pytest.approx(8)
    # each further processor costs 10 % of efficiency: most at 5, then it stays
    assert [round(linear(n, 0.1), 9) for n in (1, 2, 5, 9)] == [1, 1.8, 3, 3]


@given(st.data())
@settings(max_examples=examples(200), deadline=None)
def test_speed_up_never_falls_and_efficiency_never_rises(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(MODELS)))
    model = MODELS[name]
    limits = {"parallelism": (0.1, 20.0), "sigma": (0.0, 5.0)}
    drawn = [data.draw(st.floats(*limits.get(p, (0.0, 1.0)))) for p in model.ranges]
    speedup = model.make(data.draw(st.integers(1, 60)), *drawn)
    values = [speedup(n) for n in range(1, 130)]
    assert values[0] == pytest.approx(1)
    assert all(b >= a - 1e-9 for a, b in pairwise(values))
    efficiency = [value / n for n, value in enumerate(values, 1)]
    assert all(b <= a + 1e-9 for a, b in pairwise(efficiency))
    wanted = data.draw(st.floats(0.05, 1.0))
    enough = [n for n, e in enumerate(efficiency, 1) if e >= wanted]
    assert largest_with(speedup, wanted, 129) == max(enough, default=1)


def test_the_nearest_power_law_of_a_power_law_is_itself() -> None:
    assert nearest_rho(lambda n: power(n, 0.3), 2, 17) == pytest.approx(0.3)
    assert nearest_rho(lambda n: power(n, 0.3), 4, 4) == 0


RIGID = RigidWorkload("w", [0.0, 1.0], [100.0, 50.0], [8, 2], [200.0, 60.0])


def test_sizes_by_efficiency() -> None:
    """Amdahl with a serial share of 0.1: E(n) = 1 / (1 + 0.1 (n - 1))."""
    how = Malleability(model="amdahl", serial=(0.1, 0.1), efficiency=(0.8, 0.6, 0.4))
    workload = MalleableWorkload(RIGID, 64, how, 0)
    spec = workload.spec(0)
    assert [c.size for c in spec.configurations] == list(range(3, 17))  # E(3), E(16)
    assert spec.initial.size == workload.size(0) == 7  # E(7) = 0.625, E(8) = 0.588
    ratio = amdahl(8, 0.1) / amdahl(7, 0.1)
    assert workload.static_run_s[0] == pytest.approx(100 * ratio)
    assert spec.estimate_s == pytest.approx(200 * ratio)
    assert spec.planned_on_s(8) == pytest.approx(200)
    assert spec.planned_on_s(16) == pytest.approx(200 * amdahl(8, 0.1) / amdahl(16, 0.1))


def test_sizes_by_factors_and_powers_of_two() -> None:
    how = Malleability(smallest=0.25, preferred=0.5, largest=2, chain="powers", rho=(0.0, 0.0))
    workload = MalleableWorkload(RIGID, 12, how, 0)
    assert [[c.size for c in workload.spec(k).configurations] for k in (0, 1)] == [
        [2, 4, 8],
        [1, 2, 4],
    ]
    assert [workload.size(k) for k in (0, 1)] == [4, 1]
    assert list(workload.static_run_s) == [200, 100]  # the same work on half of the processors


def test_more_sizes_than_can_be_listed_are_refused() -> None:
    wide = RigidWorkload("wide", [0.0], [10.0], [200_000])
    with pytest.raises(WorkloadError, match="wide: job 1: sizes from 100000 to 1000000: more than"):
        MalleableWorkload(wide, 1_000_000, Malleability(), 0).spec(0)
    assert MalleableWorkload(wide, 10**6, Malleability(chain="powers"), 0).spec(0).configurations


@pytest.mark.parametrize("model", sorted(MODELS))
def test_every_model_is_simulated_and_conserves_work(model: str) -> None:
    rigid = lublin(200, 32, load=0.9, seed=1)
    how = Malleability(0.6, model=model, overhead_s=0.0)
    workload = MalleableWorkload(rigid, 32, how, 2)
    records = Simulation(workload, 32, named_config("mebf-spare")).run()
    assert len(records.ran) == 200
    never = [k for k in records.ran.tolist() if k not in records.resizes]
    for k in never:
        ratio = 1.0
        if workload.malleable(k):
            known = workload.spec(k).scalability
            assert known is not None
            ratio = known.ratio(records.processors[k])
        assert records.end_s[k] - records.start_s[k] == pytest.approx(rigid.run_s[k] * ratio)


def test_slowdown_is_over_the_time_on_the_preferred_size() -> None:
    """A job that waits 0 s and runs faster than its static run has a slowdown of 1, not more."""
    rigid = lublin(300, 32, load=1.2, seed=3)
    workload = MalleableWorkload(rigid, 32, Malleability(), 1)
    records = Simulation(workload, 32, named_config("mebf-spare")).run()
    static_s = np.array(rigid.run_s)[records.ran]
    expected = np.maximum(1, records.turnaround / np.maximum(static_s, 10))
    assert records.bounded_slowdown == pytest.approx(expected)
    figures = records.metrics()
    assert figures["p95_wait_s"] == pytest.approx(np.percentile(records.wait, 95))
    assert figures["median_turnaround_s"] == pytest.approx(np.median(records.turnaround))


def test_the_default_is_the_papers_and_a_range_of_nothing_is_one_value() -> None:
    drawn = MalleableWorkload(RIGID, 64, replace(Malleability(), rho=(0.2, 0.2)), 5)
    known = drawn.spec(0).scalability
    assert known is not None
    assert (known.preferred, known.rho) == (8, 0.2)
