"""`dq audit`: who asked for what."""

from __future__ import annotations

import time
from typing import Any

import click

from dq_client.base.audit import lines
from dq_client.base.errors import NoServer, UsageError
from dq_client.base.home import Home
from dq_client.base.values import parse_time
from dq_client.cli.requests import json_option
from dq_client.show.output import print_json, say, table, terminal_width


@click.command()
@click.option("--user", help="Only what this user asked for.")
@click.option("--since", metavar="TIME", help="Only requests within this time: 30m, 2h, 1d.")
@click.option("--job", type=click.IntRange(1), metavar="ID", help="Only what concerns this job.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the last N lines.")
@json_option
def audit(
    user: str | None, since: str | None, job: int | None, limit: int | None, as_json: bool
) -> None:
    """Requests with user, address and answer, oldest first; also after dq down."""
    oldest_s = time.time() - parse_time("--since", since) if since is not None else 0.0
    home = Home.default()
    try:
        found = [
            line
            for line in lines(home.audit)
            if line["time_s"] >= oldest_s
            and (user is None or line["user"] == user)
            and (job is None or line["job"] == job)
        ]
    except FileNotFoundError:
        raise NoServer(f"no server has run in {home.root}: start one with dq up") from None
    except OSError as e:
        raise UsageError(f"the audit log cannot be read: {e}") from e
    found = found[-limit:] if limit is not None else found
    if as_json:
        print_json(lines=found)
        return
    head = ("TIME", "USER", "ROLE", "KEY", "FROM", "REQUEST", "JOB", "ANSWER", "DETAILS")
    say(table(head, [_row(line) for line in found], width=terminal_width(), shortened="DETAILS"))


def _row(line: dict[str, Any]) -> tuple[object, ...]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(line["time_s"]))
    often = f"{line['times']} times" if line["times"] > 1 else ""
    details = "; ".join(word for word in (often, line["why"], line["text"]) if word)
    who = tuple(line[name] or "-" for name in ("user", "role", "key", "from", "request", "job"))
    return when, *who, line["answer"] or "later", details
