"""`dq acct`: who has used what."""

from __future__ import annotations

import csv
import sys
from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.base.errors import UsageError
from dq_client.cli.job_views import chosen
from dq_client.cli.requests import json_option, records
from dq_client.show.output import print_json, say, table, terminal_width
from dq_client.show.report.accounting import FIELDS, SUMS, summed, used
from dq_client.show.report.text import seconds, share, size


@click.command()
@click.option("--by", type=click.Choice(["user", "name", "kind"]), help="Sums instead of jobs.")
@click.option("--state", metavar="STATE,...", help="Only jobs in these states, as done,failed.")
@click.option("--user", help="Only this user's jobs.")
@click.option("--since", metavar="TIME", help="Only jobs submitted within this time: 30m, 2h, 1d.")
@click.option("--csv", "as_csv", is_flag=True, help="One line of comma-separated values each.")
@json_option
def acct(by: str | None, as_csv: bool, as_json: bool, **which: str | None) -> None:
    """Usage of jobs: processor-seconds, times, resizes, CPU, memory; also after dq down."""
    if as_csv and as_json:
        raise UsageError("give either --csv or --json")
    wanted = chosen(**which)
    with records() as connection:
        timeline = ask(connection, m.TimelineQuery())
        found = [j for j in ask(connection, m.JobsQuery()) if wanted(j, timeline["now_s"])]
    lines = {line["id"]: line for line in timeline["jobs"]}
    rows = [used(job, lines.get(job["id"])) for job in found]
    fields = FIELDS if by is None else (by, *SUMS)
    if by is not None:
        rows = summed(rows, by)
    if as_json:
        print_json(**({"jobs": rows} if by is None else {"sums": rows, "by": by}))
    elif as_csv:
        out = csv.DictWriter(sys.stdout, fields, lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    else:
        say(_jobs(rows) if by is None else _sums(rows, by))


def _jobs(rows: list[dict[str, Any]]) -> str:
    head = ("ID", "NAME", "USER", "STATE", "WAITED", "RAN", "PROC-HOURS", "MOST", "RESIZES",
            "EFFICIENCY", "CPU", "PEAK MEM")  # fmt: skip
    cells = [
        (
            *(
                r["id"],
                r["name"],
                r["user"],
                r["state"],
                seconds(r["wait_s"]),
                seconds(r["run_s"]),
            ),
            *(_hours(r), r["processors_max"], r["expands"] + r["shrinks"], share(r["efficiency"])),
            *(share(r["cpu_efficiency"]), size(r["memory_max"])),
        )
        for r in rows
    ]
    return table(head, cells, width=terminal_width(), shortened="NAME")


def _sums(rows: list[dict[str, Any]], by: str) -> str:
    head = (by.upper(), "JOBS", "DONE", "FAILED", "KILLED", "PROC-HOURS", "MEAN WAIT", "EFFICIENCY")
    cells = [
        (
            *(r[by], r["jobs"], r["done"], r["failed"], r["killed"], _hours(r)),
            *(seconds(r["wait_s"] / r["jobs"]), share(r["efficiency"])),
        )
        for r in rows
    ]
    return table(head, cells, width=terminal_width(), shortened=by.upper())


def _hours(row: dict[str, Any]) -> str:
    return f"{row['processor_s'] / 3600:.4f}"
