"""One to three processes killed or stopped at one moment: a short form of harness/together.py."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import process_tree
from dq_client.deploy import local
from harness.live import Live
from harness.together import Together

pytestmark = [pytest.mark.live, pytest.mark.alone, pytest.mark.timeout(400)]

SEED, ROUNDS = 3, 4  # who dies follows from the seed, and from the order of the processes' pids


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv("DQ_REPORT_INTERVAL", "0")
    made = Live(tmp_path / "home")
    yield made
    made.run("down", "--force")
    process_tree.kill(local.leftovers(made.home))


def test_nothing_is_lost_wrong_or_left(live: Live, tmp_path: Path) -> None:
    together = Together(live, tmp_path, random.Random(SEED))
    story = list(together.run(ROUNDS))
    assert not together.faults, "\n".join([*together.faults, *story])
