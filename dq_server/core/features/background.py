"""What processes outside DQ use of the nodes: heard from their agents, remembered by node.

model/background.py says what it is good for.
"""

from __future__ import annotations

from dq_server.core.feature import Feature, handles
from dq_server.core.model import events as ev
from dq_server.core.model.background import Left, LeftSizes, Load, Loads
from dq_server.core.model.jobs import Job
from dq_server.core.model.reasons import Reason
from dq_server.core.turn import Turn


class Background(Feature):
    """See the module's docstring."""

    @handles(ev.BackgroundLoad)
    def changed(self, turn: Turn, event: ev.BackgroundLoad) -> None:
        """The load of a machine is another one now."""
        for name in event.nodes:
            turn.state.processors.node(name)  # UnknownNode
        for name in event.nodes:
            load = Loads.of(turn.state).nodes.setdefault(name, Load())
            if event.processors < load.processors:
                load.before, load.fell_s = load.processors, turn.now
            load.processors = event.processors

    def losing(self, turn: Turn, node: str, reason: Reason) -> None:
        """Nothing is known of it any more."""
        self.left(turn, node)

    def left(self, turn: Turn, node: str) -> None:
        """Nothing is known of it any more."""
        Loads.of(turn.state).nodes.pop(node, None)

    def resize_granted(self, turn: Turn, job: Job) -> None:
        """The job is about to leave its size."""
        node_of = turn.state.processors.node_of
        if turn.config.searches and node_of:
            nodes = list(dict.fromkeys(node_of[p] for p in job.allocation))
            LeftSizes.of(job).sizes[job.size] = Left(turn.now, nodes)
