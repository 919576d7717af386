"""What a session does on an emulated node: pace this rank, shape its grid's messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mpi4py import MPI

from dq_client.base import cgroups
from dq_client.base.messages import RankPlace
from resize_lib.emulation import pacing
from resize_lib.emulation.communicator import ShapedComm
from resize_lib.emulation.link import Link
from resize_lib.grid import Grid


@dataclass(slots=True)
class Emulation:
    """One rank's emulated node. `link` None: messages cost what the machine makes them cost."""

    pacer: pacing.SharePacer | None
    link: Link | None

    @staticmethod
    def on(place: RankPlace | None, link: Link | None) -> Emulation | None:
        """Install what `place` asks for in this process; None if it asks for nothing.

        `link`: what every node's link carries.
        """
        if place is not None:
            # contained nodes: start-up was at full speed, what follows is not
            cgroups.join(place.node)
        share = place.core_share if place is not None else None
        if share is None and link is None:
            return None
        pacer = pacing.SharePacer(share) if share is not None else None
        pacing.set_pacer(pacer)
        return Emulation(pacer, None if link is None else replace(link))

    def grid(self, comm: MPI.Intracomm, rows: int, cols: int, places: Sequence[RankPlace]) -> Grid:
        """The grid on `comm` (collective), its messages shaped, its ranks asleep while waiting."""
        # Nap also on one node and without a link: emulated nodes outnumber the machine's cores, and
        # a rank that polls would take the core from the rank it waits for.
        nodes = [place.node for place in places]
        link = self.link if len(set(nodes)) > 1 else None
        if link is None and self.pacer is None:
            return Grid(comm, rows, cols, wait="nap")
        shaped = ShapedComm.of(comm, link, nodes)
        if self.pacer is not None:
            shaped.state.exclude = self.pacer.exclude
        return Grid(shaped, rows, cols, wait="nap")
