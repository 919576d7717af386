"""The wheel that users install, built once and installed without a network."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from harness.commands import HANG_S

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this working tree into `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path) -> Path:
    """A new virtual environment with the wheel in it; returns its Python.

    What the wheel depends on is this environment's: a .pth file adds its site-packages, whose own
    .pth files are then not read, so the editable install of this tree stays out. mpi4py looks for
    MPI's library, and that for its own, below the environment's prefix: they are linked there.
    """
    venv.create(folder, with_pip=False)
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", scheme="venv", vars=paths))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for library in (Path(sys.prefix) / "lib").iterdir():
        if not library.name.startswith("python"):
            (folder / "lib" / library.name).symlink_to(library)
    return folder / "bin" / "python"
