"""A rank on an emulated node reports when it is to be slowed.

Start-up is not charged at the emulated speed: four ranks take 0.7 s to start at full speed and
3.6 s inside 5 % of a core. So a rank says when MPI is up: from then on its node's share of a core
is all it gets. Under control groups it puts itself into its node's; under the governor it leaves a
note, a file named after it. Ranks import this module: it must stay quick to import.
"""

from __future__ import annotations

import os
from pathlib import Path

from dq_client.base import cgroups

NOTES_VARIABLE = "DQ_GOVERNOR_NOTES"  # in ranks: the folder for their notes
JOINS, LEAVES = "joins", "leaves"


def join(node: str) -> None:
    """This process shall be slowed, if its cluster's nodes are contained."""
    cgroups.join(node)
    _note(JOINS)


def leave() -> None:
    """This process shall not be slowed any more: it measures something else."""
    top = os.environ.get(cgroups.JOIN_VARIABLE)
    if top:
        cgroups.put(Path(top).parent, 0)  # the group above the cluster's: no quota there
    _note(LEAVES)


def _note(word: str) -> None:
    folder = os.environ.get(NOTES_VARIABLE)
    if folder:
        (Path(folder) / f"{os.getpid()}.{word}").touch()


def take_notes(folder: Path) -> dict[int, str]:
    """Notes left since the last call: pid and the latest word. They are removed."""
    found: dict[int, str] = {}
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - "joins" before "leaves" of one pid
        pid, _, word = name.partition(".")
        if pid.isdigit():
            found[int(pid)] = word
        (folder / name).unlink(missing_ok=True)
    return found
