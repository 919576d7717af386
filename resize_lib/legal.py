"""The sizes that a program can run on, as its session is told them (`legal=`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import TYPE_CHECKING, Literal, TypeAlias

from dq_client.base import messages as m
from resize_lib.waiting import idle_barrier

if TYPE_CHECKING:
    from resize_lib.runtime import Runtime

LARGEST = 10_000  # sizes above it are legal for no program that names any

Legal: TypeAlias = (
    str | tuple[Literal["divides", "multiples"], int] | Iterable[int] | Callable[[int], bool]
)


class LegalSizesError(ValueError):
    """A rule for sizes that is none, or a size that the rule does not allow."""


def legal_sizes(legal: Legal | None) -> tuple[int, ...]:
    """All sizes that a rule allows, ascending; empty, as for None, if all are allowed.

    "powers" (of two): 1, 2, 4, 8 ... · ("divides", n): those that divide n · ("multiples", n):
    n, 2 n, 3 n ... · either as one text, "divides 48" · a list of sizes · a function of the size
    that returns whether it is legal, with the same answers on every rank.

    Raises:
        LegalSizesError: for any other rule, or one without sizes.
    """
    if legal is None:
        return ()
    rule = _rule(legal)
    found = tuple(size for size in range(1, LARGEST + 1) if rule(size))
    if not found:
        raise LegalSizesError(f"legal={legal!r} allows no size from 1 to {LARGEST}")
    return found


def _rule(legal: Legal) -> Callable[[int], bool]:
    if callable(legal):
        return legal
    words = legal if isinstance(legal, tuple) else ()
    if isinstance(legal, str):
        words = tuple(int(w) if w.isdecimal() else w for w in legal.split() if w != "of")
        if words in (("powers",), ("powers", "two")):
            return lambda size: size & (size - 1) == 0
    if len(words) == 2 and words[0] in ("divides", "multiples"):
        word, n = words
        number = _size(n, legal)
        if word == "divides":
            return lambda size: number % size == 0
        return lambda size: size % number == 0
    if isinstance(legal, (str, int)):
        raise LegalSizesError(_UNKNOWN.format(legal))
    try:
        listed = {_size(size, legal) for size in legal}
    except TypeError:
        raise LegalSizesError(_UNKNOWN.format(legal)) from None
    return listed.__contains__


_UNKNOWN = (
    'legal={!r}: give "powers", ("divides", n), ("multiples", n), a list of sizes, or a function of'
    " the size"
)


def _size(value: object, legal: Legal) -> int:
    try:
        found = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise LegalSizesError(_UNKNOWN.format(legal)) from None
    if found < 1:
        raise LegalSizesError(f"legal={legal!r}: sizes are at least 1")
    return found


def shown(sizes: tuple[int, ...]) -> str:
    """For people: the first of them."""
    first = ", ".join(map(str, sizes[:12]))
    return f"{first}, ..." if len(sizes) > 12 else first


def check_size(session: Runtime) -> None:
    """Raise LegalSizesError, on every rank alike, if the program runs on a size that is not legal.

    It is the reason that the job's owner is told, too.
    """
    legal, size = session.legal_sizes, session.size
    if not legal or size in legal:
        return
    listed = ",".join(map(str, legal[:12]))
    why = f"the program can run on {shown(legal)} ranks, not on {size}: dq submit --sizes {listed}"
    if session.rank == 0 and session.link is not None:
        session.link.report(m.GaveUp(why))
    if not session.spawned:
        idle_barrier(session.grid.own_comm)  # the first that raises it ends all, rank 0 too
    raise LegalSizesError(why)
