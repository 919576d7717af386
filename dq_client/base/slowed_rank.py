"""A rank on an emulated node reports when it is to be slowed.

Start-up is not charged at the emulated speed: four ranks take 0.7 s to start at full speed and
3.6 s inside 5 % of a core. So a rank joins its node's control group when MPI is up. Ranks import
this module: it must stay quick to import.
"""

from __future__ import annotations

import os
from pathlib import Path

from dq_client.base import cgroups


def join(node: str) -> None:
    """This process shall be slowed, if its cluster's nodes are contained."""
    cgroups.join(node)


def leave() -> None:
    """This process shall not be slowed any more: it measures something else."""
    top = os.environ.get(cgroups.JOIN_VARIABLE)
    if top:
        cgroups.put(Path(top).parent, 0)  # the group above the cluster's: no quota there
