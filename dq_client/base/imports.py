"""What a process has imported, so that a keeper can load the same before ranks are forked from it.

Standard library only: ranks and keepers use it (dq_client/node/ranks/learned.py).
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b
from itertools import takewhile
from typing import Any

MARKER = "_dq_preloaded"  # stands in sys.modules behind all that ranks are forked with
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
# Hidden in a keeper (dq_client/node/ranks/preload.py).
NEVER = ("mpi4py", "resize_lib", "dq_client")
# Of the environment: set for each rank by its keeper or its MPI.
OF_A_RANK = ("DQ_", "PMI", "MPI", "UCX_", "OMPI_", "CUDA_VISIBLE_DEVICES")
NAMES_BYTES_MAX = 40 << 10  # of a message; torch has some 30 KiB


def imported() -> dict[str, Any]:
    """Return the installed packages that were imported since the fork, and how the process looks.

    packages     {name: [file, modules below it, in the order of their import]}
    surroundings  of a module: what it may have read or changed when it was imported

    Empty in a process that was not forked from a keeper, or has imported no package.
    """
    if MARKER not in sys.modules:
        return {}
    packages: dict[str, list[Any]] = {}
    program = getattr(sys.modules.get("__main__"), "__package__", None) or "__main__"
    never = {*NEVER, "__main__", program.partition(".")[0]}
    new = list(takewhile(lambda name: name != MARKER, reversed(sys.modules)))
    for name in reversed(new):
        top, _, below = name.partition(".")
        if top in never:
            continue
        path = _file(top)
        # Not what an extension module has registered under a name of its own.
        if any(f"{folder}{top}" in path for folder in INSTALLED):
            packages.setdefault(top, [path, []])
            if below and _file(name):
                packages[top][1].append(below)
    if sum(len(name) for _, below in packages.values() for name in below) > NAMES_BYTES_MAX:
        packages = {top: [path, []] for top, (path, _) in packages.items()}
    return {"packages": packages, "surroundings": surroundings()} if packages else {}


def differs(packages: dict[str, list[Any]]) -> str:
    """The first package that is another one here, or is not loaded; empty: none."""
    return next((top for top, (path, _) in packages.items() if _file(top) != path), "")


def surroundings() -> list[str]:
    """A digest of the environment, and the import system's finders."""
    own = sorted(item for item in os.environ.items() if not item[0].startswith(OF_A_RANK))
    digest = blake2b(repr(own).encode(), digest_size=16).hexdigest()
    return [digest, *(getattr(f, "__name__", type(f).__name__) for f in sys.meta_path)]


def mark() -> None:
    """Take what is loaded now for what ranks are forked with."""
    sys.modules.pop(MARKER, None)
    sys.modules[MARKER] = type(sys)(MARKER)


def _file(name: str) -> str:
    # vars: a module that loads itself when an attribute is asked for must not do so here.
    path = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
    return path if isinstance(path, str) else ""
