"""The tables of a resize, on simulated ranks: no error at any place leaves anybody waiting."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import resize_tables
from harness.examples import examples
from harness.resize_calls import calls_of
from harness.resize_protocol import TABLES, TRANSITIONS, Failure, Role, State, Table
from tests.plan.resize_simulator import Deadlock, Simulation

C, J, R = Role.CONTINUING, Role.JOINING, Role.RETIRING
ROLES = {
    "expand": [C, C, J, J], "shrink": [R, C, C, R], "regrid": [C, C, C], "restart": [R, R],
    "loss": [C, C, R],
}  # fmt: skip
RESIZES = sorted(ROLES)
SEEDS = st.integers(0, 2**32)


def simulated(kind: str, seed: int, error: tuple[str, int] | None) -> Simulation:
    """One resize; `seed`: how often what need not be once is called."""
    chance = random.Random(seed)
    often = {"": (1, 1), "?": (kind == "loss", 1), "*": (0, 2), "+": (1, 2)}
    found = Simulation(TABLES[kind], ROLES[kind], lambda t: chance.randint(*often[t]), error)
    found.run()
    return found


def places(table: Table, roles: list[Role]) -> list[tuple[str, int]]:
    """Every stage with every rank that can fail in it."""
    return [
        (stage.name, number)
        for stage in table
        for number, role in enumerate(roles)
        if role.value in stage.roles
    ]


@pytest.mark.parametrize("kind", RESIZES)
@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS)
def test_without_an_error_every_rank_comes_to_the_end(kind: str, seed: int) -> None:
    found = simulated(kind, seed, None)
    assert found.told == [State.COMMITTED]
    for rank in found.ranks:
        stays = rank.role is not R
        if kind == "restart" or not stays:
            continue
        assert rank.new
        assert not rank.old
        kept = set(rank.names) - {"world"}
        grown = {"newown", "newrow", "newcol"}
        assert kept == grown | ({"job"} if kind == "regrid" else {"newjob"}) | (
            {"job", "own", "row", "col"} if kind == "loss" else set()
        )  # what a rank that is lost was in is left as it is


@pytest.mark.parametrize("kind", RESIZES)
@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS)
def test_an_error_anywhere_is_agreed_or_ends_the_job(kind: str, seed: int) -> None:
    for error in places(TABLES[kind], ROLES[kind]):
        found = simulated(kind, seed, error)
        if found.ended:  # behind the last agreement rank 0 may have reported already
            assert State.ABORTED not in found.told
            assert len(found.told) <= 1
        else:
            check_as_before(kind, found)


def check_as_before(kind: str, found: Simulation) -> None:
    """All ranks know alike that the resize does not happen, and have what they had."""
    outcome = {rank.state for rank in found.ranks if not rank.gone}
    assert outcome in ({State.ABORTED}, {State.POSTPONED})
    assert found.told == ([State.ABORTED] if outcome == {State.ABORTED} else [])
    for rank in found.ranks:
        if rank.role is J:
            continue
        assert rank.old
        assert not rank.new
        assert set(rank.names) == {"job", "own", "row", "col"}
        assert rank.names["job"].members == frozenset(
            number for number, role in enumerate(ROLES[kind]) if role is not J
        )


@pytest.mark.parametrize("kind", RESIZES)
def test_every_stage_that_can_fail_before_the_point_of_no_return_is_agreed(kind: str) -> None:
    for stage in TABLES[kind]:
        if stage.state is State.MOVING:
            assert stage.agrees, f"{stage.name}: an error would be acted on by one rank alone"
        if stage.state is State.MOVED:
            assert not stage.agrees, f"{stage.name}: there is no way back"


def test_a_call_that_one_role_alone_makes_is_found() -> None:
    """The simulator sees what it is for."""
    table = list(TABLES["expand"])
    at = next(k for k, stage in enumerate(table) if stage.name == "arrive")
    table.insert(at, type(table[at])("extra", "C", State.MERGED, "newown.Ibarrier"))
    simulation = Simulation(tuple(table), ROLES["expand"], lambda times: times in ("", "+"), None)
    with pytest.raises((Deadlock, AssertionError)):
        simulation.run()


def test_states_end_where_nothing_follows() -> None:
    reached = {State.ORDERED}.union(*TRANSITIONS.values())
    assert reached == set(State) == set(TRANSITIONS)
    over = [state for state, then in TRANSITIONS.items() if not then]
    assert over == [State.COMMITTED, State.ABORTED, State.POSTPONED, State.ENDED]
    for table in TABLES.values():
        for before, after in pairwise(table):
            same = before.state is after.state
            assert same or after.state in TRANSITIONS[before.state], (before, after)


def test_every_call_can_be_read() -> None:
    for table in TABLES.values():
        for stage in table:
            assert all(call.name.isidentifier() for call in calls_of(f"{stage.calls} {stage.told}"))
            assert stage.told == "" or stage.failure is not Failure.END


def test_the_page_shows_the_tables() -> None:
    text = resize_tables.PAGE.read_text()
    assert resize_tables.filled(text) == text
