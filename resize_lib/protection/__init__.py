"""Copies of a protected job's data, and their way back into a job of any size (docs/protection.md).

`partfile` one rank's part of a copy as a file · `generations` whole copies in a folder, the newest
complete one counts · `partners` who holds whose part in memory, and how it gets there · `chosen`
the copy that all ranks go on from, and its parts on any node · `recovery` the data on any grid ·
`protector` what a session does at remap points.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resize_lib.protection.protector import Protector
    from resize_lib.recovery_in_place import InPlace
    from resize_lib.runtime import Runtime


def protector_of(session: Runtime) -> Protector | None:
    """As the launch said; None if the job is neither protected nor resized by restart."""
    restarts = session.backend.name == "restart" and session.job.managed
    if not os.environ.get("DQ_PROTECT") and not restarts:
        return None
    from resize_lib.protection.protector import Protector  # most jobs do without

    return Protector(session)


def recovery_of(session: Runtime) -> InPlace | None:
    """For jobs that can go on without ranks that they have lost."""
    if session.protector is None:
        return None
    from resize_lib.recovery_in_place import in_place

    return in_place(session)
