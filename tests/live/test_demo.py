"""`dq demo` end to end, from outside: the contract, the page, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bench import until
from harness.commands import HANG_S, default_interrupts
from tests.client.wheel import build_wheel, install_wheel

pytestmark = [pytest.mark.live, pytest.mark.mpi]

DEMO = [sys.executable, "-m", "dq_client.cli.main", "demo"]


def processes_below(folder: Path) -> list[int]:
    """Processes whose environment names a home below `folder`: the demo removes its own in the end,
    so bringup.leftovers cannot be asked for it by name."""
    mark = f"DQ_HOME={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for the demo's temporary home, so that its processes can be counted."""
    folder = Path(tempfile.mkdtemp(prefix="dqt-", dir="/tmp"))
    yield folder
    assert not processes_below(folder)


def env(place: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(place)}


def test_the_demo_finds_a_sweet_spot_and_keeps_its_contract(place: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = subprocess.run(
        [*DEMO, "--json", "-o", str(page)],  # a smaller --n may end before ranks have started
        env=env(place), capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["schema"], found["ok"], found["result_ok"], found["orphans"]) == (
        1,
        True,
        True,
        0,
    )
    job = found["job"]
    assert job["state"] == "done"
    sizes = job["sizes"]
    assert sizes[0]["processors"] == 1 < max(s["processors"] for s in sizes)
    for size in sizes:
        assert size["grid"][0] * size["grid"][1] == size["processors"]
        assert size["decision"] in ("expand", "shrink", "continue")
        assert size["reason"]
        assert size["redistribution_time_s"] >= 0
    assert sizes[0]["iteration_time_s"] > 0
    shrinks = [i for i, s in enumerate(sizes) if s["decision"] == "shrink"]
    if shrinks:  # undone: the job goes back to where it came from, and grows if iterations change
        assert job["sweet_spot"] in {None, *(s["processors"] for s in sizes[shrinks[0] + 1 :])}
    text = page.read_text()
    assert 'import "dq-report"' in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(place: Path, tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        [*DEMO, "--n", "1200", "-o", str(tmp_path / "page.html")],
        env=env(place), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=default_interrupts,
    )  # fmt: skip
    assert process.stderr is not None
    while "processor" not in (line := process.stderr.readline()) or "on " not in line:
        assert line, "the demo ended too soon"
    time.sleep(2.0)
    os.kill(process.pid, number)
    process.communicate(timeout=HANG_S)
    assert process.returncode == 130
    until(lambda: not processes_below(place), "processes are left")


def test_a_report_that_cannot_be_written_is_said_before_anything_starts(place: Path) -> None:
    done = subprocess.run(
        [*DEMO, "-o", "/nonexistent/page.html"],
        env=env(place), capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "/nonexistent/page.html" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_installed_demo_runs_its_own_app_whatever_lies_in_the_folder(
    place: Path, tmp_path: Path
) -> None:
    """Rank 0 and ranks that join import the wheel's `apps`, not the one in the current folder."""
    (tmp_path / "wheel").mkdir()
    python = install_wheel(build_wheel(tmp_path / "wheel"), tmp_path / "venv")
    hostile = tmp_path / "work"
    (hostile / "apps").mkdir(parents=True)
    for name in ("apps/__init__.py", "apps/matmul.py", "resize_lib.py"):
        (hostile / name).write_text(f"open({str(hostile / 'imported')!r}, 'w').close()\n")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # for mpiexec
    done = subprocess.run(
        [python, "-P", "-m", "dq_client.cli.main", "demo", "--json", "--n", "600"],
        env={**env(place), "PATH": path}, cwd=hostile,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["result_ok"]) == (True, True)
    assert len(found["job"]["sizes"]) > 1, "ranks have joined"
    assert not (hostile / "imported").exists()
    assert (hostile / "report.html").is_file()
