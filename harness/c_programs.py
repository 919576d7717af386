"""Compiling the examples in C and Fortran, and programs of tests, against a libdq of their own."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.commands import ROOT
from resize_lib.c import build

EXAMPLES = ROOT / "resize_lib/c/examples"
COMPILE_LIMIT_S = 300.0


@dataclass(frozen=True)
class Workshop:
    """A folder with libdq; what is compiled lies beside it."""

    folder: Path

    @classmethod
    def opened(cls, folder: Path) -> Workshop:
        """With libdq, built by the command that users give."""
        words = [sys.executable, "-m", "resize_lib.c", "build", "-o", str(folder / "dq")]
        subprocess.run(words, check=True, capture_output=True, timeout=COMPILE_LIMIT_S)
        return cls(folder)

    def compile(self, *sources: Path, scalapack: bool = False) -> Path:
        """The program of these sources, in C, or in Fortran with its module."""
        fortran = sources[-1].suffix == ".f90"
        compiler = ["gfortran", str(self.folder / "dq/dq.f90")] if fortran else ["cc", "-Wall"]
        made = self.folder / (sources[-1].stem + ("_f" if fortran else ""))
        flags = build.flags(self.folder / "dq", scalapack=scalapack)
        words = [*compiler, "-O2", "-o", str(made), *map(str, sources), *flags, "-lm"]
        done = subprocess.run(
            words,
            cwd=self.folder,  # where Fortran's modules go
            capture_output=True,
            text=True,
            timeout=COMPILE_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stderr}"
        return made

    def compile_text(self, name: str, text: str) -> Path:
        """The program of a test's own C code."""
        source = self.folder / f"{name}.c"
        source.write_text(text)
        return self.compile(source)


def no_libdq() -> str:
    """Why libdq cannot be built here; empty if it can."""
    return build.missing()


def no_scalapack() -> str:
    """Why there is no ScaLAPACK for the MPICH here; empty if there is."""
    return build.no_scalapack()


def no_fortran() -> str:
    """Why there is no Fortran; empty if there is."""
    return "" if shutil.which("gfortran") else "no gfortran: apt-get install gfortran"
