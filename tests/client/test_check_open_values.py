"""What the next iteration may use where ranks differ, and what joining ranks cannot begin with."""

from __future__ import annotations

import pytest

from dq_client.check.facts import facts_of
from dq_client.check.roles import Role
from tests.client.test_check_facts import ask, program

OWN = "x.local.sum()"


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("g = [0, 0]", f"s = g[1]\ng[1:] = g[:1]\ng[0] = {OWN}\ny = comm.allreduce(s)"),
        ("g = 0.0", f"m = {OWN}\nup = m > g\nif up:\n    g = m\ny = comm.allreduce(g)"),
        ("g = 0.0", f"m = {OWN}\nif (d := m - g) > 0:\n    g = m\ny = comm.allreduce(g)"),
        ("g = {}", f"s = g.get(t - 1, 0)\ng[t] = {OWN}\ng.pop(t - 2, 0)\ny = comm.allreduce(s)"),
        ("g = (0, 0.0)", f"if t % 5 == 0:\n    g = (t, {OWN})\ny = comm.allreduce(g[0])"),
    ],
)  # fmt: skip
def test_what_the_next_iteration_may_use(before: str, body: str) -> None:
    found = ask(program(f"from mpi4py import MPI\n{before}", body, "pass"), "g")
    assert found.role in (Role.OPEN, Role.PAST) or found.accumulates


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("g = np.zeros(9)", "g[:] = 0\ng[:3] += x.local[:3]\ny = comm.allreduce(g[:3].sum())"),
        ("g = np.zeros(1)", "g[0] = x.local[-1]\ncomm.Send(g)"),
        ("g = np.zeros(9)", "v = g[: len(x.local)]\nnp.add(x.local, 1, out=v)\nx.local[:] = v"),
        ("g = [np.zeros(9)]", "for h in g:\n    h[:] = x.local\ny = comm.allreduce(g[0].sum())"),
        ("g = {}", "if t not in g:\n    g[t] = t**2\ny = comm.allreduce(g[t])"),
        ("g = None", "if g is None or g.shape != x.local.shape:\n    g = np.empty_like(x.local)\n"
                     "np.add(x.local, 1, out=g)\nx.local[:] = g"),
    ],
)  # fmt: skip
def test_scratch_may_differ(before: str, body: str) -> None:
    head = f"import numpy as np\nfrom mpi4py import MPI\n{before}"
    assert ask(program(head, body, "pass"), "g").role is Role.NONE


@pytest.mark.parametrize(
    ("body", "recurs"),
    [
        (f"g += {OWN}\ny = comm.allreduce(g)", False),
        (f"g = g + {OWN} - 1\ny = comm.allreduce(g)", False),
        (f"g = max(g, {OWN})\ny = comm.allreduce(g, op=MPI.MAX)", False),
        (f"g = 0.9 * g + 0.1 * {OWN}\ny = comm.allreduce(g)", True),
        (f"g += 0.1 * ({OWN} - g)\ny = comm.allreduce(g)", True),
        (f"g = {OWN} - g\ny = comm.allreduce(g)", True),
        (f"g += {OWN}\ny = comm.allreduce(g) / comm.size", True),  # a mean over the ranks
        (f"g *= 0.9\ng += {OWN}\ny = comm.allreduce(g)", True),
    ],
)
def test_what_a_rank_that_joins_cannot_begin_with(body: str, recurs: bool) -> None:
    source = program("from mpi4py import MPI\ng = 0.0", body, "print(y)")
    found = ask(source, "g")
    assert (found.accumulates, found.recurs) == (True, recurs)


def test_what_a_function_of_each_resize_makes_and_the_loop_adds_to() -> None:
    head = "@rs.setup\ndef make(comm):\n    global g\n    g = 0.0"
    added = ask(program(head, f"g += {OWN}", "comm.allreduce(g)"), "g")
    set_ = ask(program(head, f"g = {OWN}\ncomm.allreduce(g)", "pass"), "g")
    assert (added.rebuilt, added.reset) == (True, True)
    assert (set_.rebuilt, set_.reset) == (True, False)


REMEMBERED = """
def remembered(f):
    seen = {}
    def wrapper(key):
        if key not in seen:
            seen[key] = f(key)
        return seen[key]
    return wrapper

@remembered
def start(k):
    return x.local.sum()
"""


def test_a_decorator_keeps_what_the_function_gives() -> None:
    source = program(REMEMBERED, "x.local[:] += 1\ny = comm.allreduce(start(t // 9))", "pass")
    first = source.splitlines().index("def remembered(f):") + 1
    found = facts_of(source, "p.py").kept(first, "seen")
    assert found.role is Role.PAST


def test_an_object_that_exists_once() -> None:
    head = """
class Monitor:
    only = None
    def __init__(self):
        self.last = 0.0
    @classmethod
    def get(cls):
        if cls.only is None:
            cls.only = cls()
        return cls.only
"""
    body = f"m = Monitor.get()\ny = comm.allreduce(m.last)\nm.last = {OWN}"
    facts = facts_of(program(head, body, "pass"), "p.py")
    assert facts.attribute("only").role is Role.PAST


def test_a_property_sets_what_its_setter_does() -> None:
    head = """
class Station:
    kept = 0.0
    @property
    def reading(self):
        return self.kept
    @reading.setter
    def reading(self, value):
        self.kept = value
s = Station()
"""
    body = f"total = comm.allreduce(s.reading)\ns.reading = {OWN}"
    facts = facts_of(program(head, body, "pass"), "p.py")
    assert facts.attribute("kept").role is Role.PAST


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("if t % 5 == 0:\n    g = [[] for _ in range(comm.size)]\n    for b in range(9):\n"
         "        g[b % comm.size].append(b)\ny = comm.allreduce(sum(g[0]))", Role.PAST),
        ("g[comm.rank] = t\ncomm.Allreduce(MPI.IN_PLACE, g)\ny = comm.allreduce(g[0])", Role.NONE),
        ("y = comm.allreduce(abs(g[0]))\ng = [comm.allgather(t)[comm.rank]]", Role.OPEN),
    ],
)  # fmt: skip
def test_what_is_alike_for_now(body: str, role: Role) -> None:
    head = "import numpy as np\nfrom mpi4py import MPI\ng = np.zeros(9)"
    assert ask(program(head, body, "print(y)"), "g").role is role


def test_a_text_grows_by_lines_of_the_rank() -> None:
    body = 'g += f"{comm.rank}"\ny = comm.allreduce(g.count("0"))'
    assert ask(program('g = ""', body, "print(y)"), "g").recurs


def test_a_shared_number_beside_a_time() -> None:
    head = "import time\nfrom mpi4py import MPI\ng = []"
    body = "g.append((comm.allreduce(1), time.time()))\ny = comm.allreduce(sum(n for n, _ in g))"
    assert ask(program(head, body, "print(y)"), "g").used


FARM = """
import resize_lib
from mpi4py import MPI
comm = MPI.COMM_WORLD
rs = resize_lib.session()
g = {}
def f(k):
    %s
    return k
rs.map(f, range(9))
print(comm.allreduce(len(g)))
"""


@pytest.mark.parametrize(
    ("line", "accumulates"),
    [("g[k] = k * k", True), ("if k not in g:\n        g[k] = k * k", False)],
)
def test_what_a_function_of_a_task_farm_keeps(line: str, accumulates: bool) -> None:
    source = FARM % line
    call = source.splitlines().index("rs.map(f, range(9))") + 1
    assert facts_of(source, "p.py").variable(0, call, "g").accumulates == accumulates


@pytest.mark.parametrize(("seed", "reset"), [("5", True), ("comm.rank", False)])
def test_a_generator_that_set_up_makes_again(seed: str, reset: bool) -> None:
    head = f"""
import numpy as np
@rs.setup
def make(comm):
    global g
    g = np.random.default_rng({seed})
"""
    assert ask(program(head, "y = comm.allreduce(g.random())", "print(y)"), "g").reset == reset


def test_an_object_that_is_replaced_is_used_by_its_attributes() -> None:
    head = """
class Tool:
    def __init__(self, t):
        self.t = t
def use(tool):
    return tool.t
g = Tool(0)
"""
    body = "if t % 5 == 0:\n    g = Tool(t)\ny = comm.allreduce(use(g))"
    found = ask(program(head, body), "g")
    assert found.used and found.role is Role.OPEN
