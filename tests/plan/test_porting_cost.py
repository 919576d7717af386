"""The lines that porting takes: how they are counted, and that docs/porting.md says so."""

from __future__ import annotations

from statistics import median

from benchmarks.porting import code_lines, cost, costs, pairs
from dq_client.check import check_source
from harness.commands import ROOT

WRITTEN_MAX = 5

BEFORE = '''
"""A program."""

def f(x):
    """Twice."""
    return 2 * x  # no more


text = """of two
lines"""
a = f(1)
b = 2
'''
AFTER = '''
"""A program, resizable."""
# with a comment

def f(x):
    return 2 * x


with session() as rs:
    text = """of two
lines"""
    a = rs.f(1)
    c = 3
'''


def test_only_code_counts() -> None:
    lines = ["def f(x):", "return 2 * x", 'text = """of two', 'lines"""', "a = f(1)", "b = 2"]
    assert code_lines(BEFORE) == lines


def test_indentation_does_not_count_and_changed_lines_stand_apart() -> None:
    found = cost("a program", BEFORE, AFTER)
    assert (found.before, found.added, found.changed, found.removed) == (6, 1, 2, 0)
    assert found.written == 3
    assert cost("same", BEFORE, BEFORE).written == 0


def test_porting_takes_few_lines() -> None:
    found = costs()
    assert len(found) == len(list((ROOT / "docs/examples/porting/after").glob("*.py"))) >= 5
    assert median(c.written for c in found) <= WRITTEN_MAX
    for c in found:
        # Two versions of one program, the second one not made short by leaving things out.
        assert c.added + c.changed > 0
        assert c.changed < c.before / 2


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "porting.md").read_text()
    for c in costs():
        row = f"| {c.name} | {c.before} | {c.added} | {c.changed} | {c.removed} |"
        assert row in page, row


def test_dq_check_finds_nothing_in_what_was_ported() -> None:
    for _, after in pairs():
        assert check_source(after.read_text(), str(after)) == []
