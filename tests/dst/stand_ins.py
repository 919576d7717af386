"""What the server and the agents hold and cannot have here: disks, keys and operating systems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from dq_client.base import messages as m
from dq_client.base.keys import KeyPair
from dq_client.node.agent.holdings import HoldingRecord
from dq_server.core.model.events import EVENTS
from dq_server.live.store.checksums import START, chained
from dq_server.live.store.durability import relied_on
from dq_server.live.store.journal import (
    Entry,
    JournalError,
    actions_as_json,
    event_as_json,
)
from dq_server.live.store.journal_file import ANY
from tests.dst.played_machine import Machine, Process

if TYPE_CHECKING:
    from tests.dst.world import World


class PowerCut(Exception):
    """The machine of the server loses its power in the middle of a write."""


def kind_and_body(entry: Entry) -> tuple[str, str]:
    """As the journal's file has them."""
    return type(entry.event).__name__, event_as_json(entry.event)


class Store:
    """A journal in memory: what is committed outlives a crash, nothing else does.

    What is committed and not flushed is gone if the machine loses its power.
    """

    first = 1
    patched = False
    lost = False  # something acknowledged is, and the operator was told

    def __init__(self, world: World) -> None:
        self.world = world
        self.safe: list[Entry] = []
        self.batch: list[Entry] = []
        self.kept: tuple[int, bytes] | None = None
        self.epoch = 0
        self.flushed = 0  # so many entries are on the disk
        self.relied_on = False  # one of the batch has to be
        self.kept_beside: dict[str, str] = {}
        self.chains = [START]

    def next_epoch(self, least: int = 0) -> int:
        self.epoch = max(self.epoch + 1, least)
        return self.epoch

    def need_room(self) -> None:
        if self.world.disk.full:
            raise JournalError("the disk is full")

    def note(self, key: str, value: str) -> None:
        self.need_room()
        self.kept_beside[key] = value

    def noted(self, key: str) -> str:
        return self.kept_beside.get(key, "")

    def forget(self) -> None:
        """All events: a copy begins anew."""
        self.safe, self.batch, self.kept, self.flushed = [], [], None, 0
        self.chains = [START]

    def chain_of(self, seq: int) -> bytes | None:
        """Of committed entries."""
        while len(self.chains) <= len(self.safe):
            e = self.safe[len(self.chains) - 1]
            self.chains.append(
                chained(self.chains[-1], e.seq, e.time, *kind_and_body(e), e.actions)
            )
        return self.chains[seq] if seq <= len(self.safe) else None

    def newest_snapshot(self) -> int:
        return 0  # copies begin with the first event

    def base(self) -> m.Base:
        return m.Base(0, START, b"")

    def lines(self, after: int, at_most: int, bytes_max: int) -> list[m.Line]:
        """So few that copies come in parts."""
        some = self.safe[after : after + 20]
        return [m.Line(e.seq, e.time, *kind_and_body(e), e.actions) for e in some]

    def ended(self, after: int, at_most: int) -> list[tuple[int, bytes]]:
        return []

    def append(self, time: float, event: Any, body: str, actions: list[Any]) -> None:
        event = msgspec.json.decode(body, type=EVENTS[type(event).__name__])
        seq = len(self.safe) + len(self.batch) + 1
        self.batch.append(Entry(seq, time, event, actions_as_json(actions)))
        self.relied_on |= relied_on(event, actions)
        self.world.memory.decided(actions)

    def archive(self, job: int, body: bytes) -> None:
        """Nobody asks here."""

    def archived(self, job: int) -> bytes | None:
        return None

    def commit(self) -> None:
        if self.batch and (self.world.chance(self.world.p_disk) or self.world.disk.full):
            raise JournalError("the disk is full")
        self.safe += self.batch
        if self.relied_on:
            self.flushed = len(self.safe)
        self.batch, self.relied_on = [], False

    def rollback(self) -> None:
        self.batch, self.relied_on = [], False

    def fault(self) -> str:
        return "the disk is full" if self.world.disk.full else ""

    def clear(self) -> None:
        """It is never patched."""

    def open(self) -> None:
        """For a server that starts."""
        self.rollback()

    def die(self, power: bool) -> None:
        """The server ends, with its machine if that loses its power."""
        self.rollback()
        if not power:
            return
        del self.safe[self.flushed :]
        del self.chains[self.flushed + 1 :]
        if self.kept is not None and self.kept[0] > self.flushed:
            self.kept = None

    def refused(self, error: JournalError) -> bool:
        """A server would not start; whether another one may try."""
        raise error

    def entries(self, after: int = 0) -> Iterator[Entry]:
        yield from [*self.safe, *self.batch][after:]

    def load_snapshot(self, before: int = ANY) -> tuple[int, bytes] | None:
        return self.kept if self.kept is not None and self.kept[0] < before else None

    def save_snapshot(self, seq: int, body: bytes) -> None:
        self.kept = seq, body

    def close(self) -> None:
        """Nothing to give back."""


class Keys:
    """Stands for Access: principals are known by the network."""

    server = KeyPair("public", "secret")

    def admit_job(self, job: int, instance: int) -> KeyPair:
        return KeyPair(f"{job}.{instance}", f"{job}.{instance}")

    def dismiss_job(self, job: int) -> None:
        """Keys are made by name here."""


class Held:
    """Stands for holdings.Tree."""

    def __init__(self, record: HoldingRecord, process: Process, machine: Machine) -> None:
        self.record, self.process, self.machine = record, process, machine
        self.killed = self.gone = False  # gone: a proxy without ranks ends before its job
        self.is_proxy = bool(record.run)

    def running(self) -> bool:
        return not (self.process.over or self.gone)

    def tears(self) -> None:
        """Its agent ends, and the whole application with it."""

    def vanishes(self) -> None:
        """Its node is taken away, and the whole application ends with its part there."""
        self.killed = True
        if not self.process.over:
            self.process.code = 137
            self.machine.end(self.process)

    def exit_code(self) -> int | None:
        return None if self.running() else self.process.code

    def terminate(self) -> None:
        self.killed = True
        if not self.process.over:
            self.process.code = 137
            world = self.machine.world
            world.later(world.rng.uniform(0.0, 0.5), lambda: self.machine.end(self.process))

    def abandoned(self) -> bool:
        return False  # no keeper is killed here

    def sweep(self) -> bool:
        return not self.running()


class Holdings:
    """Stands for holdings.Holdings: survives its agent."""

    adopted = False

    def __init__(self, machine: Machine) -> None:
        self.trees: dict[str, Held] = {}
        self.machine = machine

    def start(self, record: HoldingRecord, argv: list[str], *_: object) -> Held:
        """A proxy: it finds its launcher, or ends at once."""
        process = self.machine.processes[record.job, record.instance]
        held = Held(record, process, self.machine)
        held.gone = record.run in self.machine.unwanted
        return self.add(held)

    def get(self, job: int, instance: int, run: str = "") -> Held | None:
        return self.trees.get(f"{job}.{instance}{run}")

    def of(self, job: int, instance: int) -> list[Held]:
        wanted = (job, instance)
        return [t for t in self.trees.values() if (t.record.job, t.record.instance) == wanted]

    def add(self, held: Held) -> Held:
        r = held.record
        return self.trees.setdefault(f"{r.job}.{r.instance}{r.run}", held)

    def drop(self, held: Held) -> None:
        r = held.record
        self.trees.pop(f"{r.job}.{r.instance}{r.run}", None)

    def reap(self) -> None:
        """No zombies here."""
