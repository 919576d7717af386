"""Lists to which each iteration adds an item of the rank's own, and rows that change in place."""

from __future__ import annotations

import pytest

from tests.client.test_check_facts import ask, program

ADDED = "g.append(float(x.local.sum()))"


@pytest.mark.parametrize(
    ("before", "body", "after", "found"),
    [
        ("g = []", ADDED, "save(sum(g) / len(g))", True),
        ("g = []", ADDED, "save(np.mean(g))", True),
        ("g = []", ADDED, "save(g[-1] - g[0])", True),
        ("g = []", "g += [float(x.local.sum())]", "save(max(g))", True),
        ("g = []", "g = g[-4:] + [float(x.local.sum())]", "save(max(g))", True),
        ("g = {}", "g[t] = float(x.local.sum())", "save(g[0])", True),
        ("g = []", ADDED, "save(sum(g))", False),
        ("g = []", ADDED, "save(g[-1])", False),
        ("g = []", ADDED, "print(g)", False),
        ("g = []", "g.append(comm.allreduce(float(x.local.sum())))", "save(g[0])", False),
        ("g = np.zeros(99)", "g[t] = comm.allreduce(x.local.sum())", "save(g[0])", False),
    ],
)
def test_a_curve_of_own_items(before: str, body: str, after: str, found: bool) -> None:
    assert ask(program(before, body, after), "g").curve is found


ROWS = "def turn(row, i):\n    row *= 0.9\n    row += i\ng = np.ones((9, 1))"
OWN = "range(comm.rank, 9, comm.size)"


@pytest.mark.parametrize(
    "body",
    [
        f"for i in {OWN}:\n    turn(g[i], i)",
        "for i, row in list(zip(range(9), g))[comm.rank :: comm.size]:\n    row *= 0.9",
        "np.putmask(g, np.arange(9) % comm.size == comm.rank, g * 0.9)",
        f"for i in {OWN}:\n    np.multiply(g[i], 0.9, g[i])",
    ],
)
def test_own_rows_that_change_in_place_are_seen(body: str) -> None:
    found = ask(program(ROWS, body, "save(comm.allreduce(g[comm.rank].sum()))"), "g")
    assert found.changed_line and found.used


def test_an_array_whose_change_no_line_shows_is_read_at_least() -> None:
    body = f"rows = list(g)\nfor i in {OWN}:\n    rows[i] *= 0.9"
    found = ask(program(ROWS, body, "save(comm.allreduce(g[comm.rank].sum()))"), "g")
    assert not found.changed_line and (found.read or found.used)
