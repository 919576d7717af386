"""Maintenance windows: `dq maintenance`."""

from __future__ import annotations

import time
import uuid
from datetime import datetime

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.base.errors import UsageError
from dq_client.base.values import parse_time
from dq_client.cli.requests import json_option, records, server
from dq_client.cli.reserve_commands import seconds_until
from dq_client.show.output import clock, note, print_json, say, table


@click.command()
@click.argument("nodes", nargs=-1)
@click.option("--start", help="now, +10m, 14:30 or 2026-05-01T14:30.")
@click.option("--duration", help="How long: 90s, 10m, 2h.")
@click.option("--name", help="Name of the window.")
@click.option("--reason", default="", help="Shown by dq nodes and dq why.")
@click.option("--cancel", metavar="NAME", help="Cancel a window instead of planning one.")
@json_option
def maintenance(
    nodes: tuple[str, ...],
    start: str | None,
    duration: str | None,
    name: str | None,
    reason: str,
    cancel: str | None,
    as_json: bool,
) -> None:
    """Have NODES empty for a while, from a time on; without NODES list the windows.

    Jobs that can be moved leave before; others are killed when the window begins. No
    other job starts there that may still run then.
    """
    if cancel is not None:
        if nodes or start or duration or name or reason:
            raise UsageError("--cancel NAME goes with no other option")
        name = cancel
        body: m.RequestBody = m.CancelMaintenance(name)
    elif nodes:
        if start is None or duration is None:
            missing = "--start" if start is None else "--duration"
            raise UsageError(f"{missing} is missing: dq maintenance n1 --start 22:00 --duration 2h")
        name = name or f"m{time.strftime('%m%d')}-{uuid.uuid4().hex[:4]}"
        body = m.PlanMaintenance(
            request=uuid.uuid4().hex,
            name=name,
            nodes=list(nodes),
            in_s=seconds_until(start, datetime.now().astimezone()),
            duration_s=parse_time("--duration", duration),
            reason=reason,
        )
    elif start or duration or name or reason:
        raise UsageError("name the nodes: dq maintenance n1 --start 22:00 --duration 2h")
    else:
        _list(as_json=as_json)
        return
    with server() as connection:
        connection.call(body)
    if as_json:
        print_json(maintenance={"name": name})
    elif cancel is not None:
        note(f"maintenance window {name} is cancelled")
    else:
        say(name)


def _list(*, as_json: bool) -> None:
    with records() as connection:
        found = ask(connection, m.MaintenanceQuery())
    if as_json:
        print_json(maintenance=found)
        return
    rows = [
        (
            w["name"],
            ",".join(w["nodes"]),
            clock(w["start_s"]),
            clock(w["end_s"]),
            "begun" if w["begun"] else "planned",
            w["reason"] or "-",
        )
        for w in found
    ]
    say(table(("NAME", "NODES", "BEGINS", "ENDS", "STATE", "REASON"), rows))
