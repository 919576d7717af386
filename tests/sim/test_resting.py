"""Remap points that need not be reported: the schedule is the one with all of them."""

from __future__ import annotations

from typing import Any

import pytest

from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.events import RemapPoint
from dq_server.core.settings import configured, named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.workload import RigidWorkload
from harness.generators.kit import INTENSIVE, NODES, NORMAL, kit_like
from harness.generators.lublin import lublin


def malleable(rigid: RigidWorkload, nodes: int, **how: Any) -> MalleableWorkload:
    return MalleableWorkload(rigid, nodes, Malleability(**how), seed=1)


# One where jobs wait nearly always, some where many grow and shrink, and one whose jobs of equal
# length start together, so that their remap points fall on the same instants.
LOGS = {
    "lublin": (malleable(lublin(80, 64, load=0.8, seed=1), 64), 64),
    "mixed": (malleable(lublin(80, 64, load=0.6, seed=2), 64, fraction=0.6), 64),
    "kit, full": (malleable(kit_like(60, gaps=INTENSIVE, seed=3), NODES, iterations=40), NODES),
    "kit": (malleable(kit_like(60, gaps=NORMAL, seed=4), NODES, iterations=40), NODES),
    "free moves": (malleable(kit_like(50, gaps=NORMAL, seed=5), NODES, overhead_s=0.0), NODES),
    "in step": (
        malleable(
            RigidWorkload(
                "steps",
                [100.0 * (k // 6) for k in range(60)],
                [64.0 * (1 + k % 3) for k in range(60)],
                [1 + k % 4 for k in range(60)],
            ),
            16,
            iterations=32,
            overhead_s=0.0,
        ),
        16,
    ),
}
CONFIGS = {
    "easy+reshape": named_config("easy+reshape"),
    "reshape": named_config("reshape"),
    "at once": configured(
        named_config("easy+reshape"), samples=1, discard=0, settle=0, threshold=0.0
    ),
}


def reported(simulation: Simulation) -> tuple[int, list[Any]]:
    """How many remap points the scheduler was told of in a run, and all that the run says."""
    count = 0
    handle = simulation.scheduler.handle

    def counting(event: Any, now: float) -> Any:
        nonlocal count
        count += isinstance(event, RemapPoint)
        return handle(event, now)

    simulation.scheduler.handle = counting  # type: ignore[method-assign]
    records = simulation.run()
    simulation.scheduler.state.check()
    resizes = sorted(records.resizes.items())
    return count, [records.start_s, records.end_s, records.processors, resizes, records.metrics()]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("name", LOGS)
def test_the_schedule_is_that_of_all_remap_points(name: str, config: SchedulerConfig) -> None:
    workload, nodes = LOGS[name]
    all_points, expected = reported(Simulation(workload, nodes, config, by_events=True))
    few, found = reported(Simulation(workload, nodes, config))
    assert found == expected
    assert few < all_points
    assert expected[-1]["expands"] > 0


@pytest.mark.parametrize(
    "config",
    [
        named_config("reshape-model"),
        named_config("mebf-spare"),
        configured(named_config("easy+reshape"), order="priority"),
        configured(named_config("easy+reshape"), sweet_spot="search"),
    ],
    ids=["another policy", "one that calls", "order changes with time", "verdicts age"],
)
def test_where_time_or_number_count_no_job_rests(config: SchedulerConfig) -> None:
    workload, nodes = LOGS["lublin"]
    assert Simulation(workload, nodes, config).resting is None
    assert Simulation(workload, nodes, CONFIGS["reshape"]).resting is not None


def test_a_job_that_only_measures_does_not_ask() -> None:
    """Alone it would ask at every size it comes to as often as it discards and samples."""
    workload = malleable(RigidWorkload("one", [0.0], [1000.0], [4]), 16, iterations=60)
    config = CONFIGS["easy+reshape"]
    points, records = reported(Simulation(workload, 16, config))
    resizes = records[-1]["expands"] + records[-1]["shrinks"]
    assert resizes > 2
    assert points == 1 + resizes


@pytest.mark.parametrize("waits", [False, True])
def test_who_measures_gives_way_all_the_same(waits: bool) -> None:
    """It has just grown, and is measuring, when a large job comes that it makes room for."""
    submit_s, run_s, sizes = [0.0, 52.0], [1000.0, 100.0], [2, 6]
    count = 2 if waits else 1
    log = RigidWorkload("room", submit_s[:count], run_s[:count], sizes[:count])
    workload = malleable(log, 8, iterations=100, overhead_s=0.0)
    _, expected = reported(Simulation(workload, 8, CONFIGS["easy+reshape"], by_events=True))
    _, found = reported(Simulation(workload, 8, CONFIGS["easy+reshape"]))
    assert found == expected
    (_, changes), *_ = found[3]
    assert any(change.size < change.before for change in changes[:3]) == waits
