"""What stands around the Python blocks of pages that are a part of a program."""

from __future__ import annotations

import textwrap

from harness.pages import Block

IMPORTS = """\
import time
import numpy as np
import resize_lib
from mpi4py import MPI

def pause():
    time.sleep(0.04 if MPI.COMM_WORLD.size == 1 else 0.001)  # else it is over before it grows
"""

SESSION = """\
with resize_lib.session() as rs:
{before}
{block}
{after}
"""
ALONE = "{before}\n{block}\n{after}\n"

# (page, number): what comes before the block, and after it. "with": the block has its own session.
CELLS = 'u = rs.array("u", 64, trailing=(4,), init=lambda i: np.zeros((len(i), 4)))\n'
AROUND: dict[tuple[str, int], tuple[str, str]] = {
    ("arrays.md", 0): ("", "assert len(losses) == 100 and energy.value == sum(losses)"),
    ("arrays.md", 2): (
        "def fill(i, j, k):\n    return i + 10.0 * j + 100.0 * k\n"
        "def stencil(x):\n    pause()\n    return (x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1]) / 2",
        "assert np.isfinite(u.interior).all()",
    ),
    ("arrays.md", 3): (
        "import scipy.sparse as sp\nn = 40\nx = np.ones(n)\n"
        "def build(rows):\n    return sp.csr_matrix(2 * sp.eye(n).tocsr()[rows])",
        "assert np.all(y == 2)",
    ),
    ("arrays.md", 4): (
        'u = rs.cartesian("u", (8, 8))\n'
        'start = np.zeros(50, [("id", "i8"), ("x", "f8"), ("y", "f8")])\n'
        'start["id"] = np.arange(50)\nstart["x"] = start["id"] % 8\n'
        'def move(p):\n    pause()\n    p["x"] = (p["x"] + 0.1) % 8',
        "assert rs.comm.allreduce(len(p.local)) == 50",
    ),
    ("arrays.md", 5): (
        "",
        "for _ in rs.iterations(5):\n    hits.value += rng.value.integers(2)",
    ),
    ("arrays.md", 6): ("n = 48", ""),
    ("attach.md", 2): (
        "",
        "with resize_lib.session() as rs:\n    for _ in rs.iterations(3):\n        pass",
    ),
    ("carry.md", 0): (
        "def score(step, rank):\n    pause()\n    return step * rank",
        "assert count == len(history) == 100 and best == max(history)",
    ),
    ("evolving.md", 0): (
        "n = 100\n"
        "def work(rs):\n    global too_many_cells_per_rank, too_few\n"
        "    time.sleep(0.02 if rs.size > 1 else 0.2)\n"
        "    too_many_cells_per_rank = rs.size == 1 and rs.asked is None\n"
        "    too_few = rs.size == 3 and rs.asked is None",
        "",
    ),
    ("kernels.md", 0): (
        "comm, n = MPI.COMM_WORLD, 300\nfrom apps.linalg import verification\n"
        "from resize_lib.descriptors import BlockCyclic\nfrom resize_lib.grid import Grid\n"
        "g, d = Grid(comm, 2, 3), BlockCyclic(n, n, 64, 64)\n"
        "B, C = (verification.local_part(g, d, verification.uniform(seed=s)) for s in (2, 3))",
        "",
    ),
    ("porting.md", 1): (
        "n, steps, comm = 12, 5, MPI.COMM_WORLD\n"
        "def start(i):\n    return i + 1.0\ndef advance(part):\n    return part + 1",
        "assert len(history) == 5 and history[-1] == total == 5 * n * (n + 1) / 2 + 15 * n",
    ),
    ("porting.md", 2): (
        "rs = resize_lib.session()\nn = 12\n"
        "def denominators(first, m):\n    return np.arange(first, first + m)",
        "for _ in rs.iterations(3):\n    assert m == n // rs.size and len(implicit) == m",
    ),
    ("porting.md", 3): (
        "rs, n, steps, comm = resize_lib.session(), 12, 5, MPI.COMM_WORLD\n"
        'u = rs.array("u", n, init=lambda i: i)\ndef count(part):\n    return len(part)',
        "assert hits == (n * steps if comm.rank == 0 else None)",
    ),
    ("programs.md", 0): (CELLS + "def smooth(part, comm):\n    pause()\n    part += 1\n"
                         "def refine(part, comm):\n    time.sleep(0.02)\n    part += 1",
                         "assert np.all(u.local == 80)"),
    ("programs.md", 1): (
        'seen = rs.value("seen", 0)\ndef train(epoch, batch):\n    pause()\n    seen.value += 1',
        "assert seen.value == 1000",
    ),
    ("programs.md", 2): (
        'u = rs.array("u", 64, init=lambda i: np.ones(len(i)))\n'
        "def step(part):\n    time.sleep(0.02)\n    part *= 0.8\n"
        "def change(part):\n    return float(part.max(initial=0.0))",
        "assert rs.comm.allreduce(change(u.local), MPI.MAX) < 1e-8",
    ),
    ("programs.md", 3): (
        "from scipy.sparse.linalg import LinearOperator, cg\n"
        "n = 4000\nb = np.ones(n)\nx = rs.value('x', np.zeros(n))\n"
        "rows = rs.array('rows', n, init=lambda i: 2.0 + 0.1 * i / n)\n"
        "def times(v):\n    time.sleep(0.02)\n    i, wide = rows.indices, np.r_[0.0, v, 0.0]\n"
        "    mine = rows.local * v[i] - wide[i] - wide[i + 2]\n"
        "    return np.concatenate(rs.comm.allgather(mine))",
        "assert np.linalg.norm(b - times(x.value)) < 1e-4 * np.linalg.norm(b)",
    ),
    ("programs.md", 4): (
        "configurations = range(60)\ndef energy(c):\n    time.sleep(0.05)\n    return c * c",
        "assert energies == [c * c for c in range(60)]",
    ),
    ("programs.md", 5): (
        CELLS + "def compile_kernels(part):\n    assert part.shape[1] == 4",
        "for _ in rs.iterations(200):\n    time.sleep(0.01)\n    assert ring.size == rs.size",
    ),
}  # fmt: skip


def program(block: Block) -> str:
    """A whole program with this block in it."""
    before, after = AROUND.get((block.page, block.number), ("", ""))
    text = block.text
    own = any("session(" in part for part in (before, text, after)) or "MPI.COMM_WORLD" in before
    if own:
        return IMPORTS + ALONE.format(before=before, block=text, after=after)
    inner = (textwrap.indent(part, "    ") for part in (before, text, after))
    return IMPORTS + SESSION.format(**dict(zip(("before", "block", "after"), inner, strict=True)))
