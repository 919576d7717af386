"""The calls of harness/resize_protocol.py, read from their text, and compared with real ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from harness.resize_protocol import RETREAT, Failure, Role, Stage, Table

Event: TypeAlias = tuple[int, str, int]  # handle, name of the call, handle of what it makes or 0
Names: TypeAlias = Mapping[str, int]  # of communicators: handles


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a table. ``times``: empty for once, ``?``, ``*`` or ``+``."""

    comm: str
    name: str
    times: str = ""
    makes: str = ""


def calls_of(text: str) -> tuple[Call, ...]:
    """The calls of one stage."""
    found: list[Call] = []
    words = iter(text.split())
    for word in words:
        if word == "->":
            found[-1] = replace(found[-1], makes=next(words))
            continue
        comm, name = word.split(".")
        times = name[-1] if name[-1] in "?*+" else ""
        found.append(Call(comm, name.removesuffix(times), times))
    return tuple(found)


def of_role(table: Table, role: Role) -> Table:
    """The stages that a rank of this role takes part in."""
    return tuple(stage for stage in table if role.value in stage.roles)


def failed(table: Table, name: str) -> Table:
    """What ranks do if the stage of this name ends with an error."""
    at = next(k for k, stage in enumerate(table) if stage.name == name and stage.agrees)
    stage = table[at]
    told = replace(stage, calls=stage.told)
    undone = RETREAT if stage.failure is Failure.RETREAT else ()
    return (*table[: at + 1], told, *undone)


def first_difference(table: Table, role: Role, events: Sequence[Event], names: Names) -> str:
    """Empty if a rank has called what the table says; else how far it has come, and what it did."""
    stages = of_role(table, role)
    program = [(stage, call) for stage in stages for call in calls_of(stage.calls)]
    found = _Match(program, events)
    if found.fits(0, 0, names):
        return ""
    stage = program[found.reached][0].name if found.reached < len(program) else "the end"
    call = events[found.furthest][1] if found.furthest < len(events) else "nothing more"
    return f"in {stage!r}, call {found.furthest} is {call}"


@dataclass(slots=True)
class _Match:
    program: Sequence[tuple[Stage, Call]]
    events: Sequence[Event]
    furthest: int = 0
    reached: int = 0

    def fits(self, at: int, event: int, names: Names) -> bool:
        """Whether the program from `at` can make the calls from `event`."""
        if event > self.furthest or (event == self.furthest and at > self.reached):
            self.furthest, self.reached = event, at
        if at == len(self.program):
            return event == len(self.events)
        call = self.program[at][1]
        for then, more in self._taken(call, event, names):
            again = call.times in ("*", "+") and (
                self._repeats(at, event + 1, more) if then else False
            )
            if again or self.fits(at + 1, event + then, more):
                return True
        return False

    def _repeats(self, at: int, event: int, names: Names) -> bool:
        """The same call again, or what follows it."""
        call = self.program[at][1]
        for then, more in self._taken(replace(call, times="*"), event, names):
            if then and self._repeats(at, event + 1, more):
                return True
        return self.fits(at + 1, event, names)

    def _taken(self, call: Call, event: int, names: Names) -> Iterator[tuple[int, Names]]:
        """How many events the call takes, 1 or 0, and the names behind it."""
        if event < len(self.events):
            comm, name, made = self.events[event]
            known = (
                comm not in names.values() if call.comm == "any" else names.get(call.comm) == comm
            )
            if known and name == call.name and bool(made) >= bool(call.makes):
                yield 1, {**names, call.makes: made} if call.makes else names
        if call.times in ("?", "*"):
            yield 0, names
