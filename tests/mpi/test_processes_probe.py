"""`dq doctor`'s trials: right about the MPI that is here, and sensible about one that is broken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Never

import pytest

from dq_client.base.launch import LaunchError
from dq_client.node import mpi_probe
from dq_client.node.mpi_probe import NO_MPIEXEC_JOBS, PROBES, can_resize, probe_mpi


def fake_mpiexec(folder: Path, script: str) -> str:
    path = folder / "mpiexec"
    path.write_text(f"#!{sys.executable}\n{script}\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.mpi
def test_mpich_5_0_2_can_do_everything() -> None:
    results = probe_mpi()
    assert can_resize(results), results
    assert results[0].detail == "MPICH 5.0.2"
    assert [r.name for r in results[2:]] == [p.name for p in PROBES]
    assert all(r.detail and not r.consequence for r in results)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import time; time.sleep(60)", "no end after 2 s"),
        ("import sys; sys.exit('Fatal error: out of luck')", "Fatal error: out of luck"),
        ("import sys; sys.exit(9)", "exit code 9"),
        ("print('dq-probe-not: foreign mpiexec'); raise SystemExit(1)", "foreign mpiexec"),
        ("print('something else')", "exit code 0"),
    ],
)
def test_mpi_that_cannot_start_ends_the_trials_and_says_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    mpiexec = fake_mpiexec(tmp_path, script)
    monkeypatch.setattr(mpi_probe, "find_mpiexec", lambda _: mpiexec)
    results = probe_mpi(limit_s=2 if "sleep" in script else 60)
    assert [r.ok for r in results] == [True, True, False]
    assert says in results[-1].detail
    assert results[-1].consequence == NO_MPIEXEC_JOBS
    assert not can_resize(results)


@pytest.mark.mpi
def test_foreign_mpiexec_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts two programs of one rank each, as Open MPI's does with an MPICH program."""
    script = (
        "import os, subprocess, sys; at = sys.argv.index('-n') + 2;"
        "env = {k: v for k, v in os.environ.items() if not k.startswith('PMI')};"
        "sys.exit(subprocess.call(sys.argv[at:], env=env))"
    )
    mpiexec = fake_mpiexec(tmp_path, script)
    monkeypatch.setattr(mpi_probe, "find_mpiexec", lambda _: mpiexec)
    results = probe_mpi()
    assert "do not belong together" in results[-1].detail


@pytest.mark.mpi
def test_missing_mpiexec_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Never:
        raise LaunchError("no mpiexec found: install an MPI")

    monkeypatch.setattr(mpi_probe, "find_mpiexec", missing)
    last = probe_mpi()[-1]
    assert (last.name, last.ok, last.consequence) == ("mpiexec", False, NO_MPIEXEC_JOBS)
    assert last.detail.startswith("no mpiexec found")
