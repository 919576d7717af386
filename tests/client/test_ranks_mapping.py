"""Which ranks share memory, as MPI is told: alike on all nodes of a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.node.ranks.world import World, WorldStart


def mapping(nodes: list[str], here: list[str]) -> str:
    start = WorldStart(
        world=0, programs=[["p"]], program_of=[], cwd="/", env={}, nodes=nodes, folder="", name="w"
    )
    return World(start, here).machine.keys["PMI_process_mapping"]


NAMES = ["n1", "n2", "n3", "n4"]


@given(st.lists(st.sampled_from(NAMES), min_size=1), st.permutations(NAMES), st.integers(1, 3))
def test_all_keepers_tell_the_same(nodes: list[str], order: list[str], cut: int) -> None:
    one, other = order[:cut], order[cut:]
    told = {mapping(nodes, here) for here in (one, other) if set(here) & set(nodes)}
    assert len(told) == 1


@pytest.mark.parametrize(
    ("here", "told"),
    [
        (["n1", "n2", "n3"], "(vector,(0,1,3))"),  # nodes of one keeper are one machine
        (["n1", "n2"], "(vector,(0,3,1))"),
        (["n3"], "(vector,(0,3,1))"),
    ],
)
def test_nodes_are_one_only_if_one_keeper_has_them_all(here: list[str], told: str) -> None:
    assert mapping(["n1", "n2", "n3"], here) == told
