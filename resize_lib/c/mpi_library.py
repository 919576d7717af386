"""Which MPI library is loaded, where its header is, and that there is only one of them.

A C program and mpi4py must call the same MPI: two copies in a process do not know of each other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_abi|pmpich)\.so[.\d]*$")


class MPILibraryError(Exception):
    """No MPI, or two of them, in one line."""


@dataclass(frozen=True)
class MPIHere:
    """What mpi4py runs on. `file`: the shared library."""

    vendor: str
    version: str
    file: Path

    def include(self) -> Path:
        """The folder of its mpi.h. MPILibraryError without one."""
        for folder in self._header_folders():
            header = folder / "mpi.h"
            if header.is_file() and self._fits(header.read_text(errors="replace")):
                return folder
        raise MPILibraryError(
            f"no mpi.h of {self.vendor} {self.version} beside {self.file}: mpi4py runs on that"
            " library, so programs must be compiled for it (pip install mpich has both)"
        )

    def _header_folders(self) -> Iterator[Path]:
        """Where installations put it: beside lib, or, as Debian's, in a folder of the MPI's own."""
        beside = self.file.parent
        for prefix in (beside.parent, beside.parent.parent, beside):
            yield prefix / "include"
        for name in ("mpich", "openmpi"):  # lib/x86_64-linux-gnu/libmpich.so.12 and the like
            yield beside / name / "include"
            yield beside.parent.parent / "include" / beside.name / name

    def _fits(self, header: str) -> bool:
        named = re.search(r'#define\s+MPICH_VERSION\s+"([^"]+)"', header)
        if named is not None:
            return self.vendor == "MPICH" and named[1].startswith(self.version)
        return self.vendor != "MPICH"


@cache
def mpi_here() -> MPIHere:
    """The MPI of this interpreter's mpi4py, asked in a process of its own.

    Importing it here without initializing it would leave this process one that cannot use it.

    Raises:
        MPILibraryError: there is none.
    """
    asked = subprocess.run(
        [sys.executable, "-m", __name__], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        lines = asked.stderr.strip().splitlines() or [f"exit code {asked.returncode}"]
        raise MPILibraryError(f"mpi4py has no MPI library: {lines[-1]}")
    vendor, version, file = json.loads(asked.stdout.splitlines()[-1])
    return MPIHere(vendor, version, Path(file))


def _answer() -> None:
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    vendor, version = MPI.get_vendor()
    answer = [vendor, ".".join(map(str, version)), str(the_only_one())]
    sys.stdout.write(json.dumps(answer) + "\n")


def loaded(maps: str | None = None) -> list[Path]:
    """The MPI libraries in this process, each once."""
    text = Path("/proc/self/maps").read_text() if maps is None else maps
    found = {line.split(maxsplit=5)[-1] for line in text.splitlines() if "/lib" in line}
    return sorted(Path(name) for name in found if LIBRARY.search(name))


def the_only_one(maps: str | None = None) -> Path:
    """The one MPI library in this process. MPILibraryError if there are two, or none."""
    found = loaded(maps)
    if len(found) == 1:
        return found[0]
    if not found:
        raise MPILibraryError("no shared MPI library is loaded: link the program with one")
    names = " and ".join(map(str, found))
    raise MPILibraryError(
        f"two MPI libraries are loaded, {names}, and they cannot work together: compile and"
        " link the program with what `python -m resize_lib.c flags FOLDER` prints"
    )


if __name__ == "__main__":
    try:
        _answer()
    except (ImportError, RuntimeError, MPILibraryError) as e:
        sys.exit(str(e))
