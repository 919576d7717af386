"""Lines in which the number of an iteration and the number of ranks select the work together."""

from __future__ import annotations

import textwrap

import pytest

from dq_client.check.facts import facts_of

HEAD = """
import numpy as np
import resize_lib
rs = resize_lib.session()
comm, tasks, n = rs.comm, list(range(40)), 48
total = done = 0
"""


def line(body: str, after: str = "pass", loop: str = "for t in rs.iterations(40):") -> str:
    """The text of the line that is found; empty: none is."""
    inside = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    source = f"{HEAD}{loop}\n{inside}\n{after}\n"
    found, _ = facts_of(source, "p.py").turn_line()
    return source.splitlines()[found - 1].strip() if found else ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("k = t * comm.size + comm.rank\ntotal += comm.allreduce(k)", "k = t * comm"),
        ("k = (t + 1) * rs.size\ntotal += comm.allreduce(k)", "k = (t + 1)"),
        ("k = comm.Get_size() * t\ntotal += comm.allreduce(k)", "k = comm.Get_size() * t"),
        ("mine = tasks[comm.rank::comm.size]\nr = mine[t] if t < len(mine) else 0\n"
         "total += comm.allreduce(r)", "r = mine"),
        ("lo = comm.rank * n // comm.size\nhi = (comm.rank + 1) * n // comm.size\n"
         "total += comm.allreduce(1 if lo + t < hi else 0)", "total += "),
    ],
)  # fmt: skip
def test_work_that_is_shared_by_turns(body: str, expected: str) -> None:
    assert line(body).startswith(expected)


@pytest.mark.parametrize(
    "body",
    [
        "total += comm.allreduce(sum(t * k for k in range(comm.rank, 9, comm.size)))",
        "total += comm.allreduce(sum(k for k in range(comm.rank, 9, comm.size) if k < t))",
        "if t % comm.size == comm.rank:\n    total += 1",
        "k = done + comm.rank\ntotal += comm.allreduce(k)\ndone += comm.size",
        "print(t * comm.size)",
        "lo = comm.rank * n // comm.size\ntotal += comm.allreduce(sum(tasks[lo:lo + 4]) * t)",
        "lr = 0.1 * comm.size * 0.9**t\ntotal += comm.allreduce(lr)",
        "total += comm.allreduce(total) / comm.size",
    ],
)
def test_work_that_is_divided_in_each_iteration(body: str) -> None:
    assert line(body) == ""


@pytest.mark.parametrize("rounds", ["n // comm.size", "-(-n // rs.size)"])
def test_a_number_of_iterations_that_follows_from_the_ranks(rounds: str) -> None:
    loop = f"for t in rs.iterations({rounds}):"
    assert line("total += comm.allreduce(comm.rank)", loop=loop) == loop


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("print(comm.allreduce(done))", True),
        ("print(10 * total // comm.reduce(4 * done))", True),
        ("print(comm.allreduce(done) / comm.size)", False),
        ("print(comm.allreduce(total))", False),  # of what ranks have computed together
        ("print(comm.allreduce(done * comm.rank))", False),
    ],
)
def test_what_all_ranks_have_counted_is_added_up(after: str, found: bool) -> None:
    assert line("done += 1\ntotal += comm.allreduce(comm.rank)", after) == (after if found else "")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("done += n // comm.size", True),
        ("share = n / rs.size\ndone = done + share", True),
        ("done += rs.size", False),  # a place in all work: the remedy
        ("done += comm.allreduce(1.0) / comm.size", False),
        ("share = n // comm.size\ntotal += comm.allreduce(share)", False),
        ("done += n // 4", False),
    ],
)
def test_what_one_of_so_many_ranks_does_is_counted(body: str, found: bool) -> None:
    assert bool(line(body, "print(done * comm.size)")) == found
