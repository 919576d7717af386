"""What becomes of one variable when ranks join or leave. Pure; docs/carry.md has it as a table.

The facts come from two sides. Digests say what has changed since the program's first loop, whether
all ranks of the job have the same, and what a rank that joins has. The source says what a variable
depends on (dq_client/check/facts.py); that decides where digests cannot: with one rank everything
is the same on all ranks.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from dq_client.check.facts import Variable
from dq_client.check.roles import Role


class Fate(Enum):
    """What becomes of a variable in a rank that joins."""

    CARRY = auto()  # it gets rank 0's value
    KEEP = auto()  # it keeps its own
    REFUSE = auto()  # nobody can know: the resize does not happen


class Seen(NamedTuple):
    """A variable, as digests show it; None: it is not bound there.

    before, now: on rank 0 of the job, at its first loop and at the resize
    equal: all ranks of the job have the same now. alone: the job is one rank
    start, here: in the rank that joins, at its first loop and where it joins
    failed: why the value cannot be copied; empty: it can be
    coincides: its value may be the same on several ranks by chance, as small whole numbers are
    opaque: an object of a package, whose bytes may differ where it is the same
    whole: the digest is of all that it has, as of an array or a list of numbers
    """

    before: bytes | None
    now: bytes | None
    equal: bool
    alone: bool
    start: bytes | None
    here: bytes | None
    failed: str = ""
    coincides: bool = False
    opaque: bool = False
    whole: bool = False


LOCAL = frozenset(("rank", "part", "clock"))
NOT_KNOWN = Variable(0, False, True, frozenset(), frozenset(), False)

_DERIVED = (
    "is computed from the number of ranks before the loop: ask for the size in every iteration, or"
    " compute it in @rs.on_resize"
)
_BY_SIZE = frozenset(("size", "part"))
_OF_PART = (
    "is made of the rank's part of the data before the loop, and a resize changes the part: take it"
    " in the iteration that uses it, or compute it in @rs.on_resize"
)
_DIFFERS = (
    "is set before the loop and has another value in a rank that joins: make it equal on every"
    " rank, or compute it in the iteration"
)
_NOT_AGAIN = (
    "is set before the loop and has another value after the restart: make it the same in every run"
    " of the program, or declare it (rs.value)"
)
_COUNTS = (
    "is added up by each rank and is the same on all of them now: declare it (rs.local_state if"
    " each rank has its own, rs.value if it belongs to the job)"
)


_UNCLEAR = (
    "may be each rank's own or the same on all of them, which one rank alone cannot tell: declare"
    " it (rs.local_state, rs.value), or start with two ranks"
)


_UNSEEN = (
    "is changed by each rank for itself, through another name or a container, which does not show"
    " whose part it is: change it by its own name (take a view of an array in the iteration that"
    " uses it), or say with rs.local_state what becomes of it"
)


_STALE = (
    "has what another rank has sent, and is used before it is received again: receive it in the"
    " iteration before that, declare the array (rs.cartesian) and use exchange(), or make it in"
    " @rs.setup"
)
_ELECTED = (
    "is changed by a rank that the number of ranks selects, and kept there: keep it on rank 0 or on"
    " every rank, or say with rs.local_state what becomes of it"
)


_PAST = (
    "is made of the rank's part of the data in one iteration and used in the next, where a resize"
    " has given the rank another part: compute it in the iteration that uses it, or declare it"
    " (rs.array)"
)


_OF_SIZE = (
    "is computed from the number of ranks in one iteration and used in later ones, where a resize"
    " has changed that number: compute it in the iteration that uses it, or in @rs.on_resize"
)


_OPEN = (
    "differs between the ranks, and the next iteration may use it, where a resize has given the"
    " rank another part of the data: compute it in the iteration that uses it, or declare it"
    " (rs.array, rs.local_state)"
)


_CURVE = (
    "has an item of the rank's own for each iteration, and a rank that joins has none of the"
    " earlier ones: add each item up over all ranks in its iteration"
)


RESET = (
    "is made again after each resize by a function of @rs.setup or @rs.on_resize, and the loop goes"
    " on from what it has left there: make it before the loop, outside of that function, or declare"
    " it (rs.array, rs.value)"
)


_RECURS = (
    "goes on in each rank from its own earlier values, of which a rank that joins has none: reduce"
    " it over all ranks in the iteration that computes it"
)


_IDENTITY = (
    "depends on what id() gives, which is another number in each process: use a key that is the"
    " same on every rank, such as a name or a number"
)


def by_place(facts: Variable) -> Role:
    """How ranks change a variable by their place among the others, if that matters."""
    return facts.role if facts.used and not facts.rebuilt else Role.NONE


def misplaced(facts: Variable, *, equal: bool) -> str:
    """Why a variable is wrong once ranks have other places; empty: it is not."""
    role = by_place(facts)
    if role is Role.STALE:
        return _STALE
    if role is Role.PAST:
        return _OF_SIZE if facts.loop & {"rank", "size", "part"} == {"size"} else _PAST
    if role is Role.OPEN and not equal:
        return _OPEN
    return _ELECTED if role is Role.ELECTED and not equal else ""


def by_chance(facts: Variable, *, coincides: bool) -> bool:
    """Whether ranks may have the same by chance, as whole numbers of parts of one length."""
    return coincides and facts.role is Role.OPEN and bool(facts.loop & {"rank", "part"})


def growth(seen: Seen, facts: Variable) -> tuple[Fate, str]:
    """What becomes of it in a rank that joins; with the reason where that is REFUSE."""
    if facts.rebuilt:
        return (Fate.REFUSE, RESET) if facts.reset and facts.used else (Fate.KEEP, "")
    # The source may take an array's view for changed where it is a number that is bound again.
    unchanged = seen.whole and seen.equal and seen.before == seen.now
    role = by_place(facts)
    same = (unchanged and role is Role.PAST) or (seen.before == seen.now and role is Role.OPEN)
    equal = seen.equal and (seen.alone or not by_chance(facts, coincides=seen.coincides))
    if not same and (why := misplaced(facts, equal=equal)):
        return Fate.REFUSE, why
    if by_place(facts) is Role.AGAIN and seen.start == seen.before:
        return Fate.KEEP, ""  # the others get that back, too (entry.py)
    return _unchanged(seen, facts) if seen.before == seen.now else _changed(seen, facts)


def _unchanged(seen: Seen, facts: Variable) -> tuple[Fate, str]:
    sources = facts.set_up
    if not facts.used:
        differs = seen.equal and (seen.here != seen.now or "rank" in sources)
        return (Fate.REFUSE, _DERIVED) if facts.summed and differs else (Fate.KEEP, "")
    if not seen.equal:  # each rank has its part, for as many ranks as there were
        return (Fate.REFUSE, _derived(facts)) if sources & _BY_SIZE else (Fate.KEEP, "")
    # That another rank has the same says nothing where the rank's number plays a part.
    own = seen.here != seen.now or sources & {"rank", "part"}
    if sources & _BY_SIZE and own:
        return Fate.REFUSE, _derived(facts)
    if seen.here == seen.now:
        return Fate.KEEP, ""
    if sources & (LOCAL | {"empty"}) or seen.opaque:
        return Fate.KEEP, ""
    return Fate.REFUSE, _DIFFERS


def _derived(facts: Variable) -> str:
    return _DERIVED if "size" in facts.set_up else _OF_PART


def _changed(seen: Seen, facts: Variable) -> tuple[Fate, str]:
    local = facts.loop & LOCAL
    if not seen.equal:
        if "id" in facts.loop and facts.used:
            return Fate.REFUSE, _IDENTITY
        if facts.curve and facts.used:
            return Fate.REFUSE, _CURVE
        if facts.recurs and facts.used and facts.role is not Role.ROOT:
            return Fate.REFUSE, _RECURS
        by_size = "size" in facts.set_up or ("rank" in facts.set_up and "size" in facts.loop)
        part = by_size and facts.used and _adds(facts)
        if part:
            return Fate.REFUSE, _DERIVED
        hidden = facts.used and facts.accumulates and not (local or seen.opaque)
        return (Fate.REFUSE, _UNSEEN) if hidden or _is_unseen(seen, facts) else (Fate.KEEP, "")
    if seen.alone and facts.role is Role.ROOT:
        return Fate.KEEP, ""
    may_be_own = facts.accumulates or (facts.role is Role.OPEN and local & {"rank", "part"})
    if local and seen.alone and may_be_own:
        return (Fate.REFUSE, _unclear(seen)) if facts.used else (Fate.KEEP, "")
    if seen.coincides and (why := counted(facts)):
        return Fate.REFUSE, why
    sources = facts.set_up
    between = seen.start == seen.before and sources & LOCAL and _adds(facts)
    if between and seen.alone and facts.used:
        return Fate.REFUSE, _unclear(seen)
    if seen.start != seen.before:
        if "size" in sources and facts.used:
            return Fate.REFUSE, _DERIVED
        if not facts.used or sources & LOCAL:
            return Fate.KEEP, ""
        # np.empty gives any rank anything, until the loop fills it; packages have such arrays, too.
        if "empty" not in sources and not seen.opaque:
            return Fate.REFUSE, _DIFFERS
    if seen.before is None and seen.here is not None and seen.here != seen.now:
        # Bound between the first loop and this one, by every rank for itself.
        if "size" in sources and facts.used:
            return Fate.REFUSE, _DERIVED
        if sources & LOCAL and seen.alone:
            return Fate.KEEP, ""
    if seen.failed:
        if not facts.used and seen.here is not None:
            return Fate.KEEP, ""
        return Fate.REFUSE, _not_copied(seen)
    return Fate.CARRY, ""


def _is_unseen(seen: Seen, facts: Variable) -> bool:
    """Whether ranks have changed it differently, and no line shows how."""
    found = facts.line and not facts.changed_line and not facts.rebuilt
    return bool(found) and seen.before != seen.now and not (seen.equal or seen.opaque)


def _not_copied(seen: Seen) -> str:
    return f"cannot be copied to a rank that joins ({seen.failed})"


def _unclear(seen: Seen) -> str:
    """Why one rank alone cannot tell; what cannot be copied is not mended by a declaration."""
    return _not_copied(seen) if seen.failed else _UNCLEAR


def restart(seen: Seen, facts: Variable, *, same_size: bool, first: bool) -> tuple[Fate, str]:
    """What becomes of it where all ranks are new and go on from a copy.

    first: in rank 0. seen.before, now, equal, alone: of the job that made the copy. What follows
    from the number of ranks has been computed anew by all of them, for the size that the job has
    now.
    """
    if not same_size and (why := misplaced(facts, equal=seen.equal)):
        return Fate.REFUSE, why
    if not same_size and _is_unseen(seen, facts):
        return Fate.REFUSE, _UNSEEN
    if facts.rebuilt or not seen.equal or seen.here == seen.now:
        return Fate.KEEP, ""
    if seen.before == seen.now:
        again = seen.opaque or not facts.used or facts.set_up & (LOCAL | {"size", "empty"})
        return (Fate.KEEP, "") if again else (Fate.REFUSE, _NOT_AGAIN)
    roots = seen.alone and facts.role is Role.ROOT
    if roots and not first:
        return Fate.KEEP, ""
    if not same_size and not roots:
        between = seen.before is None and seen.here is not None and not facts.changed_line
        if between and facts.set_up & {"size", "rank", "part"}:
            return Fate.KEEP, ""
        unclear = facts.loop & LOCAL and facts.accumulates and facts.used
        if unclear and (seen.alone or seen.coincides):
            return Fate.REFUSE, _UNCLEAR if seen.alone else _COUNTS
        if seen.start != seen.before and "size" in facts.set_up and facts.used:
            return Fate.REFUSE, _DERIVED
    if seen.failed:
        return (Fate.REFUSE, f"cannot be copied ({seen.failed})") if facts.used else (Fate.KEEP, "")
    return Fate.CARRY, ""


def back(seen: Seen, facts: Variable) -> tuple[Fate, str]:
    """What becomes of it in a rank that goes back to a copy, in the same process.

    seen.before, now, equal: of rank 0 when the copy was made. Where it refuses, the job is
    restarted from the copy.
    """
    if facts.rebuilt:
        return Fate.KEEP, ""
    if by_place(facts) in (Role.STALE, Role.PAST):
        return Fate.REFUSE, misplaced(facts, equal=seen.equal)
    if not seen.equal:
        own = facts.used and facts.accumulates
        return (Fate.REFUSE, "has a value of its own on each rank") if own else (Fate.KEEP, "")
    if seen.here == seen.now:
        return Fate.KEEP, ""
    if seen.before == seen.now or seen.failed:
        scratch = facts.loop & {"rank", "part"} and not facts.accumulates
        if facts.used and not scratch:
            return Fate.REFUSE, "has changed since the copy was made, which does not have it"
        return Fate.KEEP, ""
    return Fate.CARRY, ""


def lost(before: bytes | None, now: bytes | None, facts: Variable | None) -> str:
    """Why a rank may not leave with its own value of a variable, which others have differently.

    before, now: in the rank that leaves. facts: None where there is no source. Empty: it may.
    """
    if before == now:
        return ""
    if facts is not None and facts.reset and facts.used:
        return RESET
    is_seen = facts is not None and bool(facts.changed_line)
    if facts is not None and (facts.rebuilt or (is_seen and not facts.used)):
        return ""
    if facts is not None and not _adds(facts) and facts.role not in (Role.ROOT, Role.OPEN):
        return ""
    if facts is not None and facts.line and not facts.changed_line:
        return _UNSEEN
    return (
        "is added up by each rank for itself, and a rank that leaves would take its part with it:"
        " add it up over all ranks in the iteration, or say with rs.local_state what becomes of it"
    )


def _adds(facts: Variable) -> bool:
    """Whether a variable that the loop has changed may depend on what it was before.

    A change that no line shows is made by something that has the object by another way.
    """
    return facts.accumulates or not facts.changed_line


def counted(facts: Variable) -> str:
    """Why a value may be a rank's own though all ranks have the same now, by chance; empty: no."""
    own = facts.loop & LOCAL and facts.accumulates and facts.used and not facts.rebuilt
    return _COUNTS if own else ""


def stale(before: bytes | None, now: bytes | None, facts: Variable, *, renumbered: bool) -> str:
    """Why a variable of the ranks that stay is wrong once ranks have left; empty: it is not.

    renumbered: ranks that stay get other numbers
    """
    if facts.reset and facts.used:
        return RESET
    between = before is None and not facts.loop and not facts.accumulates
    used = facts.used or facts.summed
    if facts.rebuilt or not used:
        return ""
    if before not in (None, now):  # changed: as `cycle(range(size))`, it goes on from the set-up
        return _DERIVED if "size" in facts.set_up and facts.accumulates else ""
    if not (before == now or between):
        return ""
    if facts.set_up & _BY_SIZE:
        return _derived(facts)
    if renumbered and "rank" in facts.set_up:
        return "is computed from the rank's number before the loop: ask for it in every iteration"
    return ""
