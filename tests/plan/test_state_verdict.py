"""What becomes of a variable: every row of the table in docs/carry.md, and what is between."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dq_client.check.facts import Variable
from dq_client.check.roles import Role
from resize_lib.state import verdict
from resize_lib.state.verdict import Fate, Seen, growth, lost, stale

A, B, C = b"a", b"b", b"c"
CARRY, KEEP, REFUSE = Fate.CARRY, Fate.KEEP, Fate.REFUSE
DERIVED, OF_PART, DIFFERS = verdict._DERIVED, verdict._OF_PART, verdict._DIFFERS
COUNTS, UNCLEAR, UNSEEN = verdict._COUNTS, verdict._UNCLEAR, verdict._UNSEEN


def seen(changed: str, **other: Any) -> Seen:
    """changed: what the job has at its first loop and now, then what the joining rank has.

    "a b : a a"; "-": it is not bound. "!": the job's ranks differ, "1": the job is one rank
    """
    job, new = changed.rstrip("!1").split(":")
    before, now, start, here = (
        None if word == "-" else word.encode() for word in (*job.split(), *new.split())
    )
    equal, alone = not changed.endswith("!"), changed.endswith("1")
    return Seen(before, now, equal, alone, start, here, **other)


def facts(words: str) -> Variable:
    """`accumulates`, `used`, `rebuilt`, `unseen`; `set_up=size,rank`, `loop=part`."""
    flags: dict[str, Any] = {"used": False, "changed_line": 0 if "unseen" in words else 7}
    for word in words.replace("unseen", "").split():
        name, _, of = word.partition("=")
        flags[name] = frozenset(of.split(",")) if of else True
        if name == "role":
            flags[name] = Role[of.upper()]
    return Variable(line=3, **flags)


# What digests say, what the source says, what happens, and why it is refused.
GROWTH = [
    # changed and equal: carried
    ("a b : a a", "used", CARRY, ""),
    ("a b : a a", "used accumulates", CARRY, ""),
    ("a b : a b", "used accumulates", CARRY, ""),
    ("a b : a a", "accumulates", CARRY, ""),
    ("a b : a a 1", "used accumulates", CARRY, ""),
    ("- b : - -", "used", CARRY, ""),
    ("- b : - b", "used", CARRY, ""),
    ("a - : a a", "used", CARRY, ""),  # deleted
    ("a b : a a", "used set_up=size", CARRY, ""),  # equal at the start: the size played no part
    # changed and different: the rank's own
    ("a b : a a !", "used accumulates loop=part", KEEP, ""),
    ("a b : c c !", "used accumulates loop=clock", KEEP, ""),
    ("a b : a a !", "used accumulates", REFUSE, UNSEEN),  # no line shows why they differ
    ("a b : a a !", "accumulates", KEEP, ""),
    ("a b : a a !", "used set_up=size", KEEP, ""),
    ("- b : - - !", "used", KEEP, ""),
    # unchanged and equal everywhere
    ("a a : a a", "used", KEEP, ""),
    ("a a : a a", "used set_up=rank", KEEP, ""),
    ("a a : a a", "used set_up=size", KEEP, ""),
    ("- - : - -", "used", KEEP, ""),
    # unchanged, different in the joining rank: refused, if it follows from the number of ranks
    ("a a : b b", "used set_up=size", REFUSE, DERIVED),
    ("a a : b b 1", "used set_up=size", REFUSE, DERIVED),
    ("a a : a a", "used set_up=size,rank", REFUSE, DERIVED),  # equal by chance
    ("a a : b b", "set_up=size", KEEP, ""),
    ("a a : b b", "summed set_up=size", REFUSE, DERIVED),
    ("a a : a a", "summed set_up=size", KEEP, ""),
    ("a a : a a", "summed set_up=size,rank", REFUSE, DERIVED),
    ("a a : b b", "used", REFUSE, DIFFERS),
    ("a a : - -", "used", REFUSE, DIFFERS),
    ("a a : a b", "used", REFUSE, DIFFERS),
    # … kept, if it follows from the rank, a clock or the process
    ("a a : b b", "used set_up=rank", KEEP, ""),
    ("a a : b b", "used set_up=clock", KEEP, ""),
    ("a a : b b 1", "used set_up=part", REFUSE, OF_PART),
    ("a a : a a", "used set_up=part", REFUSE, OF_PART),  # equal by chance
    ("a a : b b !", "used set_up=part", REFUSE, OF_PART),
    ("a a : b b !", "set_up=part", KEEP, ""),
    # what memory had by chance: the job's, once the loop has filled it on all ranks alike
    ("a a : b b", "used set_up=empty", KEEP, ""),
    ("a b : c c", "used set_up=empty", CARRY, ""),
    ("a b : c c 1", "used set_up=empty", CARRY, ""),
    ("a b : c c", "used set_up=empty,part", KEEP, ""),
    ("a b : c c", "used set_up=empty,size", REFUSE, DERIVED),
    # rank 0's alone
    ("a b : a a 1", "used accumulates loop=rank role=root", KEEP, ""),
    ("a b : a a !", "used accumulates loop=rank role=root", KEEP, ""),
    ("a b : a a !", "used loop=part role=past", REFUSE, verdict._PAST),
    # added up by each rank between two loops, or after the loop of a function that is called again
    ("a b : a a 1", "used accumulates set_up=part", REFUSE, UNCLEAR),
    ("a b : a a 1", "used unseen set_up=part", REFUSE, UNCLEAR),
    ("a b : a a 1", "used set_up=part", CARRY, ""),
    ("a b : a a 1", "unseen set_up=part", CARRY, ""),
    ("a b : a a", "used unseen set_up=part", CARRY, ""),
    ("a b : c c 1", "used accumulates set_up=rank", KEEP, ""),  # a random stream of the rank's
    ("a a : b b", "", KEEP, ""),
    ("a a : b b !", "used", KEEP, ""),
    ("a a : b b !", "set_up=size", KEEP, ""),
    # each rank has its part, for as many ranks as there were
    ("a a : b b !", "used set_up=size", REFUSE, DERIVED),
    ("a a : a a !", "used set_up=size,rank", REFUSE, DERIVED),
    ("a b : c c !", "used accumulates set_up=size", REFUSE, DERIVED),
    ("a b : c c !", "used unseen set_up=size", REFUSE, DERIVED),
    ("a b : c c !", "accumulates set_up=size", KEEP, ""),
    ("a b : c c !", "used unseen", REFUSE, UNSEEN),
    ("a b : c c !", "unseen", REFUSE, UNSEEN),
    ("a b : c c !", "used accumulates", REFUSE, UNSEEN),
    # changed, and what was there before differs in the joining rank
    ("a b : c c", "used", REFUSE, DIFFERS),
    ("a b : - -", "used", REFUSE, DIFFERS),
    ("a b : c c", "used set_up=size", REFUSE, DERIVED),
    ("a b : c c", "used set_up=rank", KEEP, ""),
    ("a b : c c", "used set_up=clock", KEEP, ""),
    ("a b : c c", "", KEEP, ""),
    # bound between the first loop and this one
    ("- b : - c", "used set_up=size", REFUSE, DERIVED),
    ("- b : - c", "set_up=size", CARRY, ""),
    ("- b : - c", "used", CARRY, ""),
    ("- b : - c", "used set_up=rank", CARRY, ""),
    ("- b : - c 1", "used set_up=rank", KEEP, ""),
    ("- b : - b", "used set_up=size", CARRY, ""),
    # one rank alone cannot tell
    ("a b : a a 1", "used accumulates loop=part", REFUSE, UNCLEAR),
    ("a b : a a 1", "used accumulates loop=rank", REFUSE, UNCLEAR),
    ("a b : a a 1", "used accumulates loop=clock", REFUSE, UNCLEAR),
    ("a b : a a 1", "accumulates loop=part", KEEP, ""),
    ("a b : a a 1", "used loop=part", CARRY, ""),
    ("a b : a a 1", "used loop=part role=open", REFUSE, UNCLEAR),
    ("a b : a a 1", "used role=open", CARRY, ""),
    ("a b : a a", "used accumulates loop=part", CARRY, ""),
    # rebuilt in @rs.on_resize or @rs.setup: whatever it is
    ("a a : b b", "used rebuilt set_up=size", KEEP, ""),
    ("a b : c c 1", "used rebuilt accumulates loop=part", KEEP, ""),
]  # fmt: skip


@pytest.mark.parametrize(("digests", "source", "fate", "why"), GROWTH)
def test_a_variable_in_a_rank_that_joins(digests: str, source: str, fate: Fate, why: str) -> None:
    assert growth(seen(digests), facts(source)) == (fate, why)


@pytest.mark.parametrize(("source", "fate"), [("used", REFUSE), ("", KEEP), ("used rebuilt", KEEP)])
def test_what_cannot_be_copied_is_refused_if_it_is_used(source: str, fate: Fate) -> None:
    found, why = growth(seen("a b : a a", failed="g is a generator"), facts(source))
    assert found is fate
    assert ("cannot be copied" in why and "g is a generator" in why) == (fate is REFUSE)


@pytest.mark.parametrize("digests", ["a b : a a !", "a a : a a"])
def test_what_cannot_be_copied_and_need_not_be_is_kept(digests: str) -> None:
    assert growth(seen(digests, failed="a lock"), facts("used")) == (KEEP, "")


def test_numbers_that_are_equal_by_chance_are_not_carried() -> None:
    """Each rank counts its own items, and all have the same count now."""
    case = seen("a b : a a", coincides=True)
    assert growth(case, facts("used accumulates loop=part")) == (REFUSE, COUNTS)
    assert growth(case, facts("accumulates loop=part")) == (CARRY, "")
    assert growth(case, facts("used loop=part")) == (CARRY, "")
    assert growth(case, facts("used accumulates")) == (CARRY, "")
    assert growth(case, facts("used loop=part role=open"))[0] is REFUSE
    assert growth(case, facts("used role=open")) == (CARRY, "")


def test_a_curve_of_own_items_has_none_of_earlier_iterations_in_a_rank_that_joins() -> None:
    words = "used accumulates curve loop=part"
    fate, why = growth(seen("a b : a a !"), facts(words))
    assert fate is REFUSE and "item of the rank's own" in why
    assert growth(seen("a b : a a !"), facts(words.replace("used ", ""))) == (KEEP, "")


def test_what_nobody_has_changed_yet_is_no_part_of_the_last_iteration() -> None:
    assert growth(seen("a a : a a"), facts("used role=past"))[0] is REFUSE
    assert growth(seen("a a : a a", whole=True), facts("used role=past")) == (KEEP, "")
    assert growth(seen("a b : a a", whole=True), facts("used role=past"))[0] is REFUSE
    assert growth(seen("a a : a a !", whole=True), facts("used role=past"))[0] is REFUSE


def test_what_is_left_of_an_iteration_is_of_the_part_or_of_the_number_of_ranks() -> None:
    for loop, begin in (("size", "is computed from the number"), ("size,part", "is made of the")):
        fate, why = growth(seen("a b : a a"), facts(f"used role=past loop={loop}"))
        assert fate is REFUSE and why.startswith(begin)


def test_bytes_of_an_object_of_a_package_say_nothing() -> None:
    """Unchanged, with other bytes in the joining rank: it may be the same."""
    assert growth(seen("a a : b b", opaque=True), facts("used")) == (KEEP, "")
    assert growth(seen("a a : b b", opaque=True), facts("used set_up=size"))[0] is REFUSE
    assert growth(seen("a d : b b", opaque=True), facts("used accumulates")) == (CARRY, "")


def test_nothing_that_follows_from_the_size_is_carried_or_kept_with_another_value() -> None:
    """Over all digests: a used variable of the size is refused wherever the set-ups differ."""
    for before, now, here, alone in itertools.product((A, B), (A, B), (B, C), (False, True)):
        case = Seen(before, now, True, alone, here, here)
        if here not in (before, now):
            fate, why = growth(case, facts("used set_up=size"))
            assert (fate, why) == (REFUSE, DERIVED), case


def test_only_what_is_equal_on_all_ranks_is_ever_carried() -> None:
    words = ("used", "accumulates", "set_up=size", "set_up=rank", "loop=part", "rebuilt")
    digests = (None, A, B)
    for before, now, start, here in itertools.product(digests, repeat=4):
        for chosen in itertools.chain(itertools.combinations(words, 2), [()]):
            case = Seen(before, now, False, False, start, here)
            fate, why = growth(case, facts(" ".join(chosen)))
            assert (fate, why) in ((KEEP, ""), (REFUSE, DERIVED), (REFUSE, UNSEEN)), case
            assert why != DERIVED or "set_up=size" in chosen
            assert why != UNSEEN or chosen == ("used", "accumulates")


# Before, now, what the source says; "?": there is none. Whether a leaving rank may take it along.
LOST = [
    (A, B, "used accumulates", True),
    (A, B, "used accumulates loop=part", True),
    (None, B, "used accumulates", True),
    (A, None, "used accumulates", True),
    (A, B, "?", True),
    (A, A, "used accumulates", False),
    (A, A, "?", False),
    (A, B, "accumulates", False),  # only printed
    (A, B, "used", False),  # a buffer that is overwritten
    (A, B, "used loop=clock", False),
    (A, B, "used loop=rank role=root", True),
    (A, B, "loop=rank role=root", False),
    (A, B, "used accumulates rebuilt", False),
    (A, B, "used unseen", True),  # it has changed, and no line shows how
    (A, B, "unseen", True),
    (A, B, "used unseen rebuilt", False),
    (A, B, "read unseen", True),  # the loop only reads it, as far as the source shows
    (A, A, "used unseen", False),
]


@pytest.mark.parametrize(("before", "now", "source", "refused"), LOST)
def test_what_a_leaving_rank_takes_along(
    before: bytes | None, now: bytes | None, source: str, refused: bool
) -> None:
    why = lost(before, now, None if source == "?" else facts(source))
    assert bool(why) == refused
    assert ("another name" in why) == (refused and "unseen" in source)
    assert not why or "rs.local_state" in why


# Before, now, what the source says, whether ranks get other numbers; what the refusal speaks of.
STALE = [
    (A, A, "used set_up=size", False, "number of ranks"),
    (A, A, "used set_up=size", True, "number of ranks"),
    (A, A, "used set_up=rank", True, "rank's number"),
    (A, A, "used set_up=rank", False, ""),
    (A, A, "used set_up=clock", True, ""),
    (A, A, "used", True, ""),
    (A, A, "set_up=size", True, ""),
    (A, A, "summed set_up=size", False, "number of ranks"),
    (A, B, "summed set_up=size", False, ""),
    (A, A, "used set_up=size rebuilt", True, ""),
    (A, B, "used set_up=size", True, ""),  # the loop has bound it since
    (A, B, "used set_up=size accumulates", False, "number of ranks"),  # it goes on from there
    (A, B, "used set_up=rank accumulates", False, ""),
    (None, B, "used set_up=size", False, "number of ranks"),  # between two loops
    (None, B, "used set_up=size accumulates", False, ""),
    (None, B, "used set_up=size loop=part", False, ""),
]


@pytest.mark.parametrize(("before", "now", "source", "renumbered", "about"), STALE)
def test_what_is_wrong_once_ranks_have_left(
    before: bytes | None, now: bytes | None, source: str, renumbered: bool, about: str
) -> None:
    why = stale(before, now, facts(source), renumbered=renumbered)
    assert (about in why) if about else not why


def test_every_reason_says_what_to_do() -> None:
    for why in (DERIVED, DIFFERS, COUNTS, UNCLEAR, lost(A, B, None)):
        assert ": " in why and why[0].islower() and not why.endswith(".")


# Of a start from a copy on another number of ranks.
RESTART = [
    ("a b : a a", "used", CARRY, ""),
    ("a b : a a !", "used", KEEP, ""),
    ("a b : a a !", "used unseen", REFUSE, UNSEEN),
    ("a b : a a !", "unseen", REFUSE, UNSEEN),
    ("a a : a c !", "used unseen", KEEP, ""),
    ("a b : a a 1", "used accumulates loop=rank", REFUSE, UNCLEAR),
    ("a b : a a 1", "used accumulates loop=rank role=root", CARRY, ""),
]


@pytest.mark.parametrize(("changed", "words", "fate", "why"), RESTART)
def test_what_a_start_from_a_copy_gets(changed: str, words: str, fate: Fate, why: str) -> None:
    given = seen(changed), facts(words)
    assert verdict.restart(*given, same_size=False, first=True) == (fate, why)
    if "unseen" in words:
        assert verdict.restart(*given, same_size=True, first=True) == (KEEP, "")


def test_what_rank_0_alone_changed_is_given_to_rank_0_alone() -> None:
    given = seen("a b : a a 1"), facts("used accumulates loop=rank role=root")
    for same_size in (True, False):
        assert verdict.restart(*given, same_size=same_size, first=False) == (KEEP, "")
