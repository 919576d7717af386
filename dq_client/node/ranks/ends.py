"""How the ranks of a keeper stand, on disk: what its agent goes by when the keeper is gone.

FOLDER/ends has what the keeper tells its agent (keeper.py, `state`), and what that does not need
while the keeper lives. It is written before the ranks of a world are started, before the agent is
told of any change, and last when the keeper ends. So it may say that a rank runs which has ended,
but never that one has ended well which has not; and what it does not mention was never started.

| The keeper | The file | The ranks |
|---|---|---|
| ended | `over` | as it says |
| was killed | none runs, none is being mended | as it says: all had ended |
| was killed | one runs, or is being mended | lost: their parent is gone, and they are killed |
| was killed | there is none, or no world in it | lost: how far they came is not known |
"""

from __future__ import annotations

import json
import os
from enum import Enum
from typing import Any, Dict, Optional

from ...base import opened, process

NAME = "ends"
FORMER_NAME = "exit"  # of a keeper that DQ 0.2 has made, which wrote it at its own end only

State = Dict[str, Any]


class KeptEnd(Enum):
    """What is known of ranks whose keeper is gone."""

    KNOWN = "known"
    LOST = "lost"


class EndsFile:
    """The side that writes; only what has changed is written."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NAME)
        self._written = ""

    def write(self, state: State) -> bool:
        """Write `state` unless the file has it; whether it has it now.

        Raises:
            FileNotFoundError: the folder is gone: the agent has forgotten this start of the job.
        """
        text = json.dumps(state)
        if text == self._written:
            return True
        try:
            process.write(self._path, text)
        except FileNotFoundError:
            raise
        except OSError:  # a disk that fails: tried again
            return False
        self._written = text
        return True


def read(folder: str) -> Optional[State]:
    """What the keeper of a folder wrote last; None if there is nothing that can be read."""
    for name in (NAME, FORMER_NAME):
        try:
            found = json.loads(opened.read_text(os.path.join(folder, name)))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and isinstance(found.get("worlds"), dict):
            return found if name == NAME else {**found, "over": True}
    return None


def memory(folder: str) -> list[str]:
    """Files of MPICH's shared memory that the ranks of a keeper may have left."""
    found = (read(folder) or {}).get("memory", [])
    return [path for path in found if isinstance(path, str)] if isinstance(found, list) else []


def standing(state: Optional[State]) -> KeptEnd:
    """What a record means now that its keeper is gone: the table in this module's docstring."""
    if state is None:
        return KeptEnd.LOST
    if state.get("over"):
        return KeptEnd.KNOWN
    worlds = state["worlds"].values()
    open_end = any(world["running"] for world in worlds) or state.get("losing")
    return KeptEnd.LOST if open_end or not worlds else KeptEnd.KNOWN
