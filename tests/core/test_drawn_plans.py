"""Plans of drawn applications, and whole simulated schedules: as they were when recorded.

For the properties that any plan has see test_evolution_*.py and tests/sim; here every choice that
a plan makes is compared, with the digests of recording.py.
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest

from dq_server.core.model.errors import SchedulerError
from dq_server.core.model.profile import FIT_RULES, EvolutionProfile
from dq_server.core.settings import configured
from dq_server.sim.engine import Simulation
from dq_server.sim.evolution import plan_ahead, plan_offline
from dq_server.sim.malleable import Malleability, MalleableWorkload
from dq_server.sim.output import Run, csv_lines
from dq_server.sim.workload import RigidWorkload, Workload
from harness.plan_metrics import measure
from tests.core.online_planner import OnlinePlanner
from tests.core.recording import Recorder

SEEDS = range(25)


def drawn_profile(rng: Random, nodes: int) -> EvolutionProfile:
    steps = [(rng.randint(1, 9), rng.randint(1, nodes)) for _ in range(rng.randint(1, 6))]
    return EvolutionProfile(tuple(steps))


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_of_a_queue(recorded: Recorder, seed: int) -> None:
    rng = Random(f"queue {seed}")
    nodes = rng.randint(2, 9)
    queue = [drawn_profile(rng, nodes) for _ in range(rng.randint(2, 12))]
    rigid = plan_offline(queue, nodes, FIT_RULES["rigid"])
    for name, rule in sorted(FIT_RULES.items()):
        plan = plan_offline(queue, nodes, rule)
        ahead = [plan_ahead(queue, nodes, rule, horizon) for horizon in (0, 3, 11)]
        recorded.add(
            name, [p.scheduled for p in (plan, *ahead)], measure(queue, plan, rigid, nodes)
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_of_applications_that_come_and_go(recorded: Recorder, seed: int) -> None:
    rng = Random(f"online {seed}")
    nodes, now, present = rng.randint(2, 9), 0, list[int]()
    rule = FIT_RULES[rng.choice(sorted(FIT_RULES))]
    planner = OnlinePlanner(nodes, rule, 0, rng.choice((0, 4, 15, inf)))
    for app in range(40):
        now += rng.choice((0, 0, 1, 3, 8))
        at, planned = (now - 5 if rng.random() < 0.1 else now), present.copy()
        try:
            match rng.randrange(4):
                case 0 if present:
                    leaver = present.pop(rng.randrange(len(present)))
                    recorded.add(str(planner.remove(leaver, at)))
                case 1:
                    planner.advance(at)
                case _:
                    planner.submit(app, drawn_profile(rng, nodes + 1), at)
                    present.append(app)
        except SchedulerError as refused:  # it cannot run here, or the time is over
            present = planned
            recorded.add(str(refused))
        recorded.add(now, [planner.scheduled(a) for a in present], planner.waiting(now))
        recorded.add(str(planner.resource), planner.next_reveal())


POLICIES: tuple[dict[str, Any], ...] = (
    {"start": "fcfs", "resize": "none"},
    {"start": "easy", "resize": "none"},
    {"start": "easy", "resize": "none", "moldable": True},
    {"start": "conservative", "resize": "none", "order": "priority"},
    {"start": "reservations", "resize": "none", "reservation_depth": 2, "order": "fairshare"},
    {"start": "easy", "resize": "reshape"},
    {"start": "easy", "resize": "reshape", "sweet_spot": "search", "samples": 1},
    {"start": "fcfs", "resize": "reshape-model"},
    {"start": "easy", "resize": "handoff", "moldable": True},
    {"start": "easy", "resize": "spare", "mebf_partial": False, "mebf_also": "expand"},
    {"start": "easy", "resize": "intensive", "mebf_also": "shrink", "backfill_smaller": False},
)


def drawn_workload(rng: Random, nodes: int) -> RigidWorkload:
    """Times of few different seconds: many things happen at the same moment."""
    count, at_s, submits = 120, 0, []
    for _ in range(count):
        at_s += rng.choice((0, 0, 1, 2, 5, 20))
        submits.append(float(at_s))
    runs = [float(rng.choice((1, 2, 5, 5, 20, 60))) for _ in range(count)]
    estimates = [run * rng.choice((1, 1, 1, 2, 3)) for run in runs]
    sizes = [min(nodes, rng.choice((1, 1, 2, 3, 4, 8, nodes))) for _ in range(count)]
    users = [rng.randrange(4) for _ in range(count)]
    return RigidWorkload("drawn", submits, runs, sizes, estimates, users=users)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_schedules_of_drawn_workloads(recorded: Recorder, number: int, seed: int) -> None:
    policy, rng = POLICIES[number], Random(f"workload {seed}")
    nodes = rng.choice((5, 8, 16))
    workload: Workload = drawn_workload(rng, nodes)
    if policy["resize"] != "none" or policy.get("moldable"):
        how = Malleability(rng.choice((0.5, 1.0)), overhead_s=rng.choice((0.0, 1.0)), iterations=20)
        workload = MalleableWorkload(drawn_workload(rng, nodes), nodes, how, seed)
    records = Simulation(workload, nodes, configured(**policy)).run()
    told = list(csv_lines([Run("policy", records, {})]))
    recorded.add(told, records.metrics(), records.notes)
