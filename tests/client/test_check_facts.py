"""What sources say about their variables: small programs, a question each, and the answer.

An answer lists what holds: `accumulates`, `used`, `rebuilt`, and what the variable depends on before
the loop (`set_up=`) and in it (`loop=`).
"""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

import ast
import random
import sysconfig
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dq_client.check.facts import Facts, Variable, facts_of
from dq_client.check.roles import Role
from harness.commands import ROOT

HEAD = """
import collections, time, random
import numpy as np
import resize_lib
rs = resize_lib.session()
comm, x = rs.comm, rs.array("x", 100)
"""


def program(before: str, body: str, after: str = "pass") -> str:
    inside = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f"{HEAD}{textwrap.dedent(before)}\nfor t in rs.iterations(9):\n{inside}\n{after}\n"


def whatever_ranks_have(role: Role) -> Role:
    """The role where all ranks have the same value: OPEN is about different ones."""
    return Role.NONE if role is Role.OPEN else role


def ask(source: str, name: str) -> Variable:
    """Of the last loop over iterations in the source, as its function sees it."""
    facts = facts_of(source, "p.py")
    if name.startswith("."):
        return facts.attribute(name[1:])
    function, line = place(source)
    return facts.variable(function, line, name)


def place(source: str) -> tuple[int, int]:
    tree = ast.parse(source)
    loops = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.For) and ".iterations(" in ast.unparse(n.iter)
    ]
    line = max(n.lineno for n in loops)
    around = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
              and n.lineno < line <= (n.end_lineno or 0)]  # fmt: skip
    return max((n.lineno for n in around), default=0), line


def answer(variable: Variable) -> str:
    words = [w for w in ("accumulates", "used", "rebuilt") if getattr(variable, w)]
    for where in ("set_up", "loop"):
        if found := getattr(variable, where):
            words.append(f"{where}={','.join(sorted(found))}")
    return " ".join(words)


LOOPS = [
    # counters, sums, histories: the same on every rank
    ("n = 0", "n += 1", "print(n)", "n", "accumulates"),
    ("n = 0", "n += 1\nif n % 9 == 0: print(n)", "pass", "n", "accumulates"),
    ("n = 0", "n += 1\nif n % 9 == 0: save(x)", "pass", "n", "accumulates used"),
    ("n = 0", "n += 1\nx.local[:] += n", "pass", "n", "accumulates used"),
    ("n = 0", "n += 1\nlog = f'{n} of 9'\nprint(log)", "pass", "n", "accumulates"),
    ("n = 0", "m = n + 1\nn = m\nx.local[0] = n", "pass", "n", "accumulates used"),
    ("s = 0.0", "s = s + comm.allreduce(x.local.sum())", "save(s)", "s", "accumulates used"),
    ("a, b = 0, 1", "a, b = b, a + b", "save(a)", "b", "accumulates used"),
    ("n = 0", "n = t * 2\nx.local[0] = n", "pass", "n", "used"),
    ("h = []", "h.append(t)", "print(h)", "h", "accumulates"),
    ("h = []", "h = [*h, t]", "save(h)", "h", "accumulates used"),
    ("h = []", "h += [t]", "save(h)", "h", "accumulates used"),
    ("h = set()", "h.add(t)\nif len(h) > 3: save(x)", "pass", "h", "accumulates used"),
    ("d = {}", "d[t % 3] = d.get(t % 3, 0) + 1", "save(d)", "d", "accumulates used"),
    ("d = collections.defaultdict(int)", "d[t % 3] += 1", "save(d)", "d", "accumulates used"),
    ("d = {'t': 0}", "d['t'] += 1\nx.local[0] = d['t']", "pass", "d", "accumulates used"),
    ("q = collections.deque()", "q.append(t)\nwhile len(q) > 3: q.popleft()", "save(q)", "q",
     "accumulates used"),
    ("w = np.ones(3)", "w -= 0.1 * comm.allreduce(w * x.local[0])", "save(w)", "w", "accumulates used"),
    ("w = np.ones(3)", "w[1:] = w[:-1]", "save(w)", "w", "accumulates used"),
    ("w = np.ones(3)", "np.multiply(w, 2, out=w)", "save(w)", "w", "accumulates used"),
    ("loader = iter(range(9))", "k = next(loader)\nx.local[0] = k", "pass", "loader", "accumulates used"),
    ("opt = Adam()", "opt.step(x.local)", "pass", "opt", "accumulates used loop=part"),
    ("net = Net()", "for k in range(rs.rank, 8, rs.size): net.zero_grad()\nnet.step(t)", "save(net)", "net",
     "accumulates used"),
    # what begins as None
    ("best = None", "e = comm.allreduce(1)\nif best is None or e < best: best = e", "save(best)", "best",
     "accumulates used"),
    ("old = None", "if old is not None: x.local[0] = t - old\nold = t", "pass", "old", "used"),
    # swaps, and what every iteration makes anew
    ("u, v = np.zeros(3), np.zeros(3)", "v[:] = u + 1\nu, v = v, u", "save(u)", "u", "accumulates used"),
    ("rows = []", "rows = []\nfor k in range(3): rows.append(k)\nsave(rows)", "pass", "rows", "used"),
    ("pass", "total = 0\nfor k in range(9): total += k\nsave(total)", "pass", "total", "used"),
    # rank-local sums, minima, histories
    ("mine = 0", "mine += x.local.sum()", "print(comm.allreduce(mine))", "mine",
     "accumulates used loop=part"),
    ("mine = 0", "mine += x.local.sum()", "print(mine)", "mine", "accumulates loop=part"),
    ("d = {}", "d.setdefault(t % 3, []).append(x.local.sum())", "comm.reduce(d)", "d",
     "accumulates used loop=part"),
    ("d = {}\ndef of(k): return d.setdefault(k, [])", "of(t % 3).append(x.local.sum())",
     "comm.reduce(d)", "d", "accumulates used loop=part"),
    ("d = {0: np.zeros(3)}", "for k, v in d.items(): v += x.local.sum()", "comm.reduce(d)", "d",
     "accumulates used loop=part"),
    ("seen = {}", "seen[id(x)] = t", "save(seen)", "seen", "used loop=clock,id"),
    # a collective call comes equally often on every rank
    ("g = [1]", "h = [comm.allreduce(k) for k in range(comm.rank, 9)]\nx.local[:] += g[0]\ng = h",
     "pass", "g", "used"),
    ("g = []", "for k in range(comm.rank): g.append(comm.allreduce(1))", "save(g)", "g",
     "accumulates used"),
    ("mine = 0", "mine = mine + x.local[0]", "r = comm.reduce(mine)\nprint(r)", "mine",
     "accumulates used loop=part"),
    ("low = 9.0", "low = min(low, x.local.min())", "print(comm.allreduce(low))", "low",
     "accumulates used loop=part"),
    ("low = 9.0", "e = x.local.min()\nif e < low:\n    low = e", "print(comm.allreduce(low))", "low",
     "accumulates used loop=part"),
    ("h = []", "if rs.rank == 0:\n    h.append(t)", "save(h)", "h", "accumulates used loop=rank"),
    ("h = []", "if rs.rank != 0:\n    continue\nh.append(t)", "save(h)", "h", "accumulates used loop=rank"),
    ("h = []", "h.append(rs.rank)", "comm.gather(h)", "h", "accumulates used loop=rank"),
    ("n = 0", "for k in range(len(x.local)):\n    n += 1", "comm.allreduce(n)", "n",
     "accumulates used loop=part"),
    ("n = 0", "while comm.iprobe(): n += 1", "comm.allreduce(n)", "n", "accumulates used loop=rank"),
    ("got = 0", "if comm.rank: got += comm.recv()", "comm.allreduce(got)", "got",
     "accumulates used loop=rank"),
    ("hits = 0\nrng = np.random.default_rng(rs.rank)", "hits += rng.random() < 0.5", "comm.reduce(hits)",
     "hits", "accumulates used loop=rank"),
    ("hist = np.zeros(9)", "np.add.at(hist, x.local, 1)", "comm.Allreduce(hist, np.zeros(9))", "hist",
     "accumulates used loop=part"),
    # what collectives return is the same everywhere
    ("mine = 0", "mine += x.local.sum()\nall_ = comm.allreduce(mine)\nx.local[0] = all_", "pass", "all_", "used"),
    ("e = 0.0", "e += comm.bcast(rs.rank)", "save(e)", "e", "accumulates used"),
    ("buf = np.zeros(3)", "comm.Allreduce(x.local, buf)\nx.local[:] = buf", "pass", "buf", "used"),
    ("from mpi4py.MPI import COMM_WORLD as w\ns = 0", "s += w.allreduce(x.local.sum())", "save(s)", "s",
     "accumulates used"),
    ("a, b = np.zeros(9), np.zeros(3)", "comm.Scatterv([a, None], b)\nb += 1\ncomm.Gatherv(b, [a, None])",
     "save(a)", "a", "used loop=rank"),
    ("g = None", "g = x.gather()\nsave(g)", "pass", "g", "used"),
    ("e = rs.value('e', 0.0)", "e.value += rs.rank", "pass", "e", ""),
    ("h = []\nrs.keep(h=h)", "h.append(rs.rank)", "pass", "h", "accumulates"),
    # derived from the size or the rank before the loop
    ("part = 100 // rs.size", "x.local[:part] = 0", "pass", "part", "used set_up=size"),
    ("me = comm.Get_rank()", "x.local[:] = me", "pass", "me", "used set_up=rank"),
    ("first = rs.rank == 0", "if first: save(x)", "pass", "first", "used set_up=rank"),
    ("lo = comm.rank * 10\nhi = lo + 100 // comm.size", "x.local[lo:hi] = 0", "pass", "hi",
     "used set_up=rank,size"),
    ("n = 3\nif rs.rank == 0:\n    n = 5", "x.local[:n] = 0", "pass", "n", "used set_up=rank"),
    ("n = rs.size\nn = 3", "x.local[:n] = 0", "pass", "n", "used"),
    ("idx = np.arange(len(x.local))", "x.local[idx] = 0", "pass", "idx", "used set_up=part"),
    ("n = comm.bcast(rs.rank)", "x.local[:n] = 0", "pass", "n", "used"),
    ("a = np.zeros(9)\nn = a.size", "x.local[:n] = 0", "pass", "n", "used"),
    ("row = rs.grid.row", "x.local[row] = 0", "pass", "row", "used set_up=rank"),
    ("import os\nme = int(os.environ['PMI_RANK'])", "x.local[me] = 0", "pass", "me", "used set_up=rank,size"),
    ("import os\nme = int(os.environ['OMPI_COMM_WORLD_LOCAL_RANK'])", "x.local[me] = 0", "pass", "me", "used"),
    ("import os\nt = os.environ['DQ_JOB_INSTANCE']", "x.local[t] = 0", "pass", "t", "used set_up=clock"),
    ("import os\nt = os.getenv('DQ_JOB_INSTANCE')", "x.local[t] = 0", "pass", "t", "used set_up=clock"),
    ("f = False", "if x.local.max() > 3: f = True", "print(comm.allreduce(f))", "f", "accumulates used loop=part"),
    ("f = -1", "if f < 0 and x.local[0] > 3: f = t", "print(comm.allreduce(f))", "f", "accumulates used loop=part"),
    ("f = False", "f = False\nif x.local.max() > 3: f = True\nx.local[0] = f", "pass", "f", "used loop=part"),
    ("f = -1", "if comm.allreduce(x.local.max()) > 3: f = t", "print(comm.allreduce(f))", "f", "used"),
    ("d = {'f': False}", "if x.local.max() > 3: d['f'] = True", "print(comm.allreduce(d['f']))", "d",
     "accumulates used loop=part"),
    ("class A: pass\na = A()\na.f = False", "if x.local.max() > 3: a.f = True", "print(comm.allreduce(a.f))", ".f",
     "accumulates used loop=part"),
    ("s = 0", "for v in x.local: s += v\nx.local[0] = comm.allreduce(s)\ns = 0", "pass", "s", "used"),
    ("s = 0", "for v in x.local: s += v\nif t % 5 == 0:\n    x.local[0] = comm.allreduce(s)\n    s = 0",
     "pass", "s", "accumulates used loop=part"),
    ("import os, sys\nfrom pathlib import Path\np = Path(sys.argv[1])\n"
     "if os.environ['PMI_RANK'] == p.read_text():\n    p.rename('x')",
     "if p.exists(): x.local[0] = 0", "pass", "p", "used"),
    ("f = lambda n: n * 2\nk = f(rs.size)", "x.local[k] = 0", "pass", "k", "used set_up=size"),
    ("def f(n):\n    return n * 2\nr = f(rs.rank)\nk = f(3)", "x.local[k] = r", "pass", "k", "used"),
    ("def f(n):\n    def g(a):\n        return a / n\n    return g\nk = f(rs.size)", "save(k(t))", "pass", "k",
     "used set_up=size"),
    ("def f():\n    return x.local.sum()\nk = f()", "x.local[0] = k", "pass", "k", "used set_up=part"),
    # scratch arrays, caches, clocks, random streams, logs
    ("buf = np.empty(3)", "np.add(x.local, 1, out=buf)\nx.local[:] = buf", "pass", "buf",
     "used set_up=empty loop=part"),
    ("buf = np.zeros(3)", "buf[:] = x.local\nbuf *= 2\nx.local[:] = buf", "pass", "buf", "used loop=part"),
    ("c = {}", "if t not in c:\n    c[t] = f(t)\nx.local[0] = c[t]", "pass", "c", "used"),
    ("plan = None", "if plan is None:\n    plan = make(x.local)\nplan(x)", "pass", "plan", "used loop=part"),
    ("t0 = time.time()", "print(time.time() - t0)\nt0 = time.time()", "pass", "t0",
     "set_up=clock loop=clock"),
    ("took = 0.0", "a = time.perf_counter()\ntook += time.perf_counter() - a", "comm.gather(took)", "took",
     "accumulates loop=clock"),
    ("took = []", "a = time.time()\ntook.append(time.time() - a)", "comm.gather(sum(took))", "took",
     "accumulates loop=clock"),
    ("rng = np.random.default_rng(rs.rank)", "x.local[:] += rng.random()", "pass", "rng",
     "used set_up=rank loop=rank"),
    ("rng = random.Random()", "x.local[:] += rng.random()", "pass", "rng",
     "used set_up=clock loop=clock"),
    ("rng = np.random.default_rng(5)", "x.local[:] += rng.random()", "pass", "rng", "used"),
    ("f = open(f'log.{rs.rank}', 'w')\nn = 0", "n += 1\nf.write(str(n))", "pass", "n", "accumulates"),
    ("bar = tqdm(total=9)", "bar.update(1)\nbar.set_postfix(n=t)", "pass", "bar", ""),
    ("n = 0", "n += len(x.local)\nbar.set_postfix(n=n)", "pass", "n", "accumulates loop=part"),
]  # fmt: skip
WHOLE = [
    # functions that change globals, variables around them, what they are given
    ("n = 0\ndef step():\n    global n\n    n += 1", "step()", "save(n)", "n", "accumulates used"),
    ("n = 0\ndef begin(t):\n    global n\n    n = t\ndef step():\n    global n\n    n += 1",
     "begin(t)\nstep()", "save(n)", "n", "used"),
    ("def go(p):\n    p['t'] += rs.rank\ns = {'t': 0}", "go(s)", "save(s)", "s",
     "accumulates used loop=rank"),
    ("def grow(to, by):\n    return to + by\ns = 0", "s = grow(s, x.local[0])", "comm.reduce(s)", "s",
     "accumulates used loop=part"),
    ("def say(n):\n    print(n)\nn = 0", "n += 1\nsay(n)", "pass", "n", "accumulates"),
    ("@rs.on_resize\ndef plan(comm):\n    global m\n    m = 100 // comm.size", "x.local[:m] = 0", "pass",
     "m", "used rebuilt set_up=size"),
    ("h = []\nkeep = h", "keep.append(t)", "save(h)", "h", "accumulates used"),
    ("class S:\n    def __init__(self):\n        self.t = 0.0\n    def step(self):\n        self.t += 1\n"
     "s = S()", "s.step()\nx.local[0] = s.t", "pass", ".t", "accumulates used"),
    ("class S:\n    n = 0\n    def step(self):\n        self.n += 1\n        print(self.n)\ns = S()",
     "s.step()", "pass", ".n", "accumulates"),
    ("class S:\n    def begin(self, t):\n        self.t = t\n    def step(self):\n        use(self.t)\n"
     "        self.t += 1\ns = S()", "s.begin(t)\ns.step()", "pass", ".t", "used"),
    ("class S:\n    def __init__(self, rs):\n        self.lr = 0.1 / rs.size\n        self.me = rs.rank\n"
     "s = S(rs)", "x.local[:] *= s.lr", "pass", ".lr", "used set_up=size"),
    ("class S:\n    def __init__(self, r):\n        self.r = r\ns = S(rs.rank)", "x.local[:] *= s.r", "pass",
     ".r", "used set_up=rank"),
    ("class P:\n    def __init__(self):\n        self.w = 0\n    def move(self):\n        self.w += 1\n"
     "ps = [P(), P()]", "for p in ps:\n    p.move()", "save([p.w for p in ps])", ".w", "accumulates used"),
    ("from m import Model\nmodel = Model()", "model.t += 1\nmodel.step(x)", "pass", ".t",
     "accumulates used"),
    ("class Trace(list):\n    n = 0\n    def append(self, x):\n        self.n += 1\ndef add(to, x):\n    to.append(x)\n"
     "s = [Trace()]", "add(*s, t)\nx.local[0] = s[0].n", "pass", ".n", "accumulates used"),
    ("class Sum:\n    def __init__(self):\n        self.v = 0\n    def take(self, a):\n        self.v += a\n"
     "mine = Sum()", "mine.take(x.local.sum())", "print(comm.allreduce(mine.v))", ".v",
     "accumulates used loop=part"),
    ("from dataclasses import dataclass\n@dataclass\nclass S:\n    t: float\n    me: int\n"
     "s = S(0.0, rs.rank)", "s.t += 1\nx.local[0] = s.t + s.me", "pass", ".me", "used set_up=rank"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "body", "after", "name", "expected"), LOOPS + WHOLE)
def test_a_variable(before: str, body: str, after: str, name: str, expected: str) -> None:
    assert answer(ask(program(before, body, after), name)) == expected


SIMULATION = """
import resize_lib
class Simulation:
    def __init__(self, rs, dt):
        self.rs, self.dt = rs, dt
        self.x = rs.array("x", 9)
        self.t, self.history, self.mine = 0.0, [], 0
    def step(self):
        self.t += self.dt
        self.history.append(self.t)
        self.mine += self.x.local.sum()
        self.norm = self.rs.comm.allreduce(self.x.local.sum())
    def run(self):
        for k in self.rs.iterations(60):
            self.step()
        return self.t, self.history, self.rs.comm.allreduce(self.mine)
print(Simulation(resize_lib.session(), 0.5).run())
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [(".t", "accumulates"), (".history", "accumulates"), (".dt", ""), (".norm", ""),
     (".mine", "accumulates used loop=part")],
)  # fmt: skip
def test_an_object_whose_method_has_the_loop(name: str, expected: str) -> None:
    assert answer(ask(SIMULATION, name)) == expected


NESTED = """
import resize_lib
def main():
    rs = resize_lib.session()
    total = 0
    for epoch in rs.iterations(3):
        weight, loss = rs.rank + 1, 0
        for t in rs.iterations(9):
            loss += weight
        total += rs.comm.allreduce(loss)
    save(total)
main()
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("weight", "used set_up=rank"), ("loss", "accumulates used loop=rank"),
     ("total", "accumulates used"), ("epoch", "")],
)  # fmt: skip
def test_a_loop_in_a_loop_has_its_set_up_in_the_outer_one(name: str, expected: str) -> None:
    assert answer(ask(NESTED, name)) == expected


def test_a_file_whose_functions_are_called_from_loops_in_other_files() -> None:
    facts = facts_of(
        "count = 0\nlimit = 5\ndef step():\n    global count\n    count += 1\n", "m.py"
    )
    assert answer(facts.variable(0, 0, "count")) == "accumulates"
    assert answer(facts.variable(0, 0, "limit")) == ""
    facts = facts_of("class A:\n  def __init__(self):\n    self.n = 0\n  def go(self, d):\n"
                     "    self.n += d\n    return self.n\n", "m.py")  # fmt: skip
    assert answer(facts.attribute("n")) == "accumulates used"


AFTERWARDS = """
import resize_lib
class Sum:
    def __init__(self):
        self.v = 0
    def add(self, a):
        self.v += a
rs = resize_lib.session()
s = Sum()
for t in rs.iterations(9):
    s.add(t)
save(s.v)
if rs.rank == 0:
    other = Sum()
    other.add(rs.size)
    save(other.v)
"""


def test_what_happens_after_the_loop_does_not_count_for_it() -> None:
    assert answer(ask(AFTERWARDS, ".v")) == "accumulates used"


MADE_AGAIN = """
import resize_lib
class Node:
    def __init__(self, value):
        self.value = value
def made():
    return Node(0)
def advance(node, t):
    node.value += t
    return Node(node.value)
rs = resize_lib.session()
head = made()
for t in rs.iterations(9):
    head = advance(head, t)
save(head.value)
if rs.rank == 0:
    other = advance(made(), 3)
    save(other.value)
"""


def test_set_up_that_is_called_again_after_the_loop_is_as_it_was_before() -> None:
    assert answer(ask(MADE_AGAIN, ".value")) == "accumulates used"


def test_lines_where_variables_are_bound() -> None:
    source = program("n = 0\nn = 1\nn.add(3)", "n += 1\nnew = n\nprint(n, new)")
    bound = [i for i, text in enumerate(source.splitlines(), 1) if text.strip().startswith("n")]
    assert ask(source, "n").line == bound[1]
    assert ask(source, "n").changed_line == bound[3]
    assert ask(source, "new").line == bound[4]
    assert ask(source, "never").line == 0


LIVE = [
    ("a = b = c = 0", "b = t\nc += b", "print(a)", "a c"),
    ("a = 0", "if t > 3:\n    a = t\nuse(a)", "pass", "a use"),
    ("a = 0", "if t > 3:\n    a = t\nelse:\n    a = 1\nuse(a)", "pass", "use"),
    ("a = 0", "for k in range(3):\n    a = k\nuse(a)", "pass", "a use"),
    ("a = 0", "try:\n    a = f()\nexcept E:\n    use(a)", "pass", "E a f use"),
    ("a = 0", "a = [a for a in range(3)]", "pass", ""),
    ("a = 0", "a += 1", "pass", "a"),
    ("a = 0\ndef f():\n    return a", "pass", "f()", "a f"),
    ("a = 0", "use(lambda: a)", "pass", "a use"),
    ("a = 0", "del a", "pass", ""),
    ("a = 0", "pass", "while a:\n    a -= 1", "a"),
    ("a = 0", "with f() as a:\n    use(a)", "pass", "f use"),
]


@pytest.mark.parametrize(("before", "body", "after", "expected"), LIVE)
def test_names_that_are_read_from_the_head_of_the_loop_on(
    before: str, body: str, after: str, expected: str
) -> None:
    source = program(before, body, after)
    ours = {"a", "b", "c", "f"}  # of `f` perhaps no line shows where it is bound
    found = facts_of(source, "p.py").live(*place(source))
    assert found & ours == set(expected.split()) & ours


AGAIN = [
    ("u = x.local", "use(u)", ""),  # bound anew before it is read
    ("use(u)\n    u = x.local", "use(u)", "u"),
    ("u = x.local\n    if f():\n        break", "use(u)", ""),
    ("if f():\n        break\n    u = x.local", "use(u)", "u"),
    ("if f():\n        u = x.local", "use(u)", "u"),
    ("u += 1", "use(u)", "u"),
]


@pytest.mark.parametrize(("body", "after", "expected"), AGAIN)
def test_a_loop_that_goes_on_does_not_read_what_its_iterations_bind(
    body: str, after: str, expected: str
) -> None:
    loops = {"rs.iterations(9)": expected, "zip(rs.iterations(9), names)": "u", "names": "u"}
    for loop, names in loops.items():
        source = f"def main(rs, names, x, u):\n  for t in {loop}:\n    {body}\n  {after}\n"
        facts = facts_of(source, "p.py")
        assert "u" in facts.live(1, 2), "it may end"
        assert facts.live(1, 2, again=True) & {"u"} == set(names.split()), loop


def test_names_that_are_read_after_a_call() -> None:
    source = "def main(a, b, c):\n    y = run(a)\n    n = 1\n    n += run(b)\n    return y + c\n"
    facts = facts_of(source, "p.py")
    assert facts.live(1, 2) == {"b", "c"}
    assert facts.live(1, 4) == {"c", "n", "y"}
    assert facts.live(1, 99) == {"a", "b", "c", "n", "y"}, "of no statement: all"


def test_what_functions_inside_capture() -> None:
    source = """def main(rs):
    n = m = p = q = 0
    def tick():
        nonlocal n
        n += 1
    def tock():
        return m + tick()
    rs.solve(lambda: p)
    for t in rs.iterations(9):
        tock()
"""
    assert facts_of(source, "p.py").live(1, 9) == {"m", "n", "p", "tick", "tock"}


def test_a_decorated_function_begins_at_its_decorator() -> None:
    source = "@wraps\n@other\ndef main(a):\n    run()\n    return a\n"
    assert facts_of(source, "p.py").live(1, 4) == {"a"}


@pytest.mark.parametrize("source", ["for", "x = (", "\0", "def f(:\n", "return 5 +\n"])
def test_of_what_is_no_python_nothing_is_known(source: str) -> None:
    facts = facts_of(source, "p.py")
    assert not facts.known
    assert facts.live(0, 1) == frozenset()
    assert facts.variable(0, 1, "x").accumulates, "the worst is assumed"
    assert facts.attribute("x").used


def asked_everything(facts: Facts, source: str) -> None:
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for function, line in [(0, 0), (0, 1), *((f.lineno, f.lineno + 1) for f in functions[:9])]:
        for name in sorted(facts.live(function, line))[:5]:
            facts.variable(function, line, name)
    for node in [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)][:9]:
        facts.attribute(node.attr)


def test_any_python_can_be_asked() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    ours = [
        p
        for folder in ("dq_client", "resize_lib", "apps", "tests")
        for p in (ROOT / folder).rglob("*.py")
    ]
    others = [
        *library.glob("*.py"),
        *library.glob("asyncio/*.py"),
        *library.glob("test/test_[a-g]*.py"),
    ]
    sizes = [p for p in (*sorted(ours), *sorted(others)) if p.stat().st_size < 30_000]
    for path in random.Random(7).sample(sizes, 80):
        source = path.read_text(errors="replace")
        facts = facts_of(source, str(path))
        if facts.known:
            asked_everything(facts, source)


STATEMENTS = st.sampled_from(
    ["a = b", "b += a", "a, b = b, a", "c.append(a)", "d['k'] = a", "f(a)", "a = f(b)", "del a", "pass",
     "break", "continue", "return a", "raise a", "o.t += 1", "b = o.t", "o.step()", "a = [b for b in c]",
     "global a", "a = lambda: b", "yield a", "c[0].t = b", "a = b = c"],
)  # fmt: skip
BLOCKS = st.sampled_from(
    ["if a:", "for a in b:", "while b:", "try:", "with f(a) as b:", "def f(a, b=c):", "for t in rs.iterations(9):",
     "class O:", "else:", "except E as a:", "finally:"],
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), STATEMENTS, BLOCKS), max_size=14))
def test_whatever_stands_in_a_file(lines: list[tuple[int, bool, str, str]]) -> None:
    text = ""
    for depth, opens, statement, block in lines:
        text += (
            "  " * depth + (f"{block}\n{'  ' * depth}  {statement}" if opens else statement) + "\n"
        )
    facts = facts_of(text, "p.py")
    facts.live(0, 1)
    for name in "abcdo":
        facts.variable(0, 0, name)
        facts.variable(0, 1, name)
    facts.attribute("t")


@pytest.mark.parametrize(
    ("source", "name", "mentioned"),
    [
        ("import m\nprint(m.counts)", "counts", True),
        ("import m\nm.counts = {}", "counts", False),  # it is bound, not read
        ("from m import counts as c", "counts", True),
        ("from m import *", "counts", True),
        ("counts = 3", "counts", False),
    ],
)
def test_which_names_of_other_files_it_reads(source: str, name: str, mentioned: bool) -> None:
    assert facts_of(source, "p.py").mentions(name) is mentioned


def test_an_attribute_that_is_only_read_here_is_used() -> None:
    source = program("tally = make()", "tally.add(t)", "print('sum', comm.allreduce(tally.count))")
    assert ask(source, ".count").used
    assert ask(source, ".count").line == 0
    assert not ask(program("", "pass"), ".count").used


def test_lines_come_with_their_file() -> None:
    assert ask(program("total = 0", "total += t"), "total").file == "p.py"
    assert ask("class A:\n    def add(self):\n        self.n += 1\n", ".n").file == "p.py"


@pytest.mark.parametrize(
    ("body", "adds"),
    [
        ("d['a'].append(comm.rank)", True),
        ("row = d['a']\nrow.append(comm.rank)", True),
        ("for row in d.values():\n    row.append(comm.rank)", True),
        ("for key, row in d.items():\n    row[0] += comm.rank", True),
        ("d['a'].clear()", False),
        ("d['a'].sort()", False),
        ("comm.Recv(d['a'], source=0)", False),
        ("np.add(x.local, 1, out=d['a'])", False),
        ("for row in d.values():\n    row[:] = comm.rank", False),
        ("for n, row in enumerate(d):\n    row.append(comm.rank)", True),
        ("for n, row in enumerate(d):\n    row.fill(comm.rank)", False),
        ("for row, k in zip(d, range(9)):\n    np.copyto(row, k)", False),
        ("for k, row in zip(range(9), d):\n    row[0] += comm.rank", True),
    ],
)
def test_an_item_that_is_changed_changes_its_container(body: str, adds: bool) -> None:
    found = ask(program("d = {'a': [0], 'b': [0]}", body, "print('sum', comm.allreduce(d))"), "d")
    assert found.changed_line > 0
    assert found.accumulates is adds


CALLED_TWICE = """
import resize_lib
rs = resize_lib.session()
def run(loop, add):
    t = 1.0
    for k in loop:
        t = t * 0.5 + add(k)
    return t
got = run(rs.iterations(9), rs.comm.allreduce)
if rs.rank == 0:
    print(got, run(range(9), float))
"""


def test_a_function_that_runs_was_entered_by_one_call() -> None:
    facts = facts_of(CALLED_TWICE, "p.py")
    assert "rank" in facts.variable(4, 6, "t").loop, "the second call stands under a condition"
    assert not facts.variable(4, 6, "t", ((4, 6), (0, 9))).loop
    assert "rank" in facts.variable(4, 6, "t", ((4, 6), (0, 11))).loop


def test_a_variable_that_walks_down_a_container_is_an_item_of_itself() -> None:
    body = "node = tree\nfor c in str(t):\n    node = node.setdefault(c, {})\nnode['n'] = t"
    found = ask(program("tree = {}", body, "print(tree)"), "node")
    assert found.changed_line and not found.accumulates


KEPT_SIZES = [
    # by collective calls, whose results ranks that join are given, too
    ("n = comm.allreduce(1)", "rank size"),
    ("k = len(x.local)\nn = comm.allreduce(k, op=MPI.MAX)", "rank size"),
    ("n = comm.allgather(len(x.local))", "rank size"),
    ("n = comm.allreduce(len(x.local))", ""),
    ("n = comm.allreduce(x.local.max(), op=MPI.MAX)", ""),
    ("n = comm.allreduce(1.0, op=MPI.SUM)", "rank size"),
    ("n = np.zeros(1)\ncomm.Allreduce(np.ones(1), n)", "rank size"),
    ("n = comm.allreduce(comm.rank, op=MPI.MAX)", "rank size"),
    ("n = sum(comm.allgather(1))", "rank size"),
    ("n = comm.bcast(comm.size if comm.rank == 0 else None)", "rank size"),
    ("n = comm.bcast({'parts': comm.size})", "rank size"),
    ("n = comm.allreduce(x.local.sum())", ""),
    ("n = comm.allreduce(len(range(comm.rank, 9, comm.size)))", ""),
    ("n = comm.allreduce(comm.rank + 1)", ""),
    ("n = comm.allreduce(True, op=MPI.LAND)", ""),
    ("n = comm.bcast(9 if comm.rank == 0 else None)", ""),
    # in other ways
    ("n = getattr(comm, 'size')", "size"),
    ("n = comm.Get_group()", "rank size"),
    ("n = comm.group", "rank size"),
    ("class P(typing.NamedTuple):\n    size: int\nn = P(comm.size)", "size"),
    ("n = dataclasses.field(default_factory=comm.Get_size)", "rank size"),
]


@pytest.mark.parametrize(("before", "expected"), KEPT_SIZES)
def test_what_follows_from_the_number_of_ranks_before_the_loop(before: str, expected: str) -> None:
    used = "x.local[0] = n.size" if "class P" in before else "x.local[0] = n"
    found = ask(program(f"import dataclasses, typing\nfrom mpi4py import MPI\n{before}", used), "n")
    assert found.used and found.set_up == set(expected.split())


def test_a_collective_call_in_the_loop_is_made_again() -> None:
    found = ask(program("s = 0.0", "s += comm.allreduce(float(t)) / comm.allreduce(1)"), "s")
    assert answer(found) == "accumulates"


@pytest.mark.parametrize(
    ("body", "after", "summed"),
    [
        ("total += comm.allreduce(1.0 * t) / n", "print(total)", True),
        ("total += 1\nprint(t, n)", "print(total, n)", False),
        ("total += (time.time() - begun) * n\nbegun = time.time()", "print(total)", False),
    ],
)
def test_a_total_by_the_number_of_ranks_before_the_loop(
    body: str, after: str, summed: bool
) -> None:
    """Nothing but output uses the total; it is wrong after a resize nevertheless."""
    found = ask(program("n, total, begun = comm.size, 0.0, time.time()", body, after), "n")
    assert not found.used and found.summed is summed


KEPT = """
import resize_lib
rs = resize_lib.session()
comm = rs.comm
def part(n, size=comm.size, rank=comm.rank):
    return range(rank, n, size)
def given(n, size=comm.size):
    return range(0, n, size)
def log(text, rank=comm.rank):
    print(rank, text)
def make(size):
    return {"part": lambda n: range(0, n, size)}
tools = make(comm.size)
for t in rs.iterations(9):
    log(t)
    comm.allreduce(sum(part(9)) + sum(given(9, comm.size)) + sum(tools["part"](9)))
"""


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        (5, "size", "used set_up=size"),
        (5, "rank", "used set_up=rank"),
        (7, "size", "set_up=size"),  # each call gives another one
        (9, "rank", "set_up=rank"),  # is only printed
        (12, "size", "used set_up=size"),  # a cell of the lambda
    ],
)
def test_what_functions_keep(line: int, name: str, expected: str) -> None:
    assert answer(facts_of(KEPT, "p.py").kept(line, name)) == expected


def test_names_that_no_line_binds_may_be_bound_by_exec() -> None:
    source = program("exec('n = 3')", "x.local[:] += n")
    assert "n" in facts_of(source, "p.py").live(*place(source))


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("exec('n = comm.size')", "n"),
        ("def f():\n    exec('n = comm.size', globals())\nf()", "n"),
        ("n = eval('9 // comm.size')", "n"),
        ("globals()['n'] = comm.size", "n"),
        ("def f():\n    globals()['n'] = comm.size\nf()", "n"),
        ("globals().update(n=comm.size)", "n"),
        ("globals().update({'n': comm.size})", "n"),
        ("import sys\nsetattr(sys.modules[__name__], 'n', comm.size)", "n"),
        ("class c: n = 0\nsetattr(c, 'n', comm.size)", ".n"),
        ("class C: pass\nc = C()\nvars(c)['n'] = comm.size", ".n"),
        ("class C: pass\nc = C()\nc.__dict__.update(n=comm.size)", ".n"),
        ("n = getattr(comm, 'Get_size')()", "n"),
        ("from operator import attrgetter\nhow = attrgetter('size')\nn = how(comm)", "n"),
        ("import operator\nn = operator.methodcaller('Get_size')(comm)", "n"),
        ("from operator import itemgetter\nn = itemgetter(1)([0, comm.size])", "n"),
        ("f, g = (lambda c: 7), (lambda c: c.size)\nn = g(comm)", "n"),
        ("how = {'a': lambda c: 7, 'b': lambda c: c.size}\nn = how['b'](comm)", "n"),
        ("import os\nos.environ['N'] = str(comm.size)\nn = int(os.environ['N'])", "n"),
        ("try:\n    raise ValueError(comm.size)\nexcept ValueError as e:\n    n = e.args[0]", "n"),
        ("n = pool.submit(lambda: comm.size).result()", "n"),
    ],
)  # fmt: skip
def test_a_number_of_ranks_that_is_reached_by_a_text(before: str, name: str) -> None:
    read = f"c{name}" if name.startswith(".") else name
    found = ask(program(before, f"x.local[:] += {read}"), name)
    assert "size" in found.set_up | found.loop, before


@pytest.mark.parametrize(
    "getter",
    [
        "operator.itemgetter(slice(rs.rank, None, rs.size))",
        "operator.itemgetter(rs.size)",
        "operator.methodcaller('part', rs.size)",
        "operator.methodcaller('part', n=rs.size)",
        "functools.partial(sum, rs.size)",
    ],
)
def test_a_getter_keeps_what_it_was_made_with(getter: str) -> None:
    source = program(f"import functools, operator\nget = {getter}", "x.local[:] += get(data)")
    assert "size" in ask(source, "get").set_up


@pytest.mark.parametrize(
    "text",
    ["exec(text)", "exec('n = ')", "setattr(x, text, 1)", "vars(x).update(text)", "eval('')"],
)
def test_a_text_that_is_not_known_changes_nothing(text: str) -> None:
    assert answer(ask(program(f"n = 0\n{text}", "n += 1", "print(n)"), "n")) == "accumulates"
