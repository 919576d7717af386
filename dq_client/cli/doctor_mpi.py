"""The verdict of `dq doctor`: in which way jobs are resized under this MPI (docs/mpi.md)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from dq_client.node.mpi_probe import ProbeResult, can_resize


class Way(StrEnum):
    """How a job grows and shrinks."""

    JOIN = "join"  # ranks join and leave
    RESTART = "restart"  # all ranks end, others start from a copy of the data
    RESTART_BY_MPIEXEC = "restart, mpiexec"  # the same, by this MPI's own launcher
    NONE = "none"


SAID = {
    Way.JOIN: "Jobs can grow and shrink here.",
    Way.RESTART: "Jobs can grow and shrink here, by restart: this MPI takes no ranks into a running"
    " job, so a resize\nends all ranks and starts others from a copy of the data (docs/mpi.md). It"
    " costs at least {start}, the\nprogram's way to its loop, and that copy. With MPICH ranks join"
    " instead: pip install 'dq-mpi[mpich]'.",
    Way.RESTART_BY_MPIEXEC: "Jobs can grow and shrink here, by restart and with this MPI's own"
    " launcher: dq up --launcher mpiexec\n(docs/mpi.md; on one machine). With MPICH ranks join"
    " instead: pip install 'dq-mpi[mpich]'.",
    Way.NONE: "No MPI job can run here: pip install 'dq-mpi[mpich]' brings an MPI that can.",
}


def way_of(ranks: Sequence[dict[str, Any]], results: Sequence[ProbeResult]) -> Way:
    """`ranks`: the facts about DQ's own ranks; `results`: what was tried under mpiexec."""
    own = bool(ranks[0]["ok"])
    if own and can_resize(results):
        return Way.JOIN
    if own:
        return Way.RESTART
    started = any(result.trial == "start" and result.ok for result in results)
    return Way.RESTART_BY_MPIEXEC if started else Way.NONE


def said(way: Way, ranks: Sequence[dict[str, Any]]) -> str:
    """The verdict for people, with what a resize costs as far as that is known here."""
    took = [fact["start_s"] for fact in ranks if fact.get("start_s") is not None]
    start = f"{1e3 * min(took):.0f} ms to start ranks" if took else "the start of ranks"
    return SAID[way].format(start=start)
