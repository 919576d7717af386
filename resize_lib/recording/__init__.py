"""What `dq verify` compares: a record of the program's state after each iteration.

    fingerprints.py  a value in a few numbers that can be compared with a tolerance
    variables.py     the program's own variables, found by a walk over its frames and modules
    recorder.py      when what is written; the format of the files

Switched on by DQ_VERIFY_DIR in the environment (docs/verify.md); nothing is imported without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resize_lib.recording.recorder import Recorder
    from resize_lib.runtime import Runtime

FOLDER_VARIABLE = "DQ_VERIFY_DIR"


def recorder_of(session: Runtime) -> Recorder | None:
    """The recorder of a session whose program is verified; None: it is not."""
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if not folder:
        return None
    from resize_lib.recording.recorder import Recorder

    return Recorder(session, Path(folder))
