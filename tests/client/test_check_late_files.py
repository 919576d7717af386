"""Logs that each rank opens in the loop: which ones no other rank has to know of."""

from __future__ import annotations

import ast

import pytest

from dq_client.check.facts import facts_of
from dq_client.check.late_files import opens_for_itself

OPEN = "f = open(str(r), 'w')"


@pytest.mark.parametrize(
    "lines",
    [
        f"f = None\nif f is None:\n    {OPEN}\nf.write('x')\nf.close()",
        f"f, n = None, 0\nif not f:\n    {OPEN}\n    f.write('head')\nprint(n, file=f)",
        f"f: object = None\nif r == 0 and f is None:\n    {OPEN}\nif f is not None:\n    f.flush()",
        f"def log(t):\n    global f\n    if f is None:\n        {OPEN}\n    f.write(t)",
    ],
)
def test_a_file_that_each_rank_opens_and_writes(lines: str) -> None:
    assert opens_for_itself(ast.parse(lines), "f")
    assert facts_of(lines, "p.py").opens_for_itself("f")
    assert not opens_for_itself(ast.parse(lines), "g")


@pytest.mark.parametrize(
    "more",
    [
        "n = f.tell()",
        "n = f.write('x')",
        "other = f",
        "fresh = f is None",
        "if f is None:\n    n += 1",
        f"if f is None:\n    {OPEN}\n    n = 1",
        f"if f is None:\n    {OPEN}\nelse:\n    n = 1",
        "if f is None:\n    f = open(next(names), 'w')",
        "if f is None:\n    f = open((n := n + 1), 'w')",
        "if f is None:\n    f = other_open('x')",
        f"if f is None and once():\n    {OPEN}",
        f"if f is None or n:\n    {OPEN}",
        "f.write(f.name)",
        "with f:\n    pass",
        "if f:\n    n += 1",
        "while f is None:\n    n += 1",
    ],
)
def test_what_else_is_done_with_it_may_be_seen_by_others(more: str) -> None:
    source = f"f = None\nif f is None:\n    {OPEN}\nf.write('x')\n{more}"
    assert not opens_for_itself(ast.parse(source), "f")


def test_an_attribute_is_another_name() -> None:
    source = f"self.f = None\nif self.f is None:\n    self.{OPEN}\nself.f.write('x')"
    assert opens_for_itself(ast.parse(source), "f")
    assert not opens_for_itself(ast.parse(f"{source}\ncopy = self.f"), "f")
