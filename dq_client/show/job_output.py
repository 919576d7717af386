"""The output of a job, read from the nodes on which it ran."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec.structs import replace

from dq_client.base import messages as m
from dq_client.base.connection import Connection, ask
from dq_client.base.errors import DQError, Refused
from dq_client.node.ranks.marks import SUFFIX, Labelled
from dq_client.show.output import note

UNKNOWN = (
    "which rank has written what is not known here: the job was submitted with --label, or its"
    " ranks were not started by DQ, or the beginning is missing"
)
ERROR_LINES, ERROR_BYTES = 10, 4 << 20  # shown of a failed job; read of it at most


def output_of(
    connection: Connection,
    job_id: int,
    stream: str = "out",
    *,
    follow: bool = False,
    label: bool = False,
) -> Iterator[bytes]:
    """The output of a job in pieces; with `follow` until the job has ended.

    What ranks on other nodes have written comes last, node by node, where these do not share a home
    with the first. Refused if the first is away, and no other has anything.
    """
    homes, elsewhere, away, any_data = set[str](), set[str](), list[str](), False
    refused: Refused | None = None
    try:
        for reply in _pieces(connection, job_id, stream, follow=follow, label=label):
            homes.add(reply.home)
            elsewhere |= set(reply.elsewhere)
            any_data |= bool(reply.data)
            yield reply.data
    except Refused as e:
        refused = e
        elsewhere |= set(ask(connection, m.JobQuery(job_id)).get("ran_on", [])[1:])
    for node in sorted(elsewhere):
        try:
            first = True
            for reply in _pieces(connection, job_id, stream, node=node, label=label):
                if first and (reply.home in homes or not reply.data):
                    break
                if first:
                    note(f"on {node}:")
                first, any_data = False, True
                yield reply.data
        except Refused:
            away.append(node)
        else:
            homes.add(reply.home)
    if refused is not None:
        if not any_data:
            raise refused
        note(f"{refused}; what ranks there wrote is there")
    # If no other node has files of its own, those that are away will have had none either.
    if away and (len(homes) > 1 or len(away) == len(elsewhere)):
        note(f"{', '.join(away)}: away; what ranks there wrote is there, unless the home is shared")


def _pieces(
    connection: Connection,
    job_id: int,
    stream: str,
    *,
    node: str = "",
    follow: bool = False,
    label: bool = False,
) -> Iterator[m.LogPiece]:
    """The file of one node."""
    query = m.LogsQuery(job=job_id, stream=stream, node=node)
    marks = replace(query, stream=stream + SUFFIX)
    labelled = Labelled() if label else None
    while True:
        reply = _piece(connection, query)
        query = replace(query, offset=reply.offset)
        if labelled is None:
            yield reply
        else:
            # Who has written it is noted just after it was.
            while (more := _piece(connection, marks)).data:
                marks = replace(marks, offset=more.offset)
                labelled.learn(more.data)
            yield replace(reply, data=labelled.show(reply.data))
        if reply.end or not (reply.data or follow):
            break
        if not reply.data:
            time.sleep(0.2)
    if labelled is not None and query.offset and not labelled.seen:
        note(UNKNOWN)


def _piece(connection: Connection, query: m.LogsQuery) -> m.LogPiece:
    reply = connection.call(query)
    assert isinstance(reply, m.LogPiece)
    return reply


def last_errors(connection: Connection, job_id: int) -> list[str]:
    """What a failed job wrote last to stderr; nothing where that cannot be read."""
    text, read = b"", 0
    try:
        for piece in output_of(connection, job_id, "err"):
            text, read = (text + piece)[-1 << 16 :], read + len(piece)
            if read > ERROR_BYTES:
                return []
    except DQError:
        return []  # it is on a node that is away: `dq logs` says so
    return text.decode(errors="replace").splitlines()[-ERROR_LINES:]
