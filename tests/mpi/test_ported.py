"""Programs of docs/examples/porting: plain, resizable, and resized, with the same result.

Two ranks give the same bits before and after porting. Resized, they do where nothing is added up
over the ranks in floating point: heat (a maximum), particles (numbers of electrons are whole) and
spectral. In cg and train the order of sums depends on the number of ranks.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.ported import PROGRAMS, Ported
from harness.ranks import ONE_HOST, OWN, run_job

pytestmark = pytest.mark.mpi
RESIZED = Path(__file__).parent / "programs" / "session_ported.py"

each = pytest.mark.parametrize("ported", PROGRAMS.values(), ids=PROGRAMS.keys())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ported")


def plain(ported: Ported, folder: Path) -> Path:
    """The result of the plain program on two ranks; made once."""
    result = folder / f"{ported.name}-plain"
    if not list(folder.glob(f"{result.name}.*")):
        ended = run_job(ONE_HOST, 2, [str(ported.before), *ported.arguments(result)])
        assert ended.code == 0, ended.err
        result.with_suffix(".out").write_text(ended.out)
    return result


def last_numbers(text: str) -> list[float]:
    """Those of the last line that a program has printed itself."""
    said = [line for line in text.splitlines() if not line.startswith("{")]
    return [float(word) for word in re.findall(r"\d+\.?\d*(?:e[-+]\d+)?", said[-1])]


@each
def test_without_a_server_the_resizable_program_is_the_plain_one(
    ported: Ported, folder: Path
) -> None:
    result = folder / f"{ported.name}-alone"
    ended = run_job(ONE_HOST, 2, [str(ported.after), *ported.arguments(result)])
    assert ended.code == 0, ended.err
    exact = replace(ported, tolerance=0.0)  # on as many ranks every sum has its order
    exact.assert_equal(result, plain(ported, folder))
    assert ended.out == plain(ported, folder).with_suffix(".out").read_text()


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
@each
def test_resized_anywhere_it_finds_the_same(ported: Ported, seed: int, folder: Path) -> None:
    reference = plain(ported, folder)
    result = folder / f"{ported.name}-{seed}"
    words = [str(RESIZED), str(seed), str(ported.turns), str(ported.after)]
    words += [" ".join(ported.arguments(result)), *OWN.hosts]
    ended = run_job(OWN, 1, words)
    assert ended.code == 0, ended.err
    told = [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")]
    assert [move.get("committed") for move in told] == [1, 2, 3], told
    ported.assert_equal(result, reference)
    # What a run says of itself: iterations, the change of the last step ... Within rounding.
    expected = last_numbers(reference.with_suffix(".out").read_text())
    assert last_numbers(ended.out) == pytest.approx(expected, rel=0.02)


def test_the_comparison_finds_a_difference(tmp_path: Path) -> None:
    for ported in (Ported("exact", (), 0), Ported("close", (), 0, tolerance=1e-9)):
        numbers = np.linspace(1.0, 2.0, 7)
        np.save(tmp_path / "right.npy", numbers)
        shutil.copy(tmp_path / "right.npy", tmp_path / "same.npy")
        np.save(tmp_path / "wrong.npy", np.where(numbers == 2.0, 2.0 + 1e-8, numbers))
        ported.assert_equal(tmp_path / "same", tmp_path / "right")
        with pytest.raises(AssertionError):
            ported.assert_equal(tmp_path / "wrong", tmp_path / "right")
