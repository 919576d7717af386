"""What is planned for later: `dq reserve`, `dq reservations`, `dq maintenance`."""

from __future__ import annotations

import re
import time
import uuid
from datetime import datetime, timedelta

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.base.errors import UsageError
from dq_client.base.values import parse_time
from dq_client.cli.requests import json_option, records, server
from dq_client.show.output import clock, note, print_json, say, table

CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def seconds_until(text: str, now: datetime) -> float:
    """Seconds from `now` until `text`: `now`, `+10m`, `14:30` (the next one), `2026-05-01T14:30`.

    The request carries this delay, not a time of day: the server's clock may differ.
    """
    if text == "now":
        return 0.0
    if text.startswith("+"):
        return parse_time("--start", text[1:])
    found = CLOCK.fullmatch(text)
    if found is not None:
        at = now.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        return (at + timedelta(days=at < now) - now).total_seconds()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--start {text}: give now, +10m, 14:30 or a date and time as 2026-05-01T14:30"
        ) from None
    in_s = (at.astimezone() - now).total_seconds()
    if in_s < 0:
        raise UsageError(f"--start {text}: that is in the past")
    return in_s


def _new_name(letter: str) -> str:
    return f"{letter}{time.strftime('%m%d')}-{uuid.uuid4().hex[:4]}"


@click.command()
@click.option("-n", "processors", type=click.IntRange(min=1), help="How many processors.")
@click.option("--start", help="now, +10m, 14:30 or 2026-05-01T14:30.")
@click.option("--duration", help="How long: 90s, 10m, 2h.")
@click.option("--name", help="Name of the reservation, for dq submit --reservation NAME.")
@click.option("--user", default="", help="Whose jobs may run in it; anybody's if not given.")
@click.option("--cancel", metavar="NAME", help="Cancel a reservation instead of making one.")
@json_option
def reserve(
    processors: int | None,
    start: str | None,
    duration: str | None,
    name: str | None,
    user: str,
    cancel: str | None,
    as_json: bool,
) -> None:
    """Keep processors free for later; prints the reservation's name.

    No other job gets processors that it would still hold then. Refused if running jobs are
    not expected to be out of the way.
    """
    making = {"-n": processors, "--start": start, "--duration": duration}
    if cancel is not None:
        if any((*making.values(), name, user)):
            raise UsageError("--cancel NAME goes with no other option")
        name = cancel
        body: m.RequestBody = m.CancelReservation(name)
    elif processors is None or start is None or duration is None:
        missing = next(option for option, value in making.items() if value is None)
        raise UsageError(f"{missing} is missing: dq reserve -n 4 --start +1h --duration 10m")
    else:
        name = name or _new_name("r")
        body = m.Reserve(
            request=uuid.uuid4().hex,
            name=name,
            processors=processors,
            in_s=seconds_until(start, datetime.now().astimezone()),
            duration_s=parse_time("--duration", duration),
            user=user,
        )
    _planned(body, "reservation", name, cancelled=cancel is not None, as_json=as_json)


def _planned(body: m.RequestBody, what: str, name: str, *, cancelled: bool, as_json: bool) -> None:
    """Ask for it, and print the name."""
    with server() as connection:
        connection.call(body)
    if as_json:
        print_json(**{what.split()[0]: {"name": name}})
    elif cancelled:
        note(f"{what} {name} is cancelled")
    else:
        say(name)


@click.command()
@json_option
def reservations(as_json: bool) -> None:
    """List reservations that are not over, the earliest first."""
    with records() as connection:
        found = ask(connection, m.ReservationsQuery())
    if as_json:
        print_json(reservations=found)
        return
    rows = [
        (
            r["name"],
            r["processors"],
            clock(r["start_s"]),
            clock(r["end_s"]),
            r["user"] or "anybody",
            " ".join(map(str, r["running"])) or "-",
            " ".join(map(str, r["waiting"])) or "-",
        )
        for r in found
    ]
    say(table(("NAME", "PROCS", "BEGINS", "ENDS", "FOR", "RUNNING", "WAITING"), rows))


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
        name = name or _new_name("m")
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
        _windows(as_json=as_json)
        return
    _planned(body, "maintenance window", name, cancelled=cancel is not None, as_json=as_json)


def _windows(*, as_json: bool) -> None:
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
