"""The scheduler: one door in, actions out.

`Scheduler.handle(event, now) -> list[Action]` is the only way the state changes. The same events at
the same times give the same actions, live, simulated and replayed.

Theory of operation. Every kind of event has one handler, in the feature whose event it is
(features/). It gets a Turn (turn.py), validates first and changes afterwards: an event that raises
has changed nothing. If it asked for it, one scheduling pass follows: features start what they have
promised, then the order and the start policy say who else starts, then the resize policy names the
jobs that it wants to come to a remap point.
"""

from __future__ import annotations

from collections.abc import Iterable

from dq_server.core import settings
from dq_server.core.feature import Feature
from dq_server.core.features import FEATURES
from dq_server.core.model.actions import Action
from dq_server.core.model.config import SchedulerConfig
from dq_server.core.model.events import Configured, Event
from dq_server.core.model.state import State
from dq_server.core.policies.base import Policies
from dq_server.core.turn import Turn

HANDLERS = FEATURES.handler_of  # of every event but `Configured`, which is the scheduler's own


class Scheduler:
    """The scheduler's state and policies. See the module's docstring."""

    def __init__(self, config: SchedulerConfig | None = None, state: State | None = None) -> None:
        self.state = state or State()
        self.state.features = FEATURES
        self.config: SchedulerConfig
        self.policies: Policies
        self.configure(config or SchedulerConfig())

    def configure(self, config: SchedulerConfig) -> None:
        """Take over a configuration; ConfigError, and nothing changed, if it makes no sense."""
        self.policies = settings.check(config)
        self.config = config
        self.state.ordered = self.policies.order.ordered
        self.state.options = config.of
        self.state.derived.clear()  # of other options

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in one event at time `now` (seconds); returns what shall be done, in order.

        Raises a SchedulerError, having changed nothing, if the event is not legal now.
        """
        turn = self.turn(now)
        self._handle(turn, event)
        if turn.pass_wanted:
            turn.make_pass()
        return turn.actions

    def handle_together(self, batch: Iterable[Event], now: float) -> list[Action]:
        """Take in the events of one instant, all of them legal, then make one scheduling pass.

        Processors that become idle at the same instant are seen together, as in the textbooks.
        """
        turn = self.turn(now)
        turn.batched = True
        for event in batch:
            self._handle(turn, event)
        turn.batched = False
        turn.make_pass()
        return turn.actions

    def _handle(self, turn: Turn, event: Event) -> None:
        if isinstance(event, Configured):
            self.configure(event.config)
            turn.config, turn.policies = self.config, self.policies
            turn.schedule()
        else:
            HANDLERS[type(event)](turn, event)

    def turn(self, now: float) -> Turn:
        """A turn at `now`: for handlers, and for who only wants to ask (explain.py)."""
        return Turn(self.state, self.config, self.policies, FEATURES, now)

    def next_wakeup(self, now: float) -> float | None:
        """When a Tick is needed at the latest if nothing else happens (None: never)."""
        turn = self.turn(now)
        return min((d for f in FEATURES[Feature.deadline] for d in f.deadline(turn)), default=None)
