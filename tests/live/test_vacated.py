"""Whose word empties processors: the right agent's, on the right start of the job."""

from __future__ import annotations

import pytest
from serving import Serving, submission

from dq_client import messages as m


@pytest.fixture
def leaving(tmp_path):
    """A killed job of one processor, whose end has been told: its processor is being emptied."""
    server = Serving(tmp_path)
    server.agent_line = server.agent("a", "n1", processors=1)
    user = server.role("user")
    user.call(submission("r"))
    server.agent_line.call(m.AppStarted(1, 1, 100))
    user.call(m.Kill(1))
    server.agent_line.call(m.AppEnded(1, 1, -9))
    assert server.state.processors.vacating == {0: 1}
    yield server
    server.close()


def test_the_word_on_this_start_empties_it(leaving):
    leaving.agent_line.call(m.Vacated(1, 1, [0]))
    assert leaving.state.processors.idle == [0]


@pytest.mark.parametrize("instance", [0, 2])
def test_a_late_word_on_another_start_changes_nothing(leaving, instance):
    """An agent repeats itself until it is acknowledged, perhaps into the next start's end."""
    assert isinstance(leaving.agent_line.call(m.Vacated(1, instance, [0])), m.Done)
    assert leaving.state.processors.vacating == {0: 1}
