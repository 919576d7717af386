"""Lives of a cluster that nobody thought of: what was decided in them is decided again.

See drawn_life.py and recording.py. The invariants are checked after each event.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from dq_server.core.model.jobs import JobState
from dq_server.core.recorded import Facts, Following, settle
from dq_server.core.settings import configured
from tests.core.drawn_life import Life
from tests.core.recording import Recorder

LIVES, EVENTS = 160, 250
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


@pytest.mark.parametrize("seed", range(LIVES, LIVES + LIVES // 4))
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
        with suppress(Exception):  # whatever other rules lead to, as live/recovery.py does
            ours = following.follow(event, now, actions)
        facts.take_in(event, actions, ours)
    recorded.add(settle(following, facts, life.now))
    following.state.check()
    assert not facts.lost(following.state)
    for job in following.state.active.values():
        assert job.state is JobState.KILLING or job.id in facts.starts, "nobody has started it"
