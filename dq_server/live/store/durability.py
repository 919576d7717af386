"""Which events somebody relies on: they are on the disk before they are acknowledged."""

from __future__ import annotations

from dq_server.core.model import events as ev
from dq_server.core.model.actions import Action, AnswerRemap

# Without actions nothing follows from them, and if one is lost, it is said or found out again: at
# the next remap point, in the next heartbeat, by the next copy.
SAID_AGAIN = (
    ev.RemapPoint,
    ev.CopyMade,
    ev.RankReported,
    ev.ResizeCommitted,
    ev.JobStarted,
    ev.ProcessorsVacated,
    ev.UsageMeasured,
    ev.NodeJoined,
    ev.GrantsPaused,
    ev.Tick,
)


def relied_on(event: ev.Event, actions: list[Action]) -> bool:
    """Whether somebody will act on this event's outcome, or on its being known."""
    if not actions:  # of a wish, or of a word after which ranks end
        return not isinstance(event, SAID_AGAIN)
    return not all(isinstance(a, AnswerRemap) and a.answer.what == "continue" for a in actions)
