"""Build the wheel and the source distribution, and try the wheel as a user would: `make release`.

    python -m harness.release [PYTHON ...]

Each interpreter (the running one if none is named) gets a new environment outside the checkout with
the wheel and its MPI, installed by pip; there `dq --version` and `dq demo` run in an empty folder.
Prints the time of each step, and the time from the begin of the installation to the demo's first
resize (a newcomer's first minute); ends at the first step that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dq_client import __version__
from harness.commands import ROOT

DIST = ROOT / "dist"
DEMO = ("demo", "--json", "--n", "600")
# Of the checkout, or of an environment that is active: the installed package must do without.
LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "DQ_HOME")


def main(pythons: list[str]) -> None:
    """See the module's docstring."""
    wheel = built()
    for python in pythons or [sys.executable]:
        with tempfile.TemporaryDirectory(prefix="dq-release-") as folder:
            tried(python, wheel, Path(folder))


def built() -> Path:
    """Build both into `dist`; returns the wheel."""
    for old in DIST.glob("dq_mpi-*"):
        old.unlink()
    run([sys.executable, "-m", "hatchling", "build", "-d", str(DIST)], ROOT)
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    for path in (wheel, source):
        assert path.name.startswith(f"dq_mpi-{__version__}"), path
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)
    return wheel


def tried(python: str, wheel: Path, folder: Path) -> None:
    """Install the wheel for this interpreter in `folder`, and run the demo there."""
    work = folder / "work"
    work.mkdir()
    began_s, began_at_s = time.monotonic(), time.time()
    run([python, "-m", "venv", str(folder / "env")], work)
    dq = str(folder / "env" / "bin" / "dq")
    pip = [str(folder / "env" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run([*pip, f"{wheel}[mpich]"], work)
    installed_s = time.monotonic()
    said = run([dq, "--version"], work)
    assert said == f"dq, version {__version__}\n", said
    home = {"DQ_HOME": str(folder / "home")}
    found = json.loads(run([dq, *DEMO], work, home))
    assert found["ok"] and found["result_ok"], found
    stays = found["job"]["sizes"]
    sizes = [stay["processors"] for stay in stays]
    assert len(sizes) > 1, "the job has not been resized"
    resized_s = stays[1]["since_s"] - began_at_s
    assert (work / "report.html").is_file()
    took_s, demo_s = installed_s - began_s, time.monotonic() - installed_s
    print(
        f"{python}: installed in {took_s:.0f} s, first resize after {resized_s:.0f} s, "
        f"demo in {demo_s:.0f} s, sizes {sizes}",
        flush=True,
    )


def run(command: list[str], folder: Path, more: dict[str, str] | None = None) -> str:
    """Run a command outside the checkout; its stdout."""
    env = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    done = subprocess.run(
        command, cwd=folder, env=env | (more or {}), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
