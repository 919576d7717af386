"""`dq verify` finds what resizes change in a program, and finds nothing in one that is right.

Carry is switched off where a fault is to be seen: with it these programs are right.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.commands import run_dq

pytestmark = [pytest.mark.live, pytest.mark.mpi]

HEAD = (
    "import random, sys, time\nimport numpy as np\nimport resize_lib\nrs = resize_lib.session()\n"
)

RIGHT = """\
x = rs.array("x", 20, init=lambda i: i * 1.0)
norm = rs.value("norm", 0.0)
history = []
for i in rs.iterations(24):
    x.local[:] = x.local * 1.01 + history.count(0)
    norm.value = rs.comm.allreduce(float((x.local**2).sum()))
    history.append(i)
print("hello from", rs.rank, "at", time.perf_counter())
if rs.rank == 0:
    print("norm", norm.value, len(history))
"""

# Clocks, numbers of a rank, random numbers that nobody has seeded, what depends on the size: none
# of it is compared, or all programs would differ.
OF_EACH_RANK = """\
began, mine, noise = time.time(), [], random.random()
x, total = rs.array("x", 20), rs.value("total", 0)
for i in rs.iterations(24):
    mine.append(rs.rank)
    noise, took = random.random(), time.time() - began
    share = 20 // rs.size
    x.local[:] += 1
    total.value += 1
print(rs.rank, mine, noise, took, share)
"""

# What is wrong if nothing travels, in a line marked HERE, and the variable that shows it. How
# values of each type are compared is in tests/plan/test_fingerprints.py.
FAULTS = {
    "iterator": (
        "loader",
        """\
loader = iter(range(1000))  # HERE
s = rs.value("s", 0)
for i in rs.iterations(24):
    x = next(loader)
    s.value += rs.comm.allreduce(x if i % rs.size == rs.rank else 0)
""",
    ),
    "attribute": (
        "solver.t",
        """\
class Solver:
    t = 0.0
    def step(self):
        self.t += 0.5  # HERE
        energy.value += rs.comm.allreduce(self.t) / rs.size
energy, solver = rs.value("energy", 0.0), Solver()
for i in rs.iterations(24):
    solver.step()
""",
    ),
    "value that differs": (
        "v",
        """\
v = rs.value("v", 0)  # HERE
for i in rs.iterations(24):
    v.value += rs.rank + 1
""",
    ),
    "sum of each rank": (
        "mine",
        """\
mine = 0.0
for i in rs.iterations(24):
    mine += sum(k for k in range(60) if k % rs.size == rs.rank)  # HERE
total = rs.comm.allreduce(mine)
if rs.rank == 0:
    print("total", total)
""",
    ),
    "size from before the loop": (
        "step",
        """\
step, u = 1.0 / rs.size, rs.array("u", 10)  # HERE
for i in rs.iterations(24):
    u.local[:] += step * rs.size
""",
    ),
    "numpy's generator": (
        "numpy.random",
        """\
np.random.seed(3)  # HERE
total = rs.value("total", 0)
for i in rs.iterations(24):
    order = np.random.permutation(100)
    total.value += rs.comm.allreduce(int(order[rs.rank :: rs.size].sum()))
""",
    ),
    "random's generator": (
        "random",
        """\
random.seed(3)  # HERE
total = rs.value("total", 0.0)
for i in rs.iterations(24):
    total.value += rs.comm.allreduce(random.random()) / rs.size
""",
    ),
    "module global": (
        "calls",
        """\
calls, total = 0, rs.value("total", 0)
def count():
    global calls
    calls += 1  # HERE
for i in rs.iterations(24):
    count()
    total.value += rs.comm.allreduce(calls) // rs.size
""",
    ),
    "nonlocal": (
        "count.calls",
        """\
def main():
    calls, total = 0, rs.value("total", 0)
    def count():
        nonlocal calls
        calls += 1  # HERE
    for i in rs.iterations(24):
        count()
        total.value += rs.comm.allreduce(calls) // rs.size
main()
""",
    ),
    "nested history": (
        "history",
        """\
history, total = [], rs.value("total", 0)  # HERE
for epoch in rs.iterations(4):
    history.append([])
    for i in rs.iterations(6):
        history[-1].append(i)
        total.value += rs.comm.allreduce(sum(map(len, history))) // rs.size
""",
    ),
    "optimizer": (
        "optimizer.m",
        """\
class Momentum:
    def __init__(self):
        self.m = 0.0
    def state_dict(self):
        return {"m": self.m}
    def load_state_dict(self, state):
        self.m = state["m"]
    def step(self, gradient):
        self.m = 0.9 * self.m + gradient  # HERE
        return self.m
optimizer, w = Momentum(), rs.value("w", 4.0)
for i in rs.iterations(24):
    w.value -= 0.01 * optimizer.step(rs.comm.allreduce(w.value) / rs.size)
""",
    ),
    "callable value": (
        "model",
        """\
class Model:
    def __init__(self):
        self.w = np.ones(4)
    def __call__(self, x):
        return self.w * x
model = Model()
rs.value("model", model)  # HERE
for i in rs.iterations(24):
    mine = model(np.full(4, 1.0 + i)) / rs.size
    model.w -= 1e-3 * rs.comm.allreduce(mine)
""",
    ),
}


def verify(
    folder: Path, program: str, *options: object, carry: bool = True
) -> tuple[int, dict[str, Any], str]:
    """Exit code, answer and notes of `dq verify --json` on a program; nothing is left behind."""
    temporary, file = folder / "tmp", folder / "program.py"
    temporary.mkdir()
    file.write_text(HEAD + program)
    env = {**os.environ, "TMPDIR": str(temporary), "DQ_CARRY": "1" if carry else "0"}
    env.pop("DQ_HOME", None)
    words = ["verify", "--json", *options, "--", sys.executable, file]
    done = run_dq(*words, env=env, timeout_s=300)
    assert not list(temporary.glob("dq-verify-*"))
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_a_right_program_is_equal(tmp_path: Path) -> None:
    code, found, notes = verify(tmp_path, RIGHT, "--resizes", 8)
    assert (code, found["equal"], found["first"]) == (0, True, None), (found, notes)
    assert (found["refused"], found["failed"], found["left_out"]) == ([], "", [])
    sizes = [1, *(resize["to"] for resize in found["resizes"])]
    assert [resize["from"] for resize in found["resizes"]] == sizes[:-1] and len(sizes) == 9
    assert all(0 < resize["iteration"] < 24 for resize in found["resizes"])
    for run in ("plain", "resized"):
        assert (found[run]["exit_code"], found[run]["iterations"]) == (0, 24)


def test_what_belongs_to_a_rank_or_a_clock_is_not_compared(tmp_path: Path) -> None:
    code, found, notes = verify(
        tmp_path, OF_EACH_RANK, "--sizes", "1,2", "--resizes", 4, carry=False
    )
    assert (code, len(found["resizes"]), found["first"]) == (0, 4, None), notes


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_with_iteration_variable_and_line(tmp_path: Path, fault: str) -> None:
    variable, program = FAULTS[fault]
    code, found, notes = verify(tmp_path, program, "--sizes", "1,2", "--resizes", 4, carry=False)
    assert (code, found["equal"]) == (1, False), notes
    first, resizes = found["first"], found["resizes"]
    assert first["variable"] == variable, found
    to = 1 if fault == "sum of each rank" else 2
    assert first["iteration"] == next(r["iteration"] for r in resizes if r["to"] == to)
    assert first["plain"] != first["resized"]
    assert Path(first["file"]).name == "program.py"
    assert (HEAD + program).splitlines()[first["line"] - 1].endswith("# HERE")


GHOSTS_LAST = """\
u = rs.cartesian("u", (12, 12), halo=1, periodic=True, init=lambda i, j: i * 12.0 + j)
for i in rs.iterations(24):
    if i == 0:
        u.exchange()
    a = u.local
    a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    u.exchange()
"""
ISLANDS = """\
comm, sent, got = rs.comm, [], rs.value("got", 0)
for i in rs.iterations(40):
    n = 0
    while comm.iprobe(source=(comm.rank - 1) % comm.size, tag=5):
        comm.recv(source=(comm.rank - 1) % comm.size, tag=5)
        n += 1
    got.value += comm.allreduce(n)
    if i < 36:
        sent.append(comm.isend(i, dest=(comm.rank + 1) % comm.size, tag=5))
"""


def test_ghosts_that_are_exchanged_last_are_equal_without_carry(tmp_path: Path) -> None:
    options = ("--sizes", "1,2", "--resizes", 4)
    code, found, notes = verify(tmp_path, GHOSTS_LAST, *options, carry=False)
    assert (code, found["equal"], len(found["resizes"])) == (0, True, 4), (found, notes)


def test_a_resize_with_messages_under_way_is_refused_without_carry(tmp_path: Path) -> None:
    options = ("--sizes", "1,2", "--resizes", 3, "--start", 2)
    code, found, notes = verify(tmp_path, ISLANDS, *options, carry=False)
    assert (code, found["equal"]) == (0, True), (found, notes)
    assert found["refused"], found
    for each in found["refused"]:
        assert "program.py:13: a message from rank" in each["reason"], each
        assert "with tag 5 has not been received" in each["reason"]


def test_what_is_refused_is_told_and_the_rest_is_equal(tmp_path: Path) -> None:
    program = """\
batches = (n * n for n in range(1000))
s = rs.value("s", 0)
for i in rs.iterations(24):
    s.value += next(batches)
"""
    code, found, notes = verify(tmp_path, program, "--sizes", "1,2", "--resizes", 3)
    assert (code, found["equal"], found["resizes"]) == (0, True, []), (found, notes)
    assert found["refused"]
    for each in found["refused"]:
        assert 0 < each["iteration"] < 24
        assert "program.py:5: batches cannot be copied" in each["reason"]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("for i in rs.iterations(9):\n    1 / (2 - rs.size)\n", "on 2 without resizes it fails"),
        (
            "begun = rs.size\nfor i in rs.iterations(9):\n    1 / (begun == rs.size)\n",
            "with resizes the program fails",
        ),
    ],
    ids=["on two ranks", "after a resize"],
)
def test_a_program_that_fails_is_different_and_says_where(
    tmp_path: Path, program: str, told: str
) -> None:
    options = ("--sizes", "1,2", "--resizes", 3)
    code, found, notes = verify(tmp_path, program, *options, carry=False)
    assert (code, found["equal"]) == (1, False), notes
    assert told in found["failed"] and "ZeroDivisionError" in found["failed"]
    assert "program.py:6" in found["failed"] or "program.py:7" in found["failed"]


def test_output_alone_may_differ(tmp_path: Path) -> None:
    program = """\
for i in rs.iterations(24):
    pass
print("resized" if rs._session.job.resize_id else "plain") if rs.rank == 0 else None
"""
    code, found, notes = verify(tmp_path, program, "--sizes", "1,2", "--resizes", 2)
    assert code == 1, notes
    first = found["first"]
    assert (first["variable"], first["iteration"]) == ("output", 24)
    assert (first["plain"], first["resized"]) == ("plain", "no such line")


def test_a_program_without_iterations_cannot_be_resized(tmp_path: Path) -> None:
    code, found, notes = verify(tmp_path, "for i in range(3):\n    pass\n")
    assert (code, found) == (2, {})
    assert "program.py: the program ends no iteration" in notes and "rs.iterations" in notes


def test_a_program_without_a_session_cannot_be_resized(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("from mpi4py import MPI\nprint(MPI.COMM_WORLD.rank)\n")
    done = run_dq("verify", "--", sys.executable, file)
    assert done.returncode == 2
    assert "program.py: the program opens no session" in done.stderr
    assert "resize_lib.session()" in done.stderr


def test_a_program_that_fails_before_its_session_fails(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("import resize_lib\nprint(1 / 0)\nrs = resize_lib.session()\n")
    done = run_dq("verify", "--sizes", "1,2", "--", sys.executable, file)
    assert done.returncode == 1
    assert "on 1 without resizes it fails" in done.stdout and "ZeroDivisionError" in done.stdout
