"""Lists of the rank's parts from several iterations: which lines are found, and which are not."""

from __future__ import annotations

import textwrap

import pytest

from dq_client.check.facts import facts_of

HEAD = """
from collections import deque
import numpy as np
import resize_lib
rs = resize_lib.session()
comm, x, full = rs.comm, rs.array("x", 100), np.arange(100.0)
kept, window = [], deque(maxlen=3)
class Solver:
    def __init__(self):
        self.steps = []
    def advance(self):
        self.steps.append(2 * x.local)
        x.local[:] += self.steps[0]
solver = Solver()
"""
PART = "lo = comm.rank * 100 // comm.size\nhi = lo + 100 // comm.size\nu = full[lo:hi]\n"


def line(body: str) -> str:
    """The text of the line that is found; empty: none is."""
    inside = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    source = f"{HEAD}for step in rs.iterations(40):\n{inside}\nprint(kept, window)\n"
    found = facts_of(source, "p.py").history_line()
    return source.splitlines()[found - 1].strip() if found else ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("kept.append(x.local.copy())\nx.local[:] += kept[-1]", "kept.append(x.local.copy())"),
        ("window.appendleft(x.local)\nx.local[:] += sum(window)", "window.appendleft"),
        (PART + "kept.append(u)\nif len(kept) > 2:\n    kept.pop(0)\nx.local[:] = kept[0]", "kept"),
        (PART + "kept.append(np.sqrt(u) * 2)\nfull[:3] = kept[0][:3]", "kept.append(np.sqrt"),
        (PART + "old = u.copy()\nkept.append(-old)\nfull = f(kept)", "kept.append(-old)"),
        ("mine = full[comm.rank :: comm.size]\nkept.append(mine)\nfull = f(*kept)", "kept"),
        ("window.append(2 * x.local)\nx.local[:] += window.popleft()", "window.append"),
        ("kept.insert(0, x.local * 2)\nx.local[:] += kept[1]", "kept.insert"),
        (PART + "kept = [u, *kept[:2]]\nfull = f(kept[1])", "kept = [u"),
        (PART + "kept = kept[-2:] + [u]\nfull = f(kept[1])", "kept = kept"),
        (PART + "kept += [u]\nfull = f(kept[1])", "kept += [u]"),
        ("solver.advance()", "self.steps.append(2 * x.local)"),
    ],
)
def test_parts_that_a_later_iteration_reads(body: str, expected: str) -> None:
    assert line(body).startswith(expected)


@pytest.mark.parametrize(
    "body",
    [
        "kept.append(x.local.copy())",  # read after the loop alone
        "kept.append(x.local.copy())\nif len(kept) > 3:\n    kept.pop(0)",
        "kept.append(float(x.local.sum()))\nx.local[:] += kept[-1]",  # a number
        "kept.append(comm.allgather(x.local))\nx.local[:] += kept[-1][0]",  # of all ranks
        "kept.append(full[:3])\nx.local[:3] = kept[-1]",
        PART + "kept.append(full[:3] @ full[:3])\nfull[0] = kept[0]",
        PART + "kept = [u, *kept[:2]]",
        PART + "full = np.concatenate(comm.allgather(np.concatenate([u, full[lo:lo]])))",
        PART + "kept = [u, u]\nfull = f(kept[1])",
        PART + "kept = []\nkept.append(u)\nfull = f(kept)",  # new in each iteration
        PART + "kept.append(u)\nfull = f(kept)\nkept.clear()",
    ],
)
def test_other_lists(body: str) -> None:
    assert line(body) == ""
