"""Variables that ranks change by their place among the others: small programs, and what they are."""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

import pytest

from dq_client.check.facts import facts_of
from dq_client.check.roles import Role
from tests.client.test_check_facts import ask, program, whatever_ranks_have

GHOST = "g = np.zeros(1)"
USE = "x.local[:] = x.local + g[0]"
LEFT = "comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL"


@pytest.mark.parametrize(
    ("before", "body", "name", "role"),
    [
        # received in each iteration, before it is used
        (GHOST, f"if comm.rank > 0:\n    comm.Recv(g, comm.rank - 1)\n{USE}", "g", Role.AGAIN),
        (GHOST, f"comm.Recv(g, {LEFT})\n{USE}", "g", Role.AGAIN),
        (GHOST, f"comm.Sendrecv(x.local[:1], {LEFT}, 1, g, {LEFT}, 1)\n{USE}", "g", Role.AGAIN),
        (GHOST, f"comm.Sendrecv(x.local[:1], 0, recvbuf=g, source={LEFT})\n{USE}", "g", Role.AGAIN),
        (GHOST, f"r = comm.Irecv(g, {LEFT})\nr.Wait()\n{USE}", "g", Role.AGAIN),
        ("g = {'l': np.zeros(1)}", f"comm.Recv(g['l'], {LEFT})\nx.local[:] += g['l']", "g", Role.AGAIN),
        ("g = 0.0", "if comm.rank > 0:\n    g = comm.recv(source=comm.rank - 1)\nx.local[:] += g", "g", Role.AGAIN),
        (GHOST, f"r = np.zeros(1)\ncomm.Recv(r, {LEFT})\ng[0] = r[0]\n{USE}", "g", Role.AGAIN),
        # or given one by certain ranks
        ("g = 1.0", "if comm.rank == comm.size - 1:\n    g = t * 2.0\nx.local[:] += g", "g", Role.AGAIN),
        # used before it is received again
        (GHOST, f"{USE}\ncomm.Recv(g, {LEFT})", "g", Role.STALE),
        (GHOST, f"if t % 2:\n    comm.Recv(g, {LEFT})\n{USE}", "g", Role.STALE),
        ("g = 1.0", "g = comm.sendrecv(g, 0, source=1)\nx.local[:] += g", "g", Role.STALE),
        (GHOST, f"comm.Sendrecv_replace(g, {LEFT}, source={LEFT})\n{USE}", "g", Role.STALE),
        # kept by a rank that the size selects
        ("g = 0", "if comm.rank == comm.size - 1:\n    g += t\nx.local[:] += g", "g", Role.ELECTED),
        ("g = 0", "if t == 3 and comm.rank == comm.size // 2:\n    g = t\nx.local[:] += g", "g", Role.ELECTED),
        ("g = np.zeros(9)", "if comm.rank == comm.size - 1:\n    g[t] = t\nx.local[:] += g[0]", "g", Role.ELECTED),
        # made of the rank's part, and used in the next iteration
        ("g = 0.0", "now = x.local.sum()\ncomm.allreduce(now - g)\ng = now", "g", Role.PAST),
        ("g = None", "if g is not None:\n    x.local[:] -= g\ng = x.local.copy()", "g", Role.PAST),
        ("g = 0", "x.local[:] += g\ng = comm.exscan(len(x.local))", "g", Role.PAST),
        ("g = 0", "x.local[:] += g\ng = comm.scatter(parts())", "g", Role.PAST),
        ("g = []", "x.local[:] += sum(g[:comm.rank])\ng = comm.allgather(len(x.local))", "g", Role.PAST),
        ("g = []", "x.local[:] += g[comm.rank]\ng = np.cumsum(comm.allgather(len(x.local)))", "g", Role.PAST),
        ("g = []", "x.local[:] += g[0]\ng = np.cumsum(comm.allgather(len(x.local)))", "g", Role.NONE),
        ("g = []", "x.local[:] += g[(comm.rank + 1) % comm.size]\ng = comm.allgather(len(x.local))", "g", Role.PAST),
        ("g = []", "for i in range(comm.rank, 9, comm.size):\n    x.local[:] += g[i]\ng = sum(comm.allgather([t]), [])", "g", Role.NONE),
        ("g = []", "x.local[:] += np.sum(g)\ng = comm.allgather(len(x.local))", "g", Role.NONE),
        ("g = 0.0", "now = x.local.sum()\ncomm.allreduce(now)\nprint(now - g)\ng = now", "g", Role.NONE),
        ("g = 0.0", "x.local[:] -= g\ng = comm.allreduce(x.local.sum())", "g", Role.NONE),
        ("g = None", "if g is None or len(g) < len(x.local):\n    g = np.empty(len(x.local))\nnp.exp(x.local, out=g)\nx.local[:] = g", "g", Role.NONE),
        ("import time\ng = 1.0", "save(g)\nt0 = time.time()\nx.local[:] += 1\ng = len(x.local) / (time.time() - t0)", "g", Role.NONE),
        ("g = 0.0", "g = x.local.sum()\ncomm.allreduce(g)", "g", Role.NONE),
        # the same of a part that the program computes from rank and size
        ("g = 0", "x.local[:] += g\ng = sum(range(comm.rank, 9, comm.size))", "g", Role.PAST),
        ("g = [1]", "out = []\nfor p in g:\n    out.append(p)\ng = comm.alltoall(out)", "g", Role.PAST),
        ("g = 0", "x.local[:] += g\nif comm.size != n:\n    n = comm.size\n    g = 9 * comm.rank // n", "g", Role.NONE),
        ("g = 0", "x.local[:] += g\ng = comm.allreduce(sum(range(comm.rank, 9, comm.size)))", "g", Role.NONE),
        # items that each rank sets, of what is used as a whole
        ("g = np.zeros(99)", "g[t * comm.size + comm.rank] = 1\nx.local[:] += g.sum()", "g", Role.OWN_ITEMS),
        ("g = {}", "if t % comm.size == comm.rank:\n    g[t] = 1\nx.local[:] += len(g)", "g", Role.OWN_ITEMS),
        ("g = np.zeros(99)", "g[t] = x.local.sum()\nx.local[:] += g.sum()", "g", Role.OWN_ITEMS),
        ("g = np.zeros(9)", "for i in range(comm.rank, 9, comm.size):\n    g[i] = t\nx.local[:] += g.sum()", "g", Role.PAST),
        ("g = np.zeros(9)", "g[:] = 0\nfor i in range(comm.rank, 9, comm.size):\n    g[i] = t\nx.local[:] += g.sum()", "g", Role.NONE),
        ("g = np.zeros(9)", "for i in range(comm.rank, 9, comm.size):\n    g[i] = t\nx.local[:] += g[comm.rank]", "g", Role.NONE),
        ("g = np.zeros(9)", "g[comm.rank] = t\ncomm.Allgather(MPI.IN_PLACE, g)\nx.local[:] += g.sum()", "g", Role.NONE),
        ("g = np.zeros(9)", "g[1:-1] = x.local\nx.local[:] = g[:-2]", "g", Role.NONE),
        # items that each rank goes on with
        ("g = np.zeros(9)", "for i in range(comm.rank, 9, comm.size):\n    g[i] = g[i] + t\nx.local[:] += g[comm.rank]", "g", Role.PAST),
        ("g = np.zeros(9)", "for i in range(comm.rank, 9, comm.size):\n    g[i] += t\nx.local[:] += g.sum()", "g", Role.NONE),
        ("g = {}", "for i in range(comm.rank, 9, comm.size):\n    g[i] = t\n    x.local[:] += i in g", "g", Role.NONE),
        ("g = {}", "for i in range(comm.rank, 9, comm.size):\n    if g.get(i) != t // 5:\n        x.local[:] += i\n    g[i] = t // 5", "g", Role.PAST),
        ("g = {}", "for i in range(comm.rank, 9, comm.size):\n    if g.get(i) != t // 5:\n        x.local[:] += i\n        g[i] = t // 5", "g", Role.PAST),
        ("g = {}", "for i in range(comm.rank, 9, comm.size):\n    if i not in g:\n        g[i] = t\n    x.local[:] += g[i]", "g", Role.PAST),
        ("g = {}", "for i in range(comm.rank, 9, comm.size):\n    if i not in g:\n        g[i] = i * i\n    x.local[:] += g[i]", "g", Role.NONE),
        ("g = {'a': 0, 'b': 0}", "g['b'] = g['a']\ng['a'] = sum(range(comm.rank, 9, comm.size))\nx.local[:] += g['a'] - g['b']", "g", Role.PAST),
        ("g = {'a': 0, 'b': 0}", "g['a'] = sum(range(comm.rank, 9, comm.size))\ng['b'] = g['a']\nx.local[:] += g['a'] - g['b']", "g", Role.NONE),
        # the number of ranks alone
        ("g = None", "if g is None:\n    g = comm.size\nx.local[:] += g", "g", Role.PAST),
        ("g = 1", "if comm.size != g:\n    save(g)\nx.local[:] += g\ng = comm.size", "g", Role.NONE),
        ("g = 1.0", "x.local[:] += g\ng = comm.allreduce(t) / comm.size", "g", Role.NONE),
        ("g = {}", "if 'n' not in g:\n    g['n'] = range(comm.rank, 9, comm.size)\nx.local[:] += sum(g['n'])", "g", Role.PAST),
        # a part that is made in the first iteration
        ("g = None", "if g is None:\n    g = np.arange(comm.rank, 9, comm.size)\ng += 1\nx.local[:] += g.sum()", "g", Role.PAST),
        # the number of a rank
        ("g = 0", "x.local[:] += comm.rank == g\ng = (g + 1) % comm.size", "g", Role.NUMBER),
        ("g = 0", "x.local[:] += comm.rank == g\ng = (g + 1) % 4", "g", Role.NONE),
        # nothing of all this
        # by rank 0 alone
        ("g = 0", "if comm.rank == 0:\n    g += t\nx.local[:] += g", "g", Role.ROOT),
        ("g = []\nme = comm.rank", "if not me and t:\n    g.append(t)\nx.local[:] += len(g)", "g", Role.ROOT),
        ("g = []\ndef note(n):\n    g.append(n)", "if comm.rank == 0:\n    note(t)\nx.local[:] += len(g)", "g", Role.ROOT),
        ("g = []\ndef note(n):\n    g.append(n)", "if comm.rank == 0:\n    note(t)\nnote(1)\nx.local[:] += len(g)", "g", Role.NONE),
        ("g = 0", "if comm.rank == 0:\n    g += t\nelse:\n    g += 1\nx.local[:] += g", "g", Role.NONE),
        ("g = 0", "if t == 0:\n    g += 1\nx.local[:] += g", "g", Role.NONE),
        ("g = 0", "if comm.rank == 1:\n    g += t\nx.local[:] += g", "g", Role.NONE),
        ("g = 0", "for i in range(comm.rank, 9, comm.size):\n    g += i\nx.local[:] += g", "g", Role.NONE),
        ("g = 0", "for i in range(9):\n    if i % comm.size == comm.rank:\n        g += i\nx.local[:] += g", "g", Role.NONE),
        ("g = np.zeros(1)", "comm.Allreduce(x.local[:1], g)\nx.local[:] += g", "g", Role.NONE),
        ("g = {}", "if len(x.local) not in g:\n    g[len(x.local)] = 1\nx.local[:] += g[len(x.local)]", "g", Role.NONE),
    ],
)  # fmt: skip
def test_the_role_of_a_variable(before: str, body: str, name: str, role: Role) -> None:
    head = f"from mpi4py import MPI\n{before}"
    assert whatever_ranks_have(ask(program(head, body, "print(x.gather())"), name).role) is role


@pytest.mark.parametrize(
    ("read", "role"),
    [
        ("sum(o.v for o in own)", Role.PAST),  # those of this rank
        ("sum(o.v for o in all_)", Role.NONE),  # added up over all
    ],
)
def test_objects_of_a_rank_are_told_from_sums(read: str, role: Role) -> None:
    before = """
class Cell:
    def __init__(self):
        self.v = 0
    def advance(self):
        self.v += 1
all_ = [Cell() for _ in range(9)]
"""
    body = "own = all_[comm.rank::comm.size]\nfor o in own:\n    o.advance()\nx.local[:] += " + read
    assert facts_of(program(before, body, "pass"), "p.py").attribute("v").role is role


def test_a_function_that_exchanges_is_seen_from_the_loop() -> None:
    before = f"""
from mpi4py import MPI
{GHOST}
def exchange(ghost):
    if comm.rank > 0:
        comm.Recv(ghost, comm.rank - 1)
"""
    assert ask(program(before, f"exchange(g)\n{USE}"), "g").role is Role.AGAIN
    assert ask(program(before, f"{USE}\nexchange(g)"), "g").role is Role.STALE


def test_a_buffer_used_after_the_loop_is_as_the_last_iteration_has_left_it() -> None:
    body = f"comm.Recv(g, {LEFT})\n{USE}"
    source = program(f"from mpi4py import MPI\n{GHOST}", body, "np.save('g', g)")
    assert ask(source, "g").role is Role.AGAIN


SOLVER = f"""
from mpi4py import MPI
class Solver:
    def __init__(self, comm, x):
        self.comm, self.x, self.ghost = comm, x, np.zeros(1)
    def exchange(self, comm):
        comm.Recv(self.ghost, {LEFT})
    def step(self):
        self.x.local[:] += self.ghost
"""


def test_ghosts_of_a_file_without_the_loop_may_be_read_at_any_time() -> None:
    assert facts_of(f"import numpy as np{SOLVER}", "p.py").attribute("ghost").role is Role.STALE
    inside = program(SOLVER + "s = Solver(comm, x)", "s.exchange(comm)\ns.step()")
    assert ask(inside, ".ghost").role is Role.AGAIN


MY = "np.arange(36 * comm.rank // comm.size, 36 * (comm.rank + 1) // comm.size)"
HELPERS = """
def bounds():
    return 36 * comm.rank // comm.size, 36 * (comm.rank + 1) // comm.size
def part(a):
    lo, hi = bounds()
    return a[lo:hi]
def advance(a, t):
    a *= 0.9
    a += t
def tick(k, t):
    g[k] = g[k] * 0.9 + t
    return g[k]
def is_mine(k):
    return k % comm.size == comm.rank
def mine():
    for k in range(36):
        if is_mine(k):
            yield k
g = np.arange(36.0)
"""


@pytest.mark.parametrize(
    "body",
    [
        "lo, hi = bounds()\nv = g[lo:hi]\nv *= 0.9\ncomm.allreduce(v.sum())",
        "lo, hi = bounds()\nu, v, w = g[:lo], g[lo:hi], g[hi:]\nv += t\ncomm.allreduce(v.sum())",
        "v = np.array_split(g, comm.size)[comm.rank]\nv *= 0.9\ncomm.allreduce(v.sum())",
        "p = np.array_split(g, comm.size)\np[comm.rank][:] = p[comm.rank] + t\ncomm.allreduce(p[comm.rank].sum())",
        "p = np.array_split(g.reshape(12, 3), comm.size)\np[comm.rank][:] = p[comm.rank] + t\ncomm.allreduce(p[comm.rank].sum())",
        "lo, hi = bounds()\nv = g.reshape(6, 6).T[lo:hi]\nv[...] = v * 0.9\ncomm.allreduce(v.sum())",
        "lo, hi = bounds()\nv = memoryview(g)[lo:hi]\nfor i in range(len(v)):\n    v[i] = v[i] + t\ncomm.allreduce(sum(v))",
        "v = part(g)\nv += t\ncomm.allreduce(v.sum())",
        "advance(part(g), t)\ncomm.allreduce(part(g).sum())",
        "lo, hi = bounds()\nadvance(g[lo:hi], t)\ncomm.allreduce(g[lo:hi].sum())",
        "lo, hi = bounds()\nnp.multiply(g[lo:hi], 0.9, out=g[lo:hi])\ncomm.allreduce(g[lo:hi].sum())",
        f"i = {MY}\nnp.add.at(g, i, g[i])\ncomm.allreduce(g[i].sum())",
        f"i = {MY}\ng.put(i, g.take(i) * 0.9)\ncomm.allreduce(g.take(i).sum())",
        f"i = {MY}\nnp.put(g, i, np.take(g, i) * 0.9)\ncomm.allreduce(np.take(g, i).sum())",
        "m = np.arange(36) % comm.size == comm.rank\ng = np.where(m, g * 0.9, g)\ncomm.allreduce(g[m].sum())",
        "comm.allreduce(sum(tick(k, t) for k in range(36) if k % comm.size == comm.rank))",
        "comm.allreduce(sum(map(lambda k: tick(k, t), range(comm.rank, 36, comm.size))))",
        "s = 0.0\nfor k in range(36):\n    if k % comm.size != comm.rank:\n        continue\n    g[k] = g[k] * 0.9\n    s += g[k]\ncomm.allreduce(s)",
        "s = 0.0\nfor k in range(36):\n    if is_mine(k):\n        s += tick(k, t)\ncomm.allreduce(s)",
        "for k in mine():\n    g[k] = g[k] * 0.9\ncomm.allreduce(sum(g[k] for k in mine()))",
    ],
)  # fmt: skip
def test_a_rank_goes_on_with_its_part(body: str) -> None:
    """By whatever name it changes the part, the array has it."""
    assert ask(program(f"from mpi4py import MPI\n{HELPERS}", body, "pass"), "g").role is Role.PAST


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("comm.allreduce(g[:n].sum())\ng[:n] = x.local", Role.PAST),
        ("comm.allreduce(g[t % 2 * 9:n].sum())\ng[t % 2 * 9:n] = x.local", Role.PAST),
        ("x.local[:] += g[:n]\ng[:n] = x.local - g[:n]", Role.PAST),
        ("v = g[:n]\ng[:n] = x.local\ncomm.allreduce(sum(v))", Role.PAST),  # a copy, if g is a list
        ("v = g[:n]\nnp.multiply(x.local, 2, out=v)\nx.local[:] = v", Role.NONE),
        ("v = g[:n]\nnp.multiply(x.local, 2, out=v, where=x.local > 0)\nx.local[:] = v", Role.PAST),
        ("v = g[:n]\nv[:] = x.local\nx.local[:] = v + 1", Role.NONE),
        ("g[:n] = x.local\nx.local[:] = g[:n] + 1", Role.NONE),
        ("if n not in c:\n    c[n] = np.empty(n)\nx.local[:] += c[n]", Role.NONE),
    ],
)  # fmt: skip
def test_a_range_as_long_as_the_part_is_the_part(body: str, role: Role) -> None:
    name = "c" if "c[n]" in body else "g"
    before = "g, c = np.zeros(99), {}"
    assert ask(program(before, f"n = len(x.local)\n{body}"), name).role is role


@pytest.mark.parametrize(
    "body",
    [
        "v = np.array_split(g, comm.size)[comm.rank] * 0.9\ng = np.concatenate(comm.allgather(v))\nx.local[:] += g[0]",
        "v = part(g)\nv *= 0.9\ng[:] = np.concatenate(comm.allgather(v))\nx.local[:] += g[0]",
        "n = np.zeros(36)\nv = part(n)\nv += part(g) * 0.9\ncomm.Allreduce(MPI.IN_PLACE, n)\ng = n\nx.local[:] += g[0]",
        "g += part(np.ones(36)).sum()\nx.local[:] += comm.allreduce(g.sum())",  # a sum of each rank
    ],
)  # fmt: skip
def test_a_whole_that_all_ranks_get_is_no_part(body: str) -> None:
    found = ask(program(f"from mpi4py import MPI\n{HELPERS}", body, "pass"), "g")
    assert whatever_ranks_have(found.role) is Role.NONE


def test_a_variable_bound_anew_in_a_loop_is_no_other_name() -> None:
    """`node` is `first` in the first iteration only: what the loop changes is what it leads to."""
    before = "class Cell:\n    def __init__(self, v, after):\n        self.v, self.after = v, after\nfirst = Cell(1, None)"
    body = "cell = first\nwhile cell is not None:\n    cell.v = cell.v * 3 + t\n    cell = cell.after\nx.local[:] += first.v"
    assert facts_of(program(before, body, "pass"), "p.py").attribute("v").accumulates


LO_HI = """
def lohi(n):
    return n * comm.rank // comm.size, n * (comm.rank + 1) // comm.size
g, rows, halves = np.zeros(48), np.zeros((3, 24)), [np.zeros(24), np.zeros(24)]
"""


@pytest.mark.parametrize(
    ("name", "body", "role"),
    [
        ("g", "g[now + lo:now + hi] = t\ncomm.allreduce(g[old + lo:old + hi].sum())", Role.PAST),
        ("g", "g[now + lo:now + hi] = t\ncomm.allreduce(g[now + lo:now + hi].sum())", Role.NONE),
        ("g", "comm.allreduce(g[lo:hi].sum())\ng[lo:hi] = t", Role.PAST),
        ("g", "g[lo:hi] = t\ncomm.allreduce(g[lo:hi].sum())", Role.NONE),
        ("g", "if t % 2:\n    g[lo:hi] = t\ncomm.allreduce(g[lo:hi].sum())", Role.PAST),
        ("g", "g[lo:hi] = t\ng[24 + lo:24 + hi] = t\ncomm.allreduce(g[24 + lo:24 + hi].sum() + g[lo:hi].sum())", Role.NONE),
        ("g", "g[lo:hi] = t\ng[:24] = np.concatenate(comm.allgather(g[lo:hi]))\ncomm.allreduce(g[lo:hi].sum())", Role.NONE),
        ("rows", "rows[t % 3, lo:hi] = t\ncomm.allreduce(rows[(t - 1) % 3, lo:hi].sum())", Role.PAST),
        ("rows", "for j in range(3):\n    rows[j, lo:hi] = t\ncomm.allreduce((rows[0, lo:hi] + rows[1, lo:hi]).sum())", Role.PAST),
        ("rows", "rows[t % 3, lo:hi] = t\nv = rows[t % 3, lo:hi]\ncomm.allreduce(v.sum())", Role.NONE),
        ("rows", "rows[0, lo:hi] = t\nv = rows[1, lo:hi]\nv[:] = rows[0, lo:hi]\ncomm.allreduce(v.sum())", Role.NONE),
        ("halves", "a, b = halves[t % 2], halves[1 - t % 2]\na[lo:hi] = t\ncomm.allreduce(b[lo:hi].sum())", Role.PAST),
        ("halves", "a = halves[t % 2]\na[lo:hi] = t\ncomm.allreduce(a[lo:hi].sum())", Role.NONE),
        ("halves", "halves[t % 2][lo:hi] = t\ncomm.allreduce(halves[(t + 1) % 2][lo:hi].sum())", Role.PAST),
    ],
)  # fmt: skip
def test_a_range_that_a_later_iteration_reads(name: str, body: str, role: Role) -> None:
    places = "lo, hi = lohi(24)\nnow, old = 24 * (t % 2), 24 - 24 * (t % 2)"
    assert ask(program(LO_HI, f"{places}\n{body}"), name).role is role


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("x.local[:] += g[comm.rank]\ng = np.array_split(np.ones(9), comm.size)", Role.PAST),
        ("x.local[:] += 9 // g\ng = comm.size", Role.PAST),
        ("g = g or comm.size\nx.local[:] += g", Role.PAST),
        ("g = comm.size\nx.local[:] += g", Role.NONE),
        ("x.local[:] += g\ng = comm.allreduce(t) / comm.size", Role.NONE),  # a mean
    ],
)
def test_what_follows_from_the_number_of_ranks_is_made_for_the_next_iteration(
    body: str, role: Role
) -> None:
    assert whatever_ranks_have(ask(program("g = None", body), "g").role) is role


SHARED = """
def work(g, lo, hi):
    g[lo:hi] *= 0.9
def whole(g):
    g *= 0.9
    return g.sum()
g = np.ones(9)
"""


@pytest.mark.parametrize(
    ("body", "role"),
    [("x.local[:] += whole(g)", Role.NONE), ("work(g, comm.rank, comm.rank + 1)\nx.local[:] += g[comm.rank]", Role.PAST)],
)  # fmt: skip
def test_calls_that_do_not_lead_to_the_loop_do_not_count(body: str, role: Role) -> None:
    """Rank 0 alone calls the function after the loop, for comparison."""
    after = "if comm.rank == 0:\n    h = np.ones(9)\n    work(h, 0, 9)\n    whole(h)"
    assert ask(program(SHARED, body, after), "g").role is role
