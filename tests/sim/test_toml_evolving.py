"""Evolving jobs in hand-written workloads: `dq sim run FILE.toml --policy dfs`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dq_server.core.model.jobs import JobKind, JobSpec
from dq_server.core.model.profile import FIT_RULES, EvolutionProfile
from dq_server.core.policies.registry import SETS
from dq_server.core.settings import configured, named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.evolution import plan_offline
from dq_server.sim.evolving import ProfiledApplication
from dq_server.sim.toml_workload import read_toml
from dq_server.sim.workload import ListedJob, ListedWorkload, configuration
from harness.examples import examples

NODES = 5
queues = st.lists(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, NODES)), min_size=1, max_size=5).map(
        lambda steps: EvolutionProfile(tuple(steps))
    ),
    min_size=1,
    max_size=6,
)

# Fig. 1 of Prabhakaran et al. 2014 in seconds: A asks for what C is waiting for.
FIG_1 = """
[[job]]
name = "A"
kind = "evolving"
processors = 2
run_s = 800
more = 2
ask_at_s = [100]
user = "alice"
[[job]]
name = "B"
processors = 2
run_s = 400
user = "bob"
[[job]]
name = "C"
submit_s = 1
processors = 4
run_s = 100
user = "carol"
"""


def run(tmp_path: Path, text: str, policy: str = "dfs") -> Any:
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    records = Simulation(read_toml(path), 6, named_config(policy)).run()
    return records.end_s.tolist(), records.metrics()["expands"]


def test_fig_1_a_is_refused_when_its_request_delays_c_too_much(tmp_path: Path) -> None:
    # A would be expected back at 800: C would start 400 s late, which the limit of 500 allows.
    assert run(tmp_path, FIG_1) == ([400.0, 400.0, 500.0], 1)
    later = FIG_1.replace("run_s = 800", "run_s = 1000")  # 600 s late
    assert run(tmp_path, later) == ([1000.0, 400.0, 500.0], 0)


def test_static_policies_know_nothing_of_limits(tmp_path: Path) -> None:
    longer = FIG_1.replace("run_s = 800", "run_s = 1000\ngranted_s = 700")
    assert run(tmp_path, longer, "easy") == ([700.0, 400.0, 800.0], 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ask_at_s = [100]", "", "ask_at_s: a list"),
        ("ask_at_s = [100]", "ask_at_s = [200, 100]", "ask_at_s: a list"),
        ("ask_at_s = [100]", 'ask_at_s = ["soon"]', "ask_at_s: a list"),
        ("more = 2", "more = 0", "more, at least 1"),
        ("run_s = 800", "iterations = 5", "run_s and more"),
        ('kind = "evolving"', "", "ask_at_s, more: for jobs of kind evolving"),
    ],
)
def test_what_makes_no_sense_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(WorkloadError, match=says) as caught:
        run(tmp_path, FIG_1.replace(old, new, 1))
    assert "jobs.toml:2: job 1" in str(caught.value)


# --- evolution known in advance: the scheduler carries the profile out ------------------------

KNOWN = """
[[job]]
kind = "evolving"
profile = [[60, 2], [120, 8], [30, 1]]
[[job]]
submit_s = 1
processors = 6
run_s = 59
[[job]]
submit_s = 2
processors = 6
run_s = 100
[[job]]
kind = "evolving"
submit_s = 3
profile = [[20, 1], [50, 7]]
remap_s = 7
"""


def spans(tmp_path: Path, text: str, policy: str = "easy", **config: Any) -> Any:
    path = tmp_path / "jobs.toml"
    path.write_text(text)
    workload = read_toml(path)
    records = Simulation(workload, 8, configured(named_config(policy), **config)).run()
    sizes = {k: [r.size for r in made] for k, made in records.resizes.items()}
    return list(zip(records.start_s, records.end_s, strict=True)), sizes


@pytest.mark.parametrize("policy", [p for p in SETS if p != "mebf-expand+"])
def test_a_profile_is_carried_out_and_others_go_round_it(tmp_path: Path, policy: str) -> None:
    # The second comes to its remap points every 7 s: one second late for its step at 280.
    assert spans(tmp_path, KNOWN, policy) == (
        [(0, 210), (1, 60), (180, 280), (260, 331)],
        {0: [8, 1], 3: [7]},
    )


def test_a_profile_on_its_peak_is_a_rigid_job(tmp_path: Path) -> None:
    times, sizes = spans(tmp_path, KNOWN, fit="rigid")
    assert times == [(0, 210), (210, 269), (269, 369), (369, 439)]
    assert sizes == {}


def test_who_does_not_come_in_time_is_killed(tmp_path: Path) -> None:
    lazy = KNOWN.replace("remap_s = 7", "").replace("30, 1]]", "30, 1]]\nremap_s = 95")
    times, sizes = spans(tmp_path, lazy, profile_grace_s=5.0)
    # at 60 it should have grown and comes at 95; at 180 it should have shrunk: killed at 185
    assert times[0] == (0, 185)
    assert sizes[0] == [8]


@given(queues, st.sampled_from(sorted(FIT_RULES)))
@settings(deadline=None, max_examples=examples(60))
def test_a_queue_of_profiles_ends_as_the_paper_plans_it(queue: Any, fit: Any) -> None:
    jobs = [
        ListedJob(0.0, _spec(one), partial(ProfiledApplication, one.steps), k)
        for k, one in enumerate(queue)
    ]
    config = configured(named_config("easy"), fit=fit)
    records = Simulation(ListedWorkload("profiles", jobs), NODES, config).run()
    planned = plan_offline(queue, NODES, FIT_RULES[fit]).scheduled
    assert list(records.start_s) == [one.start_s for one in planned]
    assert list(records.end_s) == [one.end_s for one in planned]
    held = records.processor_s.tolist()
    assert held == [one.node_seconds for one in planned]


def _spec(one: Any) -> Any:
    shapes = [configuration(size) for size in sorted({nodes for _, nodes in one.steps})]
    first = configuration(one.steps[0][1])
    return JobSpec("", JobKind.EVOLVING, first, tuple(shapes), profile=one.steps)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[60, 2]", "[60.5, 2]", "in whole numbers"),
        ("[60, 2]", "[0, 2]", "step 1: duration 0 is below 1"),
        ("[[60, 2], [120, 8], [30, 1]]", "[]", "a list of"),
        ('kind = "evolving"', "", 'kind = "evolving"'),
        ('kind = "evolving"', 'kind = "evolving"\nrun_s = 5', "run_s: not for a job with a prof"),
        ("processors = 6", "processors = 6\nremap_s = 1", "remap_s: for jobs with a profile"),
    ],
)
def test_profiles_that_make_no_sense_are_named_with_their_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    with pytest.raises(WorkloadError, match=says):
        spans(tmp_path, KNOWN.replace(old, new, 1))


def test_a_profile_above_the_machine_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(KNOWN)
    records = Simulation(read_toml(path), 6, named_config("easy")).run()
    assert records.notes == {"left out: larger than 6 nodes": 2}


def test_a_request_for_more_than_there_is_is_rejected_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(
        """
        [[job]]
        kind = "evolving"
        processors = 2
        min = 1
        max = 4
        more = 1
        ask_at_s = [5, 7]
        run_s = 20
        """
    )
    records = Simulation(read_toml(path), 2, named_config("easy")).run()
    assert records.notes == {"requests refused: more than the machine, or a quota, has": 1}
    assert records.end_s[0] == 20.0
