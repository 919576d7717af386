"""Commands that show jobs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import click

from dq_client.base import messages as m
from dq_client.base.connection import ask
from dq_client.base.errors import DQError, NoServer, UsageError, known_words
from dq_client.base.home import Home
from dq_client.base.states import ENDED, NOT_STARTED
from dq_client.base.values import parse_time
from dq_client.cli.requests import JobId, cluster_now, json_option, records
from dq_client.show.output import (
    clock,
    note,
    print_json,
    say,
    say_coloured,
    table,
    terminal_width,
)
from dq_client.show.report.text import seconds, share, size

ENDED_SHOWN = 10  # of `dq jobs` unless told otherwise
STATES = ("held", "waiting", "queued", "starting", "running", "killing", "restarting", *ENDED)


@click.command()
@click.option(
    "--active/--all", default=None,
    help="Without, or with, all jobs that have ended.  [default: with the last 10 of them]",
)  # fmt: skip
@click.option("--state", metavar="STATE,...", help="Only jobs in these states, as failed,killed.")
@click.option("--user", help="Only this user's jobs.")
@click.option("--since", metavar="TIME", help="Only jobs submitted within this time: 30m, 2h, 1d.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the last N of them.")
@json_option
def jobs(active: bool | None, as_json: bool, limit: int | None, **which: str | None) -> None:
    """List jobs: those that run, then the queue, then the last that have ended.

    With --json all of them, oldest first.
    """
    wanted = chosen(**which)
    with records() as connection:
        now = cluster_now(connection)
        found = [j for j in ask(connection, m.JobsQuery(bool(active))) if wanted(j, now)]
    found = found[-limit:] if limit is not None else found
    if as_json:
        print_json(jobs=found)
        return
    few = active is None and limit is None and not any(which.values())
    shown, left_out = in_order(found, ENDED_SHOWN if few else len(found))
    say_jobs(shown, now)
    if left_out:
        note(f"{left_out} earlier jobs have ended: dq jobs --all")


def in_order(found: list[dict[str, Any]], ended_shown: int) -> tuple[list[dict[str, Any]], int]:
    """Jobs that run, those that wait, the last so many that have ended; and how many that leaves.

    Each of the three oldest first.
    """
    ended = [j for j in found if j["state"] in ENDED]
    active = [j for j in found if j["state"] not in ENDED]
    active.sort(key=lambda j: j["state"] in NOT_STARTED)  # stable
    left_out = max(0, len(ended) - ended_shown)
    return active + ended[left_out:], left_out


def say_jobs(found: list[dict[str, Any]], now: float) -> None:
    """Print the table of `dq jobs`; `now`: the cluster's time."""
    rows = []
    for j in found:
        end = j["end_s"] or now
        took = seconds(end - j["start_s"]) if j["start_s"] else "-"
        size = j["processors"] if j["state"] not in NOT_STARTED else None
        name = j["name"] if j.get("array") is None else f"{j['name']}[{j['array_index']}]"
        rows.append((j["id"], name, j["kind"], j["state"], size, j["sweet_spot"], took))
    head = ("ID", "NAME", "KIND", "STATE", "PROCS", "SWEET SPOT", "RAN")
    lines = table(head, rows, width=terminal_width(), shortened="NAME").split("\n")
    say(lines[0])
    say_coloured(lines[1:], [row[3] for row in rows])


def chosen(
    state: str | None, user: str | None, since: str | None
) -> Callable[[dict[str, Any], float], bool]:
    """Which jobs the options --state, --user and --since choose, at a time of the cluster."""
    states = state.split(",") if state is not None else []
    for word in states:
        if word not in STATES:
            raise UsageError(f"--state {word}: no such state; {known_words(word, STATES)}")
    since_s = parse_time("--since", since) if since is not None else float("inf")

    def wanted(job: dict[str, Any], now: float) -> bool:
        mine = user is None or job["user"] == user
        return mine and (not states or job["state"] in states) and job["submit_s"] >= now - since_s

    return wanted


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@json_option
def job(job_id: int, as_json: bool) -> None:
    """Show one job and the sizes it has run on; or an array and the states of its jobs."""
    from dq_client.cli.logs import more_about  # the other commands here need none
    from dq_client.show.job_output import last_errors  # the other commands here need none

    with records() as connection:
        view = ask(connection, m.JobQuery(job_id))
        failed = view["state"] == "failed" and "jobs" not in view and not as_json
        errors = last_errors(connection, view["id"]) if failed else []
    if as_json:
        # Twice, at the top level and under `job`: scripts read both, so both stay until schema 2.
        print_json(**view, job=view)
        return
    if "jobs" in view:
        _show_array(view)
    else:
        _show_job(view)
    if errors:
        say("\nits last lines on stderr:")
        say("\n".join(f"  {line}" for line in errors))
    if failed:
        note(more_about(view["id"]))


def _show_job(view: dict[str, Any]) -> None:
    for key in ("id", "name", "kind", "state", "processors", "nodes", "legal_sizes", "reason"):
        value = "-" if view[key] is None else view[key]
        if key == "nodes" and not value and view.get("places"):
            key, value = "ran on", sorted(view["places"][-1]["nodes"])  # it holds none any more
        if key == "kind" and _was_never_asked(view):
            value = f"{value}, but it came to no remap point: its size was fixed"
        _line(key, " ".join(map(str, value)) if isinstance(value, list) else value)
    if len(view.get("legal_grids", ())) > len(view["legal_sizes"]):  # a size has several
        _line("legal_grids", " ".join(map(grid_word, view["legal_grids"])))
    for key in ("submit_s", "start_s", "end_s"):
        _line(key[:-2], clock(view[key]))
    _line("user", view["user"] or "-")
    _line("command", shlex.join(view["argv"]))
    # A job that ended under an earlier version is shown as that version has kept it.
    for key, name in (("cwd", "folder"), ("output", "output"), ("error", "errors")):
        if view.get(key):
            _line(name, view[key])
    if view["exit_code"] is not None:
        _line("exit code", view["exit_code"])
    if view.get("output_lost_bytes"):
        lost = f"{view['output_lost_bytes']} bytes of it are lost: dq why {view['id']}"
        _line("output", lost)
    if view.get("array") is not None:
        _line("array", f"index {view['array_index']} of array {view['array']}")
    if view.get("retries_max"):
        _line("retries", f"{view['retries']} of {view['retries_max']}")
    if view.get("attached"):
        _line("attached", "its first ranks were started by mpiexec, and write to its terminal")
    if view["protection"]:
        _line("protection", protection_line(view))
    if view["scheduled"]:
        say()
        say(scheduled_table(view["scheduled"]))
    if view["sizes"]:
        say()
        say(sizes_table(view["sizes"]))
    if view.get("usage"):
        _show_usage(view["usage"], view)


def _was_never_asked(view: dict[str, Any]) -> bool:
    """Whether a job that might have been resized has ended without a point at which it could be."""
    ran = view["state"] in ENDED and view["start_s"] is not None
    return ran and view["kind"] == "malleable" and not view["remap_points"]


def _show_usage(usage: dict[str, Any], view: dict[str, Any]) -> None:
    """CPU time and memory, then those of each rank."""
    busy = "" if usage["cpu"] is None else f", {usage['cpu']:.2f} of {view['processors']} busy"
    say()
    _line("CPU time", f"{seconds(usage['cpu_s'])}{busy}")
    now = "" if usage["memory"] is None else f"{size(usage['memory'])}, "
    asked = f", {size(view['memory'])} asked for each processor" if view["memory"] else ""
    _line("memory", f"{now}at most {size(usage['memory_max'])}{asked}")
    if usage["ranks"]:
        several = len({rank["world"] for rank in usage["ranks"]}) > 1
        rows = [
            (f"{r['world']}.{r['rank']}" if several else r["rank"], r["node"], share(r["cpu"]),
             size(r["memory"]))
            for r in usage["ranks"]
        ]  # fmt: skip
        say(table(("RANK", "NODE", "BUSY", "MEMORY"), rows))


def _show_array(view: dict[str, Any]) -> None:
    ids = view["jobs"]
    _line("id", f"{view['id']} (an array: jobs {ids[0]} to {ids[-1]})")
    for key in ("name", "kind", "state", "processors"):
        _line(key, view[key])
    _line("jobs", ", ".join([f"{view['left']} not ended", *(
        f"{count} {end}" for end, count in view["ended"].items()
    )]))  # fmt: skip
    if view["at_most"]:
        _line("at once", f"at most {view['at_most']}")
    for key in ("submit_s", "start_s", "end_s"):
        _line(key[:-2], clock(view[key]))
    _line("user", view["user"] or "-")
    _line("command", shlex.join(view["argv"]))
    _line("folder", view["cwd"])


def _line(name: str, value: object) -> None:
    say(f"{name + ':':14}{value}".rstrip())


def protection_line(view: dict[str, Any]) -> str:
    """The line of `dq job` about protection: kind, restarts, copies and their cost."""
    p = view["protection"]
    line = f"{p['how']}, {view['restarts']} of {p['restarts_max']} restarts, {p['copies']} copies"
    if p["copies"]:
        mib = p["bytes"] / (1 << 20)
        line += f" ({p['copies_total_s']:.3g} s), the last of iteration {p['step']}: {mib:.4g} MiB"
    return line + (f"; failing: {p['error']}" if p["error"] else "")


def scheduled_table(scheduled: dict[str, Any]) -> str:
    """The scheduled steps of an evolution profile; > marks the current one."""
    rows, at_s = [], scheduled["start_s"]
    for step, (duration_s, processors) in enumerate(scheduled["steps"]):
        mark = ">" if step == scheduled["step"] else ""
        rows.append((mark, step + 1, clock(at_s), seconds(duration_s), processors))
        at_s += duration_s
    return table(("", "STEP", "SCHEDULED", "FOR", "PROCS"), rows)


def grid_word(grid: list[int]) -> str:
    """A grid as users type it: `2x4`."""
    return f"{grid[0]}x{grid[1]}"


def sizes_table(sizes: list[dict[str, Any]]) -> str:
    """The stays of a job, with the measurements and the decision of each."""
    head = ("SIZE", "GRID", "ITERATIONS", "ITERATION s", "REDISTRIBUTION s", "DECISION", "REASON")
    rows = [
        (
            s["processors"],
            grid_word(s["grid"]),
            s["iterations"] or None,
            s["iteration_time_s"],
            s["redistribution_time_s"],
            s["decision"],
            s["reason"],
        )
        for s in sizes
    ]
    return table(head, rows)


@click.command()
@click.argument("job_id", type=JobId(), metavar="ID")
@click.option(
    "--forecast/--no-forecast", default=None,
    help="Simulate when a queued job will start.  [default: do, unless --json is given]",
)  # fmt: skip
@json_option
def why(job_id: int, forecast: bool | None, as_json: bool) -> None:
    """Explain why a job is where it is, how it got there, and when it will start."""
    start, told = None, ""
    forecast = not as_json if forecast is None else forecast
    with records() as connection:
        view = ask(connection, m.WhyQuery(job_id))
        if forecast and view["state"] == "queued":
            start, told = _forecast(view["job"], cluster_now(connection))
    if as_json:
        print_json(**view, **({"forecast": start} if forecast else {}))
        return
    say(f"job {view['job']} is {view['state']}")
    for reason in [*view["now"], *([{"text": told}] if told else [])]:
        say(f"  {reason['text']}")
    if view["story"]:
        say("so far:")
    for line in view["story"]:
        say(f"  {clock(line['time_s'])}  {line['what']:10} {line['text']}")


def _forecast(job_id: int, now_s: float) -> tuple[dict[str, float | None] | None, str]:
    """When a queued job starts, and the same in words; None and why it is not known."""
    from dq_client.show.forecast import DRAWS, start_forecasts  # starts a process: only if wanted

    home = Home.default()
    try:
        home.server()
        found = start_forecasts(home, now_s).get(job_id)
    except NoServer:  # it starts once there is one
        return None, ""
    except DQError as e:
        return None, str(e)
    if found is None:  # it has started meanwhile
        return None, ""
    least, middle, most = (found[key] for key in ("earliest_s", "median_s", "latest_s"))
    if middle is None:
        return found, f"it does not start in most of {DRAWS} simulations"
    if most is not None and most < 0.5:  # the jobs that it waits for are overdue
        return found, f"it may start at any moment ({DRAWS} simulations)"
    until = "never" if most is None else seconds(most)
    return found, (
        f"it starts in about {seconds(middle)}, with a chance of 80 % between {seconds(least)} and"
        f" {until} ({DRAWS} simulations)"
    )
