"""Lives of a cluster that nobody thought of: what was decided in them is decided again.

See drawn_life.py and recording.py. The invariants are checked after each event.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from dq_server.core.model.jobs import JobState
from dq_server.core.recorded import Facts, Following, settle
from dq_server.core.settings import configured
from tests.core.cluster import MakeCluster
from tests.core.drawn_life import Life
from tests.core.recording import Recorder

LIVES, EVENTS = 120, 250
TOLD_EVERY = 10  # events
OTHER = {"start": "fcfs", "resize": "none", "grant": "always", "order": "fcfs", "mebf_also": ""}


@pytest.mark.parametrize("seed", range(LIVES))
def test_a_drawn_life_is_as_it_was(recorded: Recorder, seed: int) -> None:
    life = Life(seed)
    for n in range(EVENTS):
        life.happens()
        if n % TOLD_EVERY == 0:
            recorded.add(life.told())
    life.wait(1000.0)
    recorded.add(life.told())


@pytest.mark.parametrize("seed", range(240, 270))
def test_what_was_done_in_a_life_is_kept_under_other_policies(
    recorded: Recorder, seed: int
) -> None:
    life = Life(seed)
    for _ in range(EVENTS):
        life.happens()
    config = configured(life.scheduler.config, **OTHER)
    following, facts, story = Following(config), Facts(), list(recorded.story)
    for now, event, actions in story:
        ours = None
        with suppress(Exception):  # whatever other rules lead to, as live/store/recovery.py does
            ours = following.follow(event, now, actions)
        facts.take_in(event, actions, ours)
    recorded.add(settle(following, facts, life.now))
    following.state.check()
    assert not facts.lost(following.state)
    for job in following.state.active.values():
        assert job.state is JobState.KILLING or job.id in facts.starts, "nobody has started it"


SPOTS: tuple[dict[str, Any], ...] = (
    {"resize": "reshape", "sweet_spot": "search"},
    {"resize": "reshape", "sweet_spot": "search", "spot": {"retry": 3, "share": 0.3, "window": 8}},
    {"resize": "reshape-model", "sweet_spot": "search", "spot": {"retry": 3, "share": 0.3}},
    {"resize": "reshape", "grids": "spot"},
    {"resize": "reshape-model"},
)


@pytest.mark.parametrize("seed", range(10))
def test_a_long_run_under_times_that_change(cluster: MakeCluster, seed: int) -> None:
    """One or two jobs, some hundred remap points; now and then iterations take other times."""
    rng = Random(f"run {seed}")
    c = cluster(9, **SPOTS[seed % len(SPOTS)], **rng.choice(({}, {"samples": 1, "settle": 0})))
    chain = rng.choice(((1, 2, 4, 6, 9), (1, 2, 3, 4), (1, 2, "1x4", "2x2", "4x1", 6)))
    jobs = [c.submit(*chain, start=2) for _ in range(rng.randint(1, 2))]
    loops = rng.choice((("",), ("",), ("", "second")))
    curve, noise = (0.0, 1.0, 0.0), rng.choice((0.0, 0.02, 0.1))
    for n in range(400):
        if n % 80 == 0:
            curve = rng.uniform(0, 0.5), rng.uniform(0.1, 4), rng.choice((0.0, 0.05, 0.3))
        job = rng.choice(jobs)
        serial, parallel, each = curve
        assert job.configuration is not None
        wide = 1 + 0.1 * (job.configuration.cols - job.configuration.rows)
        time_s = wide * (serial + parallel / job.size + each * job.size)
        c.point(job, time_s * rng.lognormvariate(0, noise), loop=rng.choice(loops))
