"""Whose word empties processors: the right agent's, on the right start of the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dq_client.base import messages as m
from tests.live.serving import Serving, submission


class Leaving(Serving):
    """A server with an agent of one processor."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.agent_line = self.agent("a", "n1", processors=1)


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[Leaving]:
    """A killed job of one processor, whose end has been told: its processor is being emptied."""
    server = Leaving(tmp_path)
    user = server.role("user")
    user.call(submission("r"))
    server.agent_line.call(m.AppStarted(1, 1, 100))
    user.call(m.Kill(1))
    server.agent_line.call(m.AppEnded(1, 1, -9))
    assert server.state.processors.vacating == {0: 1}
    yield server
    server.close()


def test_the_word_on_this_start_empties_it(leaving: Leaving) -> None:
    leaving.agent_line.call(m.Vacated(1, 1, [0]))
    assert leaving.state.processors.idle == [0]


@pytest.mark.parametrize("instance", [0, 2])
def test_a_late_word_on_another_start_changes_nothing(leaving: Leaving, instance: int) -> None:
    """An agent repeats itself until it is acknowledged, perhaps into the next start's end."""
    assert isinstance(leaving.agent_line.call(m.Vacated(1, instance, [0])), m.Done)
    assert leaving.state.processors.vacating == {0: 1}
