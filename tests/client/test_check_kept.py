"""What one iteration keeps of the rank's part for the next, in forms that programs have."""

from __future__ import annotations

import pytest

from dq_client.check.facts import facts_of
from dq_client.check.roles import Role

HEAD = """
import numpy as np
import tempfile
import resize_lib
rs = resize_lib.session()
u = rs.array("u", 30)
total = mine = 0.0
"""
CLASSES = """
class Sample:
    def __init__(self, mass=0.0):
        self.mass = mass
class Block:
    def __init__(self):
        self.last, self.now = Sample(), 0.0
    def replace(self, x):
        new = Sample()
        new.mass = x
        found = x - self.last.mass
        self.last = new
        return found
    def renew(self, x):
        self.last = Sample(x)
    def told(self):
        return self.last.mass
class Member:
    def __init__(self, i):
        self.i, self.x = i, i
    def advance(self, step):
        self.x = (3 * self.x + step) % 101
def owns(member):
    return member.i % rs.size == rs.rank
def advanced(part, before):
    now = part.sum()
    return now, now - before
"""


def program(before: str, *body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body)
    loop = f"for step in rs.iterations(9):\n{lines}"
    return f"{HEAD}{CLASSES}{before}\n{loop}print(total + rs.comm.allreduce(mine))\n"


SUM = "total += rs.comm.allreduce({})"
PAST, NONE = Role.PAST, Role.NONE


@pytest.mark.parametrize(
    ("name", "role", "before", "body"),
    [
        # the trapezoidal rule: what is kept is used in a sum of the rank's own
        ("last", PAST, "last = 0.0",
         ("now = u.local.sum()", "mine += last + now", "last = now")),
        ("last", NONE, "last = 0.0", ("last = u.local.sum()", SUM.format("last"))),
        # one of two values that a function returns
        ("before", PAST, "before = 0.0",
         ("before, change = advanced(u.local, before)", SUM.format("change"))),
        ("change", NONE, "before = change = 0.0",
         ("before, change = advanced(u.local, before)", SUM.format("change"))),
        # objects that replace one another
        ("old", PAST, "old = Sample()",
         ("new = Sample(u.local.sum())", SUM.format("new.mass - old.mass"), "old = new")),
        ("old", NONE, "old = Sample()",
         ("old = Sample(u.local.sum())", SUM.format("old.mass"))),
        # a short history
        ("h", PAST, "h = np.zeros(3)",
         ("h = np.roll(h, 1)", "h[0] = u.local.sum()", SUM.format("h[0] - h[1]"))),
        # items that are set once
        ("w", PAST, "w = {}",
         ("x = w.setdefault(step % 3, u.local.sum())", SUM.format("x"))),
        ("w", PAST, "w = {}",
         ("if step % 3 not in w: w[step % 3] = u.local.sum()", SUM.format("w[step % 3]"))),
        ("w", NONE, "w = {}", ("x = w.setdefault(step % 3, step ** 2)", SUM.format("x"))),
        # flags that decide over data
        ("done", PAST, "done = False",
         ("if not done:", "    u.local[:] -= 1", "    done = bool(u.local.max() < 0)")),
        ("done", NONE, "done = False",
         ("done = bool(rs.comm.allreduce(u.local.max()) < 0)",
          "if not done:", "    u.local[:] -= 1")),
    ],
)  # fmt: skip
def test_variables(name: str, role: Role, before: str, body: tuple[str, ...]) -> None:
    source = program(before, *body)
    line = source.splitlines().index("for step in rs.iterations(9):") + 1
    assert facts_of(source, "main.py").variable(0, line, name).role is role


@pytest.mark.parametrize(
    ("name", "role", "before", "body"),
    [
        ("last", PAST, "b = Block()", (SUM.format("b.replace(u.local.sum())"),)),
        ("last", PAST, "b = Block()", (SUM.format("b.told()"), "b.renew(u.local.sum())")),
        ("last", NONE, "b = Block()", ("b.renew(u.local.sum())", SUM.format("b.told()"))),
        ("x", PAST, "members = [Member(i) for i in range(12)]",
         ("for m in members:", "    if owns(m): m.advance(step)",
          SUM.format("sum(m.x for m in members if owns(m))"))),
        ("x", PAST, "members = [Member(i) for i in range(12)]",
         ("for m in members:", "    if not owns(m): continue", "    m.advance(step)",
          SUM.format("sum(m.x for m in members if owns(m))"))),
        ("x", NONE, "members = [Member(i) for i in range(12)]",
         ("for m in members: m.advance(step)",
          SUM.format("sum(m.x for m in members if owns(m))"))),
    ],
)  # fmt: skip
def test_attributes(name: str, role: Role, before: str, body: tuple[str, ...]) -> None:
    facts = facts_of(program(before, *body), "main.py")
    assert facts.attribute(name).role is role


@pytest.mark.parametrize(
    ("folder", "lines", "is_found"),
    [
        ("tempfile.mkdtemp()", ("x = np.load(path)", "np.save(path, x + 1)"), True),
        ("tempfile.mkdtemp()", ("np.save(path, 1)", "x = np.load(path)"), False),
        ("tempfile.mkdtemp()", ("x = np.load(path)",), False),
        ("tempfile.gettempdir()",
         ("x = np.load(path)", "if rs.rank == 0: np.save(path, x + 1)"), False),
    ],
)  # fmt: skip
def test_a_file_of_the_process(folder: str, lines: tuple[str, ...], is_found: bool) -> None:
    source = program(f"path = {folder} + '/x.npy'", *lines)
    found = facts_of(source, "main.py").own_file_line()
    assert found == (source.splitlines().index(f"    {lines[0]}") + 1 if is_found else 0)
