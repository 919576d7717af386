"""`dq check` on small programs: each habit is found at its line; right ones are left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dq_client.check import CODES, check_source
from dq_client.cli.check import check
from harness.commands import ROOT

HEAD = "import resize_lib\nfrom mpi4py import MPI\nimport sys, random\nimport numpy as np\n"
PORTS = {"port-session", "port-loop", "port-array"}
LOOP = "    for turn in rs.iterations(10):\n"


def program(body: str, before: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    declared = "    x = rs.array('x', 100)\n"
    return f"{HEAD}{before}with resize_lib.session() as rs:\n{declared}{lines}"


def turns(body: str) -> str:
    return "for turn in rs.iterations(10):\n" + "".join(f"    {t}\n" for t in body.splitlines())


# Lines that are wrong end in `#!`.
WRONG = {
    "communicates-early": [
        program("n = rs.comm.scatter(range(9))  #!\n" + turns("x.local[:] += n")),
        program("c = rs.comm\nc.send(1, 0)  #!\n" + turns("pass")),
        program("MPI.COMM_WORLD.recv()  #!\n" + turns("pass")),
        program(turns("pass") + "rs.comm.reduce(1)  #!\n" + turns("pass")),
        program("rs.grid.row_comm.Split(0)  #!\n" + turns("pass")),
        program(turns("rs.comm.recv()  #!\n" + turns("pass"))),
        f"{HEAD}def read(rs):\n    return rs.comm.gather(1)  #!\n"
        f"def main():\n  with resize_lib.session() as rs:\n    n = read(rs)\n{LOOP}        pass\n"
        "main()\n",
    ],
    "kept-part": [
        program("u = x.local  #!\n" + turns("u += 1")),
        program("u = x.local[1:-1]  #!\n" + turns("s = u.sum()")),
        program("u, n = x.local, 5  #!\n" + turns("s = u.sum() + n")),
        program("u = None\n" + turns("if u is None:\n    u = x.local  #!\nu += 1")),
        program("u = x.local  #!\n" + turns("pass") + "print(u.sum())"),
        f"{HEAD}def step(u):\n    u += 1\nwith resize_lib.session() as rs:\n"
        f"    x = rs.array('x', 9)\n    u = x.local  #!\n{LOOP}        step(u)\n",
    ],
    "kept-communicator": [
        program("row = rs.grid.row_comm  #!\n" + turns("row.allreduce(1)")),
        program("grid = rs.grid  #!\n" + turns("use(grid)")),
        program(turns("if turn == 0:\n    c = rs.comm.Dup()  #!\nc.barrier()")),
    ],
    "kept-number": [
        program("size = rs.size  #!\n" + turns("x.local[:size] = 0")),
        program("part = 100 // rs.comm.Get_size()  #!\n" + turns("x.local[:part] = 0")),
        program("first = rs.rank == 0  #!\n" + turns("if first: save(turn)")),
        program("rate = 0.1 / rs.size  #!\n" + turns("x.local[:] *= rate")),
        program(
            f"s = Sim(rs)\n{turns('x.local[:] *= s.rate')}",
            "class Sim:\n  def __init__(self, rs):\n    self.rate = 0.1 / rs.size  #!\n",
        ),
        f"{HEAD}rs = resize_lib.session()\nchunk = 100 // rs.size  #!\ndef step():\n  use(chunk)\n"
        "for turn in rs.iterations(9):\n  step()\n",
        program(turns("n = rs.size  #!\n" + turns("x.local[:n] = 0"))),
    ],
    "lost-at-shrink": [
        program("mine = 0\n" + turns("mine += x.local.sum()  #!") + "rs.comm.allreduce(mine)"),
        program("rows = []\n" + turns("rows.append(rs.rank)  #!") + "rs.comm.gather(rows)"),
        program("rows = []\n" + turns("if rs.rank < 2:\n    rows.append(1)  #!") + "save(rows)"),
        program(
            f"s = Sum()\n{turns('s.add(x.local.sum())')}rs.comm.reduce(s.v)",
            "class Sum:\n  v = 0\n  def add(self, a):\n    self.v += a  #!\n",
        ),
        program(
            turns("add(x.local[0])") + "rs.comm.reduce(n)",
            "n = 0\ndef add(a):\n  global n\n  n += a  #!\n",
        ),
    ],
    "cannot-travel": [
        program("data = load()  #!\n" + turns("use(next(data))"), "def load():\n  yield 1\n"),
        program("data = (k * k for k in range(9))  #!\n" + turns("use(next(data))")),
    ],
    "one-rank-leaves": [
        program(turns("if rs.rank == 1: sys.exit(0)  #!")),
        program(turns("if rs.comm.rank and turn > 3:\n    break  #!")),
        f"{HEAD}def main():\n  with resize_lib.session() as rs:\n{LOOP}"
        "        if rs.rank: return  #!\nmain()\n",
    ],
    "uneven-loop": [program("for t in rs.iterations(10 + rs.rank):  #!\n    pass")],
    "value-differs": [
        program("v = rs.value('v', random.random())  #!\n" + turns("pass")),
        program("v = rs.value('v', rs.rank)  #!\n" + turns("pass")),
        program("v = rs.value('v', np.random.default_rng())  #!\n" + turns("pass")),
        program("v = rs.value('v', 0)\n" + turns("v.value += rs.rank  #!")),
        program("v = rs.value('v', 0)\n" + turns("v.value = x.local.sum()  #!")),
    ],
    "value-not-picklable": [
        program("v = rs.value('v', lambda: 1)  #!\n" + turns("pass")),
        program("v = rs.value('v', open('file'))  #!\n" + turns("pass")),
    ],
    "declared-late": [program(turns("y = rs.array('y', 5)  #!"))],
    "declared-by-some": [program("if rs.rank == 0:\n    rs.array('y', 5)  #!\n" + turns("pass"))],
    "no-remap-point": [f"{HEAD}with resize_lib.session() as rs:  #!\n    x = rs.array('x', 5)\n"],
    "syntax": ["import resize_lib\nresize_lib.session(  #!\n"],
}
RIGHT = [
    program("steps = lambda: rs.iterations(9)\nfor turn in steps():\n    x.local[:] += 1"),
    program("steps = rs.iterations\nfor turn in steps(9):\n    x.local[:] += 1"),
    program("run(lambda n: rs.iterations(n))"),
    program("n = rs.comm.bcast(5)\nrs.comm.Barrier()\n" + turns("x.local[:] += n")),
    program("world = MPI.COMM_WORLD\n" + turns("world.allreduce(world.rank)")),
    program("count, rows = 0, []\n" + turns("count += 1\nrows.append(count)") + "save(rows)"),
    program("best = None\n" + turns("if best is None or turn > best:\n    best = turn")),
    program("for turn, batch in zip(rs.iterations(9), batches):\n    pass"),
    program("y = rs.array('y', 100)\n" + turns("y.local[:] = x.local\nx, y = y, x")),
    program("loader = iter(range(9))\n" + turns("use(next(loader))")),
    program("mine = 0\n" + turns("mine += x.local.sum()\nprint(mine)")),
    program("buf = np.empty(9)\n" + turns("np.add(x.local, 1, out=buf)\nx.local[:] = buf")),
    program("rng = np.random.default_rng(rs.rank)\n" + turns("x.local[:] += rng.random()")),
    program("n = 5\n" + turns("u = x.local\nu += n\ntotal = rs.comm.allreduce(u.sum())")),
    program(turns("comm, u = rs.comm, x.local\nu *= comm.rank")),
    program("comm = rs.comm\n" + turns("comm.allreduce(1)") + "print(comm.rank)"),
    program(turns("u = x.local\nu += 1") + "print(x.local.sum(), rs.comm.reduce(1))"),
    program(turns("if rs.comm.bcast(rs.rank == 0 and turn > 3):\n    break")),
    program(turns("for k in range(3):\n    if rs.rank == 0:\n        break")),
    program(turns("if rs.comm.allreduce(1.0) < 1e-3:\n    break")),
    program("r = rs.value('r', np.random.default_rng(1))\n" + turns("pass")),
    program("h = []\nrs.keep(h=h)\n" + turns("h.append(turn)\nh += [1]")),
    program("n = rs.value('n', 0)\n" + turns("n.value += 1")),
    program("n = rs.local_state('n', 0, leave=merged)\n" + turns("n.value += x.local.sum()")),
    program(turns("total = 0\nfor k in range(9):\n    total += k\nprint(total)")),
    program(turns("rows = []\nfor k in range(9):\n    rows.append(k)")),
    program("begin = time.time()\n" + turns("print(time.time() - begin)\nbegin = time.time()")),
    program(
        "took, all_took = 0.0, []\n"
        + turns(
            "begin = time.perf_counter()\ntook += time.perf_counter() - begin\n"
            "all_took.append(took)"
        )
    ),
    program(
        "rows = []\n"
        + turns(
            "began, at = time.perf_counter(), time.time()\nrows.append((at, rs.size))\n"
            "if rows[-1] != rows[-2]:\n    rows = [rows[-1]]"
        )
    ),
    program(turns("model = Model()\nmodel.t = 1\nmodel.t += 1"), "from m import Model\n"),
    program("y = rs.array('y', 9)\n" + turns("u, v = (x, y) if turn % 2 else (y, x)")),
    program(turns("x.local = x.local + 1\nx.local[0] += 1")),
    program(
        "model, p = Model(), {'t': 0}\nrs.keep(model=model, p=p)\n"
        + turns("model.t += 1\np['t'] += 1"),
        "from m import Model\n",
    ),
    *(
        program(f"s = Sim()\nrs.keep(kept=s)\n{turns('s.t = turn')}", "class Sim:\n  pass\n"),
        program(
            f"s = Sim()\n{turns('s.t = turn; s.step()')}",
            "class Sim:\n  def step(self):\n    use(self.t)\n    self.t += 1\n",
        ),
        program(
            f"s = Sim()\n{turns('s.begin(turn); s.step()')}",
            "class Sim:\n  def begin(self, t):\n    self.t = t\n"
            "  def step(self):\n    use(self.t)\n    self.t += 1\n",
        ),
        program(
            f"s = Sim()\n{turns('s.step()')}",
            "class Sim:\n  def step(self):\n    self.n += 1\n    print(self.n)\n",
        ),
        program(
            f"s = Sim()\nrs.keep(s=s)\n{turns('s.step()')}",
            "class Sim:\n  def step(self):\n    use(self.t)\n    self.t += 1\n",
        ),
        program(
            f"s = Sim(x)\n{turns('s.step()')}",
            "class Sim:\n  def __init__(self, x):\n    self.x = x\n"
            "  def step(self):\n    self.x.local[0] += 1\n    self.x.value += 1\n",
        ),
    ),
    program("s = rs.value('s', {'t': 0})\n" + turns("s.value['t'] += 1")),
    program("u = [0] * 9\n" + turns("u[0] = turn\nprint(u[0])")),
    program(
        "@rs.on_resize\ndef plan(comm):\n    global m\n    m = comm.size\n"
        + turns("old, m = m, rs.comm.allreduce(1)")
    ),
    program(turns("if turn > 3:\n    v = 1\nelse:\n    v = 2\nprint(v)")),
    program(turns("if turn > 3:\n    continue\nv = 2\nprint([v for v in range(v)])")),
    program("copy = x.local.copy()\n" + turns("s = copy.sum()")),
    program("u = x.local\nu[:] = 3\n" + turns("x.local[:] += 1")),
    program("@rs.on_resize\ndef plan(comm):\n    comm.barrier()\n" + turns("pass")),
    program(turns("if rs.rank == 0:\n    print(turn)") + "if rs.rank == 0:\n    sys.exit(0)"),
    program("if not rs.spawned:\n    rs.comm.barrier()\n" + turns("pass")),
    program("rows = []\n" + turns("if rs.rank == 0:\n    rows.append(1)") + "save(rows)"),
    "import sys\nprint(sys.argv)\n",
]


@pytest.mark.parametrize(("code", "source"), [(c, s) for c, all_ in WRONG.items() for s in all_])
def test_a_habit_is_found_at_its_line(code: str, source: str) -> None:
    lines = [n for n, text in enumerate(source.splitlines(), 1) if text.rstrip().endswith("#!")]
    found = [(f.line, f.code) for f in check_source(source, "p.py")]
    assert found == [(line, code) for line in lines], source


@pytest.mark.parametrize("source", RIGHT)
def test_a_right_program_has_no_finding(source: str) -> None:
    assert check_source(source, "p.py") == [], source


ORDINARY = ROOT / "tests" / "live" / "ordinary"
# Others of the folder "refused" only a run can tell: what the system holds, sizes, messages.
SEEN = """
    chunk chunk_in_object duplicated generator_attribute generator_loader neighbours
    point_to_point_setup rank_histogram rank_lists rank_sums rank_sums_in_object rank_table
    rate_by_size scatter_setup size_in_closure split_setup value_differs
"""


# Unknown to the source of one file: what a method of another file's class does to its object, and
# whether two objects of a class, of which rank 0 alone has the second, are the same; and whether an
# item that `n //= 10` changes is an array, or a number, which it binds anew.
UNKNOWN = {"work_arrays_of_module", "bodies", "digits_by_function", "digits_of_own"}


@pytest.mark.parametrize(
    "path",
    [
        path
        for kind in ("right", "scratch")
        for path in sorted((ORDINARY / kind).glob("*.py"))
        if path.stem not in UNKNOWN
    ],
    ids=lambda p: p.stem,
)
def test_ordinary_programs_that_are_right_have_no_finding(path: Path) -> None:
    assert check_source(path.read_text(), str(path)) == []


@pytest.mark.parametrize("name", SEEN.split())
def test_ordinary_programs_that_cannot_be_resized_have_one(name: str) -> None:
    source = (ORDINARY / "refused" / f"{name}.py").read_text()
    marked = [n for n, text in enumerate(source.splitlines(), 1) if "# refused" in text]
    assert {f.line for f in check_source(source, name)} & {*marked}


PORT = """
import numpy as np
from mpi4py import MPI  #! port-session

comm = MPI.COMM_WORLD
n, steps = 1000, 50
lo = n * comm.rank // comm.size  #! kept-number
hi = n * (comm.rank + 1) // comm.size  #! kept-number
u = np.zeros(hi - lo)  #! port-array
table = np.arange(n)
for k in range(3):
    table = table * 2


def step(u):
    new = u + table[lo:hi]
    return new, comm.allreduce(new.sum())


for t in range(steps):  #! port-loop
    u, total = step(u)
    for k in range(2):
        comm.Barrier()
print(total)
"""


def test_a_program_without_a_session_gets_a_list_of_what_to_port() -> None:
    expected = [
        (line, text.rpartition("#! ")[2])
        for line, text in enumerate(PORT.splitlines(), 1)
        if "#!" in text
    ]
    assert [(f.line, f.code) for f in check_source(PORT, "p.py")] == expected


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/examples/porting/before").glob("*.py")), ids=lambda p: p.name
)
def test_programs_before_their_port(path: Path) -> None:
    codes = {f.code for f in check_source(path.read_text(), str(path))}
    assert {"port-session", "port-loop"} <= codes <= {*PORTS, "kept-number"}


def test_every_code_is_tested() -> None:
    assert WRONG.keys() | PORTS == CODES.keys()


@pytest.mark.parametrize(
    "path",
    [
        p
        for folder in ("apps", "docs/examples")
        for p in sorted((ROOT / folder).rglob("*.py"))
        if p.parent.name not in ("before", "plain")
    ],
    ids=lambda p: p.name,
)
def test_the_programs_of_this_project_have_no_finding(path: Path) -> None:
    assert check_source(path.read_text(), str(path)) == []


def test_the_command_names_file_and_line_and_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text(WRONG["kept-part"][0])
    found = CliRunner().invoke(check, [str(file)], standalone_mode=False)
    assert found.return_value == 1
    assert found.output.startswith(f"{file}:7: kept-part: u = x.local is kept")
    as_json = CliRunner().invoke(check, [str(file), "--json"], standalone_mode=False)
    data = json.loads(as_json.stdout)
    assert [data["schema"], data["findings"][0]["line"]] == [1, 7]
    file.write_text(RIGHT[0])
    assert CliRunner().invoke(check, [str(file)], standalone_mode=False).return_value == 0
