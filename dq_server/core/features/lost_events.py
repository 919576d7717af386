"""After a loss of events: what they have numbered is still there, so no number is given again.

A job that was submitted in the lost events may have processes, and one that waits as far as we know
may have been started in them. Under a number that was used again an agent would take the old
processes for the new ones.
"""

from __future__ import annotations

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.pool import Pool
from dq_server.core.model.reasons import because, declare
from dq_server.core.queue_again import queue_again
from dq_server.core.turn import Turn

# For people, who read them: after two losses of the same events two jobs may have had a number, but
# no two starts of jobs.
JOBS_SKIPPED = 100_000
RESIZES_BITS = 20  # of an epoch

declare(start_lost="no agent knows of start {instance}, and the journal has lost what became of it")


class LostEvents(Feature):
    """See the module's docstring."""

    @handles(ev.EventsLost)
    def lost(self, turn: Turn, event: ev.EventsLost) -> None:
        """Go on above all numbers that may have been given; start again what is unknown."""
        state = turn.state
        for job in [state.active[j] for j in event.unknown if j in state.active]:
            queue_again(turn, job, because("start_lost", instance=job.instance))
        if not event.epoch:
            return
        state.next_job += JOBS_SKIPPED
        state.next_instance = max(state.next_instance, event.epoch)
        state.next_resize = max(state.next_resize, event.epoch << RESIZES_BITS)
        if Pool.known(state) is not None:
            pool = Pool.of(state)
            pool.next_ticket = max(pool.next_ticket, event.epoch)
