"""Slurm takes nodes back in every way that it has, and jobs leave them and go on.

A job leaves at its next remap point, so it must go on if it reached one while it had its notice:
the journal has the times of the notice and of each remap point. Where it reached none, the machine
was late. That is counted, and is no fault, nor is a notice of less than a second.
"""

from __future__ import annotations

import json
import random
import time
import warnings
from dataclasses import dataclass, field
from itertools import product

import pytest

from tests.on_batch_system import Json
from tests.slurm.minislurm import MiniSlurm
from tests.slurm.on_slurm import OnSlurm

# Each tracker with each GraceTime and each KillWait; the other pairs are left to the slow tests.
USUAL = {("linuxproc", 0, 30), ("linuxproc", 10, 2), ("cgroup", 0, 2), ("cgroup", 10, 30)}
SITES = [
    pytest.param(
        (tracking, {"grace_s": grace_s, "kill_wait_s": kill_wait_s}),
        marks=[] if (tracking, grace_s, kill_wait_s) in USUAL else pytest.mark.slow,
    )
    for tracking, grace_s, kill_wait_s in product(("linuxproc", "cgroup"), (0, 10), (2, 30))
]
ON_SITES = pytest.mark.parametrize("slurm", SITES, indirect=True, scope="module", ids=str)
pytestmark = [pytest.mark.live, pytest.mark.slurm, ON_SITES]

SHORT = {"scancel": 1, "preemption": 1, "USR2": 1}  # on each site
LONG = {"scancel": 20, "preemption": 20}  # on each site
LATE = ("was to be empty within", "did not leave in time")
NOTICE_S = 1.0  # with less of it nobody can leave

Event = tuple[float, str, Json]


@dataclass
class Count:
    """What became of the job, by way."""

    left: dict[str, list[float]] = field(default_factory=dict)  # seconds until the node had left
    late: list[str] = field(default_factory=list)  # reasons: the deadline had passed


def started(on_slurm: OnSlurm) -> int:
    """A job on three of the four nodes; the fourth takes the place of one that goes."""
    words = ["-n", 3, "--sizes", "1,2,3", "--", "python", "-m", "tests.live.growing", "--n", 96]
    job = on_slurm.submit(*words, "--iterations", 100_000, "--seconds", 0.3)
    on_slurm.wait(job, lambda j: j["remap_points"] > 20, 120)
    return job


def take_back(slurm: MiniSlurm, holder: int, node: str, way: str) -> None:
    """One of the ways."""
    if way == "scancel":
        slurm.run("scancel", holder)
    elif way == "USR2":
        slurm.run("scancel", "--batch", "--signal=USR2", holder)
    else:
        slurm.run("sbatch", "--partition=urgent", f"--nodelist={node}", "--output=/dev/null",
                  "--wrap", "sleep 1")  # fmt: skip


def could_leave(story: list[Event], job: int, node: str, ticket: int) -> bool:
    """Whether the job came to a remap point with notice, and half of it and a second were left."""
    notices = list[tuple[float, float]]()  # when it came, when the node ends
    for at_s, kind, body in story:
        if node == body.get("node") if kind == "DrainRequested" else ticket == body.get("ticket"):
            if kind in ("TicketRevoked", "DrainRequested"):
                notices.append((at_s, at_s + body["within_s"]))
            elif kind == "TicketStarted":  # its end was moved
                notices.append((at_s, body["until_s"]))
    assert notices, f"no notice of {node}: {[kind for _, kind, _ in story]}"
    begun_s, ends_s = min(notices)[0], min(end_s for _, end_s in notices)
    left_s = max(NOTICE_S, (ends_s - begun_s) / 2)
    came = [at_s for at_s, kind, body in story if kind == "RemapPoint" and body["job"] == job]
    return any(begun_s < at_s <= ends_s - left_s for at_s in came)


def one(
    on_slurm: OnSlurm, slurm: MiniSlurm, job: int, way: str, rng: random.Random
) -> tuple[Json, bool]:
    """Take one of the job's nodes back; the job when it has gone, and whether it could leave."""
    node = rng.choice(sorted(on_slurm.job(job)["nodes"]))
    ticket = on_slurm.ticket_of(node)
    (holder,) = (j for j, t in on_slurm.holders().items() if t == ticket)
    before = len(on_slurm.journal())
    take_back(slurm, holder, node, way)
    on_slurm.until(lambda: holder not in on_slurm.holders(), 90)
    # By the agent's word or Slurm's; at a preemption Slurm may have moved the end before either.
    notes = [d for d in on_slurm.pool()["decisions"] if d["ticket"] == ticket]
    revoked = [d["text"] for d in notes if d["what"] == "revoke"]
    assert revoked or way == "preemption", notes
    assert all("batch system" in text or "Slurm job" in text for text in revoked), revoked
    return on_slurm.job(job), could_leave(on_slurm.journal()[before:], job, node, ticket)


def _goes_on(on_slurm: OnSlurm, job: int, iterations: int) -> None:
    until = int(on_slurm.job(job)["remap_points"]) + iterations
    on_slurm.wait(job, lambda j: int(j["remap_points"]) >= until, 90)


def taken_back(on_slurm: OnSlurm, slurm: MiniSlurm, times: dict[str, int]) -> Count:
    """Each way so often, in an order of the dice."""
    rng, count = random.Random(f"{sorted(times)} of 44"), Count()
    on_slurm.up_with("min = 4\nidle_s = 600\nretry_s = 1\nretry_max_s = 1")
    ways = [way for way, count_of in times.items() for _ in range(count_of)]
    rng.shuffle(ways)
    job = started(on_slurm)
    for way in ways:
        _goes_on(on_slurm, job, 5)  # it may be about to grow
        begun_s = time.monotonic()
        view, could = one(on_slurm, slurm, job, way, rng)
        if view["state"] == "running":
            assert view["restarts"] == 0, view["sizes"]
            count.left.setdefault(way, []).append(round(time.monotonic() - begun_s, 1))
            continue
        assert not could, f"{way}: it could leave, and ended: {view['reason']}"
        assert any(word in str(view["reason"]) for word in LATE), f"{way}: {view['reason']}"
        count.late.append(f"{way}: {view['reason']}")
        job = started(on_slurm)
    on_slurm.dq("kill", job)
    return count


def told(count: Count, where: str) -> None:
    kept = {way: len(seconds) for way, seconds in count.left.items()}
    print(json.dumps({"where": where, "went on": kept, "seconds": count.left, "late": count.late}))
    if count.late:
        warnings.warn(f"{where}: {len(count.late)} deadlines passed: {count.late}", stacklevel=1)


def test_a_job_outlives_every_way_in_which_slurm_takes_a_node_back(
    on_slurm: OnSlurm, slurm: MiniSlurm, request: pytest.FixtureRequest
) -> None:
    told(taken_back(on_slurm, slurm, SHORT), request.node.callspec.id)


@pytest.mark.slow
def test_twenty_times(on_slurm: OnSlurm, slurm: MiniSlurm, request: pytest.FixtureRequest) -> None:
    told(taken_back(on_slurm, slurm, LONG), request.node.callspec.id)
