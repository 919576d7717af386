"""`dq quotas`: what users and groups may have, and have."""

from __future__ import annotations

from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.cli.requests import cluster_now, json_option, records
from dq_client.show.output import note, print_json, say, table, terminal_width
from dq_client.show.report.text import seconds


@click.command()
@click.option("--user", help="Only what bounds this user: his own quota, and those of his groups.")
@json_option
def quotas(user: str | None, as_json: bool) -> None:
    """Show quotas: limits and usage of users and groups."""
    with records() as connection:
        found, now = ask(connection, m.QuotasQuery()), cluster_now(connection)
    rows = found if user is None else _of_user(found, user)
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
            None if row["window_s"] is None else seconds(row["window_s"]),
            None if row["free_s"] is None else seconds(row["free_s"] - now),
        )
        for row in rows
    ]
    say(table(head, cells, width=terminal_width(), shortened="NAME"))


def _of_user(rows: list[dict[str, Any]], user: str) -> list[dict[str, Any]]:
    """His own, or that of everybody if he has none, and those of his groups."""
    bare = [row for row in rows if row["kind"] == "user"]
    own = [row for row in bare if row["name"] == user] or [r for r in bare if r["name"] == "*"]
    return own + [row for row in rows if user in row["members"]]


def _of(used: Any, most: float | None) -> str:
    return str(used) if most is None else f"{used} of {most:g}"
