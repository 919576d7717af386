"""`dq quotas`: what users and groups may have, and have."""

from __future__ import annotations

from typing import Any

import click

from dq_client import messages as m
from dq_client.cli.output import duration, note, print_json, say, table, terminal_width
from dq_client.cli.requests import ask, cluster_now, json_option, records


@click.command()
@click.option("--user", help="Only what bounds this user: his own quota, and those of his groups.")
@json_option
def quotas(user: str | None, as_json: bool) -> None:
    """Show quotas: what users and groups may hold, run and use, and do."""
    with records() as connection:
        found, now = ask(connection, m.QuotasQuery()), cluster_now(connection)
    rows = [row for row in found if user is None or user in (row["members"] or [row["name"]])]
    if as_json:
        print_json(quotas=rows)
        return
    if not rows:
        note("no quota" if user is None else f"no quota bounds user {user}")
        return
    head = ("", "NAME", "PROCESSORS", "JOBS", "WAITING", "IN SYSTEM", "HOURS", "WINDOW", "FREE IN")
    cells = [
        (
            *(row["kind"], row["name"]),
            _of(row["processors"], row["processors_max"]),
            _of(row["jobs"], row["jobs_max"]),
            row["waiting"],
            _of(row["queued"], row["queued_max"]),
            "-" if row["hours"] is None else _of(f"{row['hours']:.2f}", row["hours_max"]),
            "-" if row["window_s"] is None else duration(row["window_s"]),
            "-" if row["free_s"] is None else duration(row["free_s"] - now),
        )
        for row in rows
    ]
    say(table(head, cells, width=terminal_width(), shortened="NAME"))


def _of(used: Any, most: float | None) -> str:
    return str(used) if most is None else f"{used} of {most:g}"
