"""Processors without names, as simulations have them."""

from __future__ import annotations

import pytest

from dq_server.core.model.errors import InvariantViolation, UnknownNode
from dq_server.sim.anonymous import AnonymousProcessors


def test_nodes_add_up() -> None:
    pool = AnonymousProcessors()
    for name, count in (("n01", 4), ("n02", 2)):
        pool.join(name, count, 1.0)
    assert (pool.capacity, pool.idle_count) == (6, 6)
    assert pool.take(6) == (0, 1, 2, 3, 4, 5)
    pool.check([(1, range(6))])
    with pytest.raises(InvariantViolation, match="1 processors taken, 0 were idle"):
        pool.take(1)


def test_no_more_are_found_than_are_idle_and_all_come_back() -> None:
    pool = AnonymousProcessors()
    pool.join("n01", 4, 1.0)
    found = pool.find(3, one_node=True)
    assert found == (0, 1, 2)
    pool.claim(found)
    assert pool.find(1, one_node=False) == (0,)
    assert pool.find(2, one_node=False) is None
    assert pool.without([0, 1, 2], (2,)) == [0, 1]
    assert pool.start_vacating((2,), job=1) == ()
    pool.give_back(iter((0, 1)))
    assert pool.idle_count == 4
    with pytest.raises(InvariantViolation, match="4 idle and 1 owned of 4"):
        pool.check([(1, (0,))])


def test_a_node_cannot_be_lost() -> None:
    pool = AnonymousProcessors()
    pool.join("n01", 4, 1.0)
    with pytest.raises(UnknownNode):
        pool.lose("n01")
