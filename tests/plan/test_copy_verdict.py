"""What becomes of a variable after a restart from a copy, and in a rank that goes back to one."""

from __future__ import annotations

from typing import Any

import pytest

from dq_client.check.facts import Variable
from resize_lib.state.verdict import Fate, Seen, back, restart

A, B, C = b"a", b"b", b"c"
PLAIN = Variable(1, accumulates=True, used=True, changed_line=3)


def seen(before: bytes | None, now: bytes | None, here: bytes | None, **more: Any) -> Seen:
    told = {"equal": True, "alone": False, "start": before, **more}
    return Seen(before, now, here=here, **told)


def of(*, loop: str = "", set_up: str = "", used: bool = True, adds: bool = True) -> Variable:
    return Variable(1, adds, used, frozenset(set_up.split()), frozenset(loop.split()), False, 3)


@pytest.mark.parametrize(("what", "facts", "same_size", "fate"), [
    (seen(A, B, A), PLAIN, True, Fate.CARRY),
    (seen(A, B, A), PLAIN, False, Fate.CARRY),
    (seen(A, B, B), PLAIN, True, Fate.KEEP),
    (seen(A, B, A, equal=False), PLAIN, True, Fate.KEEP),  # its own comes from its own part
    (seen(A, A, A), PLAIN, True, Fate.KEEP),
    (seen(A, A, C), PLAIN, True, Fate.REFUSE),  # drawn anew
    (seen(A, A, C), of(set_up="size"), False, Fate.KEEP),  # by all ranks, for the size of now
    (seen(A, A, C), of(set_up="clock"), True, Fate.KEEP),
    (seen(A, A, C), of(used=False), True, Fate.KEEP),
    (seen(A, B, A, alone=True), of(loop="part"), True, Fate.CARRY),
    (seen(A, B, A, alone=True), of(loop="part"), False, Fate.REFUSE),
    (seen(A, B, A, coincides=True), of(loop="rank"), True, Fate.CARRY),
    (seen(A, B, A, coincides=True), of(loop="rank"), False, Fate.REFUSE),
    (seen(A, B, C, start=C), of(set_up="size"), False, Fate.REFUSE),
    (seen(A, B, C, start=C), of(set_up="size"), True, Fate.CARRY),
])  # fmt: skip
def test_after_a_restart(what: Seen, facts: Variable, same_size: bool, fate: Fate) -> None:
    found, why = restart(what, facts, same_size=same_size, first=True)
    assert found is fate
    assert bool(why) == (fate is Fate.REFUSE)


@pytest.mark.parametrize(("what", "facts", "fate"), [
    (seen(A, B, C), PLAIN, Fate.CARRY),
    (seen(A, B, B), PLAIN, Fate.KEEP),
    (seen(A, A, C), PLAIN, Fate.REFUSE),  # the copy does not have it
    (seen(A, A, C), of(used=False), Fate.KEEP),
    (seen(A, A, C), of(loop="part", adds=False), Fate.KEEP),  # scratch
    (seen(None, None, C), PLAIN, Fate.REFUSE),  # bound since
    (seen(A, B, C, equal=False), PLAIN, Fate.REFUSE),  # the dead had one, too
    (seen(A, B, C, equal=False), of(adds=False), Fate.KEEP),
])  # fmt: skip
def test_in_place(what: Seen, facts: Variable, fate: Fate) -> None:
    found, why = back(what, facts)
    assert found is fate
    assert bool(why) == (fate is Fate.REFUSE)
