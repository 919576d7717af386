"""Programs with their data on a GPU, resized 1, 2, 4, 1: the same bits as without resizes."""

from __future__ import annotations

import warnings

import pytest

from benchmarks import gpu

pytestmark = [pytest.mark.live, pytest.mark.mpi, pytest.mark.full]


def test_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    lacking = [gpu.missing(package, on_gpu=True) for package in ("cupy", "torch")]
    if all(lacking):
        why = f"no program on a GPU: {'; '.join(lacking)}"
        warnings.warn(why, stacklevel=1)
        pytest.skip(why)
    assert gpu.main([]) == 0, capsys.readouterr().out


def test_the_same_programs_on_processors(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--cpu", "--cells", "16", "--samples", "128"]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert "heat: equal on one processor and resized 1, 2, 4, 1" in told
    assert "train: equal" in told or "train: skipped: torch: ModuleNotFoundError" in told


def test_without_a_gpu_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "missing", lambda package, *, on_gpu: f"{package} finds no GPU")
    assert gpu.main([]) == gpu.NOTHING_RAN
    told = capsys.readouterr().out
    assert told == "heat: skipped: cupy finds no GPU\ntrain: skipped: torch finds no GPU\n"
