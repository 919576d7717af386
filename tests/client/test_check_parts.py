"""The rank's part of the data, given to functions of another file that keep it."""

from __future__ import annotations

import pytest

from dq_client.check.facts import Facts, facts_of
from dq_client.check.roles import Role

MAIN = """
import resize_lib
from helper import {what}
rs = resize_lib.session()
u = rs.array("u", 30)
lag = Lag()
for step in rs.iterations(9):
    mean = rs.comm.allreduce(u.local.sum())
    {call}
"""


def given(call: str, what: str = "Lag") -> frozenset[str]:
    return facts_of(MAIN.format(call=call, what=what), "main.py").parts_given()


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("lag.change(u.local.sum())", {"change"}),
        ("part = u.local * 2; lag.change(2, x=part)", {"change"}),
        ("lag.change(mean)", set()),
        ("lag.change(step)", set()),
        ("change(u.local)", {"change"}),
    ],
)
def test_what_the_part_is_given_to(call: str, names: set[str]) -> None:
    assert {name for name in given(call, "Lag, change") if name == "change"} == names


def test_under_its_own_name() -> None:
    assert "difference" in given("change(u.local)", "Lag, difference as change")


HELPER = """
class Lag:
    def __init__(self):
        self.before, self.scratch = 0.0, None
    def change(self, x):
        self.scratch = x * 2
        change, self.before = x - self.before, x
        return change + self.scratch
last, buffer = {}, {}
def change(x):
    before = last.get("x", x)
    last["x"] = x
    buffer["x"] = x * 2
    return before + buffer["x"]
"""


def helper(*parts: str) -> Facts:
    return facts_of(HELPER, "helper.py", frozenset(parts))


@pytest.mark.parametrize(("parts", "role"), [(["change"], Role.PAST), ([], Role.NONE)])
def test_what_the_next_iteration_reads_of_it(parts: list[str], role: Role) -> None:
    facts = helper(*parts)
    assert facts.attribute("before").role is role
    assert facts.variable(0, 0, "last").role is role


def test_what_each_call_sets_before_it_reads_it() -> None:
    facts = helper("change")
    for found in (facts.attribute("scratch"), facts.variable(0, 0, "buffer")):
        assert (found.role, found.set_up) == (Role.NONE, frozenset())


def test_of_a_list_that_one_function_extends_more_is_read_by_another() -> None:
    source = """
import resize_lib
rs = resize_lib.session()
u = rs.array("u", 30)
seen, sums = [], []
def record():
    seen.append(u.local.sum())
    sums.append(u.local.sum())
def change():
    return seen[-1] - seen[-2] + sums[-1]
total = 0.0
for step in rs.iterations(9):
    record()
    total += rs.comm.allreduce(change())
"""
    facts = facts_of(source, "main.py")
    line = source.splitlines().index("for step in rs.iterations(9):") + 1
    assert facts.variable(0, line, "seen").curve
    assert not facts.variable(0, line, "sums").curve
