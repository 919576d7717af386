"""Files of one rank that an iteration reads: which lines are found, and which are scratch."""

from __future__ import annotations

import textwrap

import pytest

from dq_client.check.facts import facts_of

HEAD = """
import pickle, tempfile
from pathlib import Path
import numpy as np
import resize_lib
rs = resize_lib.session()
comm, x = rs.comm, np.arange(40.0)
name = f"part-{comm.rank}.npy"
np.save(name, x[comm.rank::comm.size])
"""


def line(body: str, head: str = HEAD) -> str:
    """The text of the line that is found; empty: none is."""
    inside = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    source = f"{head}for step in rs.iterations(40):\n{inside}\nprint(np.load(name))\n"
    found = facts_of(source, "p.py").own_file_line()
    return source.splitlines()[found - 1].strip() if found else ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = np.load(name)\nnp.save(name, a + 1)", "a = np.load(name)"),
        ("if not Path(name).exists():\n    np.save(name, x)\na = np.load(name)", "a = np.load"),
        ("with open(name, 'rb') as f:\n    a = pickle.load(f)", "with open(name, 'rb') as f:"),
        ("a = Path(f'p{rs.rank}').read_text()", "a = Path"),
        ("a = np.fromfile('%d.bin' % comm.Get_rank())", "a = np.fromfile"),
    ],
)
def test_what_an_earlier_iteration_wrote(body: str, expected: str) -> None:
    assert line(body).startswith(expected) and expected


@pytest.mark.parametrize(
    "body",
    [
        "np.save(name, x)\na = np.load(name)",  # scratch
        "with open(name, 'w') as f:\n    f.write('1')\na = open(name).read()",
        "if step % 3 == 0:\n    np.save(name, x)\n    a = np.load(name)",
        "with open(f'log{rs.rank}', 'a') as f:\n    f.write('1')",  # a log
        "np.save(name, x)",
        "a = np.load('whole.npy')",  # the same on all ranks
        "for k in range(comm.rank, 9, comm.size):\n    a = np.load(f'{k}.npy')",
        "a = np.load(f'{tempfile.mkdtemp()}/{rs.rank}')",  # the process's own
    ],
)
def test_other_files(body: str) -> None:
    assert line(body) == ""


def test_a_function_that_reads() -> None:
    head = HEAD + "def read(k):\n    return np.load(f'{k}.npy')\n"
    assert line("a = read(comm.rank)", head) == "return np.load(f'{k}.npy')"
    assert line("a = read(7)", head) == ""
