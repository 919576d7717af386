"""Who we are now: grid, places and position of a job, which all of its ranks know alike.

The communicator and the grid made of it are `Runtime.comm` and `Runtime.grid`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dq_client.base import messages as m
from resize_lib.descriptors import ProcessGrid
from resize_lib.emulation.link import Link
from resize_lib.loops import Position
from resize_lib.protection.state import CopyState


@dataclass(slots=True)
class JobPosition:
    """Where the job is, equal on every rank. Joining ranks receive it before all else."""

    rows: int  # of the process grid; rows x cols is the size of the communicator
    cols: int
    places: list[m.RankPlace] = field(default_factory=list)  # rank r runs at places[r]; or empty
    managed: bool = False  # a DQ server decides on resizes
    reports: bool = True  # it wants to hear of remap points, because the job may be resized
    loops: Position = ()  # at the last remap point
    lengths: tuple[float | None, ...] = ()  # iterations of these loops
    seq: int = 0  # remap points so far
    resize_id: int = 0  # the last resize that was committed; 0 if there was none
    request: int = 0  # dynamic requests and releases so far
    asked: m.DynamicAnswer | None = None  # the latest answer to the latest of them
    redistribution_s: float = 0.0  # of the last resize; 0 once it has been reported
    old_rows: int = 0  # for joining ranks: the grid that holds the data
    old_cols: int = 0
    link: Link | None = None  # None where links are not emulated
    results: dict[str, dict[int, bytes]] = field(default_factory=dict)  # of rs.map (taskfarm.py)
    expanding: m.RemapAnswer | None = None  # the expansion whose ranks are starting, if one is
    exchanged: set[str] = field(default_factory=set)  # names of arrays whose ghosts were filled
    copies: CopyState = field(default_factory=CopyState)  # of a protected job

    @property
    def processors(self) -> list[int]:
        """The server's numbers of the processors, in rank order."""
        return [place.processor for place in self.places]

    @property
    def grid(self) -> ProcessGrid:
        """The grid."""
        return ProcessGrid(self.rows, self.cols)


def reshape(
    job: JobPosition, rows: int, cols: int, places: Sequence[m.RankPlace], resize_id: int
) -> None:
    """The one writer of a job's shape. Not collective: every rank calls it alike."""
    job.rows, job.cols, job.places, job.resize_id = rows, cols, list(places), resize_id
