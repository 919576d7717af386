"""Loops inside of expressions, and names that were read before the call, or the loop, that runs."""

from __future__ import annotations

import ast

import pytest

from dq_client.check.facts import facts_of
from dq_client.check.hidden import hides_loop, names_held, names_iterated

# A program, the line that runs, whether the loop there is hidden.
LOOPS = [
    ("for t in rs.iterations(9): pass", 1, False),
    ("x = [t for t in rs.iterations(9)]", 1, True),
    ("x = list(rs.iterations(9))", 1, True),
    ("x: list = list(rs.iterations(9))", 1, True),
    ("x += sum(rs.iterations(9))", 1, True),
    ("list(rs.iterations(9))", 1, True),
    ("def f():\n    return max(rs.iterations(9))", 2, True),
    ("def f():\n    return", 2, False),
    ("def f():\n    yield rs.iterations(9)", 2, False),
    ("def f():\n    yield from rs.iterations(9)", 2, False),
    ("t = next(rs.iterations(9))", 1, False),
    ("t = rs.iterations(9).__next__()", 1, False),
    ("t = loop.send(None)", 1, False),
    ("x = run(a, b)", 1, False),
    ("run(k for k in loop)", 1, True),
    ("x = [\n    t\n    for t in\n    rs.iterations(9)\n]", 3, True),
    ("for t in rs.iterations(9):\n    x = [k for k in a]", 1, False),
    ("if True:\n    x = sorted(rs.iterations(9))", 2, True),
    ("with a:\n    for t in rs.iterations(9):\n        pass", 2, False),
    ("assert a", 1, False),
    ("x = 1", 7, False),
    ("", 1, False),
]


@pytest.mark.parametrize(("source", "line", "hidden"), LOOPS)
def test_whether_a_loop_is_hidden(source: str, line: int, hidden: bool) -> None:
    assert hides_loop(ast.parse(source), line) is hidden
    assert facts_of(source, "p.py").hides_loop(line) is hidden


# A program, the line that runs, the function that is called there, the names that are held.
HELD = [
    ("total += train()", 1, "train", "total"),
    ("total = total + train()", 1, "train", "total"),
    ("total = train() + total", 1, "train", ""),
    ("total = train(a, b)", 1, "train", ""),
    ("train()", 1, "train", ""),
    ("x = [a, train(), b]", 1, "train", "a"),
    ("x = (a + b) * f(train(c)) + d", 1, "train", "a b f"),
    ("x = solver.train()", 1, "train", ""),
    ("x[k] += train()", 1, "train", "k x"),
    ("x = (\n    a\n    + train()\n    + b\n)", 3, "train", "a"),
    ("for t in range(n): train()", 1, "train", ""),
    ("if a:\n    total += train()", 2, "train", "total"),
    ("while a:\n    train()", 2, "train", ""),
    ("with a:\n    b = c + train()", 2, "train", "c"),
    ("def f():\n    return a - train()", 2, "train", "a"),
    ("total += other()", 1, "train", "total"),
    ("x = 1", 9, "train", ""),
]


@pytest.mark.parametrize(("source", "line", "callee", "names"), HELD)
def test_which_names_a_caller_has_read(source: str, line: int, callee: str, names: str) -> None:
    assert names_held(ast.parse(source), line, callee) == frozenset(names.split())
    assert facts_of(source, "p.py").held(line, callee) == frozenset(names.split())


# What the outer of two plain loops around the session's goes over; which names were read for it.
ITERATED = [
    ("sorted(score)", "score[]"),
    ("list(score.keys())", "score[]"),
    ("sorted(self.score, reverse=True)", ".score[]"),
    ("sorted(score.items())", "score"),
    ("list(self.score.items())", ".score list"),
    ("list(zip(a, b))", "a b list zip"),
    ("sorted(score) + list(score.values())", "list score[] score"),
    ("sorted(score, key=score.get)", ".get score"),
    ("list(self.best.found)", ".best .found[]"),
    ("self.rng.permutation(n)", ".rng n"),
    ("order(self.score)", ".score order"),
    ("score", ""),
    ("self.score", ""),
    ("score.items()", ""),
    ("enumerate(zip(a, reversed(b)))", ""),
    ("enumerate(sorted(a))", "a[]"),
    ("range(len(a))", "a len range"),
    ("rs.iterations(sorted(a))", ""),
]


@pytest.mark.parametrize(("over", "names"), ITERATED)
def test_names_of_which_a_loop_around_has_made_something(over: str, names: str) -> None:
    lines = ["while True:", f"    for name in {over}:", "        for t in rs.iterations(9): pass"]
    found = names_iterated(ast.parse("\n".join(lines)), 3)
    assert found.keys() - {"sorted"} == set(names.split())
    assert set(found.values()) <= {2}
    assert facts_of("\n".join(lines), "p.py").iterated(3) == found


def test_the_keys_alone_are_read_by_functions_of_python_not_by_those_of_the_program() -> None:
    source = "while True:\n    for k in sorted(a):\n        for t in rs.iterations(9): pass\n"
    assert names_iterated(ast.parse(source), 3) == {"a[]": 2}
    for own in ("def sorted(d): ...", "list = max"):
        assert names_iterated(ast.parse(source + own), 3) == {"a": 2}


def test_what_a_loop_goes_over_that_begins_before_the_first_iteration_is_the_same() -> None:
    """A rank that joins makes it of what its set-up has, as the job did."""
    source = "for name in sorted(a):\n    for t in rs.iterations(9): pass"
    assert not names_iterated(ast.parse(source), 2)
    assert names_iterated(ast.parse(f"for t in rs.iterations(2): pass\n{source}"), 3)
