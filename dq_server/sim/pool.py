"""The pool of a simulation: `--pool` in words, the engine that nodes come from, and what they cost.

The engine grants every request at once; the node is paid for from then on, and joins after its
start-up time, which may be drawn anew for each node. A node given back is paid for until then.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dq_server.core.model.actions import AskNodes, GiveNode, NodeEmptied
from dq_server.core.model.errors import ConfigError, known_words
from dq_server.core.model.events import Event, NodeJoined, NodeLeft, TicketEnded, TicketStarted
from dq_server.core.model.options import decoded
from dq_server.core.model.pool import PoolOptions
from dq_server.sim.applications import ENDS
from dq_server.sim.errors import WorkloadError
from dq_server.sim.records import Floats, SimulatedJobs

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
HOUR_S = 3600.0
NAN = float("nan")
OF_THE_SIMULATION = ("spread", "price")


def _whole(text: str) -> int:
    return int(text)


def _duration(text: str) -> float:
    unit = UNITS_S.get(text[-1:])
    return float(text) if unit is None else float(text[:-1]) * unit


def _switch(text: str) -> bool:
    return {"on": True, "off": False}[text]


# Word of --pool -> setting of [pool] or of SimPool, and how its value is read.
WORDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "min": ("min", _whole),
    "max": ("max", _whole),
    "idle": ("idle_s", _duration),
    "start": ("start_s", _duration),
    "spread": ("spread", float),
    "price": ("price", float),
    "processors": ("processors", _whole),
    "depth": ("depth", _whole),
    "grow": ("grow", _switch),
    "gain": ("gain", float),
}


@dataclass(frozen=True, slots=True)
class SimPool:
    """A pool to simulate.

    options  as in [pool]; `start_s` is also how long a node really takes
    spread   start-up times are drawn evenly from start_s * (1 - spread) to start_s * (1 + spread)
    price    of a node, per hour
    """

    options: PoolOptions
    spread: float = 0.0
    price: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.spread <= 1:
            raise WorkloadError(f"--pool spread={self.spread:g}: a share of start, from 0 to 1")
        if not 0 <= self.price < 1e9:
            raise WorkloadError(f"--pool price={self.price:g}: 0 or more per node and hour")

    @property
    def processors(self) -> int:
        """What all its nodes have."""
        return self.options.processors


def read_pool(text: str, table: Mapping[str, Any], nodes: int) -> SimPool:
    """What `--pool` says, over what the configuration's [pool] does; WorkloadError with one line.

    nodes  processors of the machine that it is compared with: max, if it is not given, is that many
    """
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        word, equals, value = (piece.strip() for piece in part.partition("="))
        if word not in WORDS:
            raise WorkloadError(f"--pool: unknown word {word!r}; {known_words(word, WORDS)}")
        name, read = WORDS[word]
        if name in given:
            raise WorkloadError(f"--pool: {word} is given twice")
        try:
            given[name] = read(value)
        except (ValueError, KeyError):
            raise WorkloadError(
                f"--pool {word}{equals}{value}: not understood; as in"
                ' "min=0,max=100,idle=5m,start=2m,spread=0.5,price=1.2,processors=1,grow=off"'
            ) from None
    own = {name: given.pop(name) for name in OF_THE_SIMULATION if name in given}
    settings = dict(table)
    if "processors" in given:
        settings["shape"] = {"processors": given.pop("processors")}
    settings.update(given)
    try:
        options: PoolOptions = decoded(settings, PoolOptions)
        if not options.max:
            options = replace(options, max=max(1, nodes // max(1, options.shape.processors)))
        options.validate()
    except (TypeError, ValueError, ConfigError) as error:
        raise WorkloadError(f"--pool: {error}") from error
    return SimPool(options, **own)


class NodeHistory:
    """Of each node that was asked for: when, since when it was up, and until when it was paid."""

    def __init__(self, price: float, processors: int) -> None:
        self.price, self.processors = price, processors  # of a node, per hour; that it has
        self.asked_s, self.up_s, self.end_s = array("d"), array("d"), array("d")

    def close(self, last_end_s: float) -> None:
        """No job is left since `last_end_s`: what is still there is paid until no other node is."""
        until_s = max([last_end_s, *(end_s for end_s in self.end_s if not isnan(end_s))])
        for k, end_s in enumerate(self.end_s):
            if isnan(end_s):
                self.end_s[k] = until_s

    @property
    def node_hours(self) -> float:
        """Paid for, start-up times included."""
        asked, end = np.frombuffer(self.asked_s), np.frombuffer(self.end_s)
        return float((end - asked).sum() / HOUR_S)

    def paid_over_time(self) -> tuple[Floats, NDArray[np.int64]]:
        """Nodes that are paid for as steps: (times, nodes from each time on)."""
        return _steps(np.frombuffer(self.asked_s), np.frombuffer(self.end_s))

    def up_over_time(self) -> tuple[Floats, NDArray[np.int64]]:
        """Nodes that are up as steps."""
        up, end = np.frombuffer(self.up_s), np.frombuffer(self.end_s)
        joined = ~np.isnan(up)
        return _steps(up[joined], end[joined])


def _steps(since: Floats, until: Floats) -> tuple[Floats, NDArray[np.int64]]:
    times = np.concatenate([since, until])
    change = np.concatenate([np.ones(len(since), np.int64), -np.ones(len(until), np.int64)])
    order = np.argsort(times, kind="stable")
    at, level = times[order], change[order].cumsum()
    last = np.append(at[1:] != at[:-1], True) if len(at) else np.zeros(0, dtype=bool)
    return at[last], level[last]


class PlayedEngine:
    """Nodes come and go as the scheduler wants. `at` and `cancel`: the simulation's.

    What happens at one instant is seen together, as with the ends of jobs: of nodes that join
    together a job gets as many as it needs.
    """

    def __init__(
        self,
        pool: SimPool,
        seed: int,
        at: Callable[[float, Event, int], int],
        cancel: Callable[[int], None],
    ) -> None:
        self._pool, self._at, self._cancel = pool, at, cancel
        self._random = np.random.default_rng(seed)
        self._free = list(range(1, pool.options.max + 1))  # numbers that no node has now
        self._node: dict[int, int] = {}  # ticket -> number of its node
        self._joins: dict[int, int] = {}  # ticket -> the event that its node joins with
        self.history = NodeHistory(pool.price, pool.options.shape.processors)

    def ask(self, action: AskNodes, now: float) -> None:
        """Nodes start, and join after a while."""
        options, spread = self._pool.options, self._pool.spread
        for ticket in action.tickets:
            number = self._node[ticket] = heappop(self._free)
            name = f"node{number}"
            takes_s = options.start_s * (1 + spread * self._random.uniform(-1, 1))
            self._at(now, TicketStarted(ticket, name), ENDS)
            joined = NodeJoined(name, action.shape.processors)
            self._joins[ticket] = self._at(now + takes_s, joined, ENDS)
            history = self.history  # tickets are counted from 1, and asked for in order
            assert ticket == len(history.asked_s) + 1
            history.asked_s.append(now)
            history.up_s.append(now + takes_s)
            history.end_s.append(NAN)

    def give(self, action: GiveNode, now: float) -> None:
        """The node is not paid for any more."""
        number = self._node.pop(action.ticket)
        heappush(self._free, number)
        history, k = self.history, action.ticket - 1
        if history.up_s[k] > now:
            self._cancel(self._joins[action.ticket])
            history.up_s[k] = NAN
        del self._joins[action.ticket]
        history.end_s[k] = now
        self._at(now, TicketEnded(action.ticket), ENDS)

    def emptied(self, action: NodeEmptied, now: float) -> None:
        """Its agent goes."""
        self._at(now, NodeLeft(action.node), ENDS)


def costs(
    records: SimulatedJobs, pool: SimPool, always_on: SimulatedJobs
) -> dict[str, float | int]:
    """What the nodes of a run cost, by name; the machine that is always on is paid for from the
    first submission to the last end.

    saved_pct    of the cost of the machine that is always on
    nodes_asked  how many times a node was asked for
    nodes_most   most nodes that were paid for at a time
    utilization  processor-seconds held by jobs over those paid for
    """
    per_node = pool.options.shape.processors
    machine_hours = always_on.nodes / per_node * always_on.makespan_s / HOUR_S
    history, hours = records.pool, machine_hours
    asked, most = 0, -(-always_on.nodes // per_node)
    if history is not None:
        hours, asked = history.node_hours, len(history.asked_s)
        most = int(history.paid_over_time()[1].max(initial=0))
    saved = 1 - hours / machine_hours if machine_hours else 0.0
    held_s = float(records.processor_s.sum())
    return {
        "node_hours": hours,
        "cost": hours * pool.price,
        "saved_pct": 100 * saved,
        "nodes_asked": asked,
        "nodes_most": most,
        "utilization": held_s / (hours * HOUR_S * per_node) if hours else 0.0,
    }
