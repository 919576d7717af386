"""`dq sim replay`: a live journal again, with the same code; or its jobs under another policy."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dq_server.core.model.errors import SchedulerError
from dq_server.core.settings import named_config
from dq_server.sim.engine import Simulation
from dq_server.sim.errors import WorkloadError
from dq_server.sim.journal import Difference, read_journal
from dq_server.sim.journal import replay as handle_again
from dq_server.sim.journal_workload import jobs_of
from dq_server.sim.one_line import InputError, OneLineCommand
from dq_server.sim.output import Run, as_json, as_table, notes_of


@click.command(cls=OneLineCommand)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policies",
    metavar="NAME",
    multiple=True,
    help="Simulate the journal's jobs under this policy; may be given several times.",
)
@click.option("--json", "json_wanted", is_flag=True, help='One JSON object, "schema": 1.')
@click.pass_context
def replay(ctx: click.Context, journal: Path, policies: tuple[str, ...], json_wanted: bool) -> None:
    """Replay the JOURNAL of a server (journal.sqlite in its folder).

    Without --policy every recorded event is handled again and must lead to the recorded actions:
    exit code 0 if all do, 1 at the first that does not. With --policy the journal's jobs, with the
    iteration times that were measured, are simulated as if that policy had been in charge.
    """
    try:
        if policies:
            configs = {policy: named_config(policy) for policy in policies}
            jobs, processors, _ = jobs_of(journal, read_journal(journal))
            runs = []
            for policy, config in configs.items():
                records = Simulation(jobs, processors, config).run()
                runs.append(Run(policy, records, records.metrics()))
            for line in notes_of(jobs.name, runs):
                click.echo(line, err=True)
            click.echo(as_json(jobs.name, processors, runs) if json_wanted else as_table(runs))
            return
        count, difference = handle_again(read_journal(journal))
    except (WorkloadError, SchedulerError) as error:
        raise InputError(str(error)) from error
    click.echo(_as_json(count, difference) if json_wanted else _as_text(count, difference))
    if difference is not None:
        ctx.exit(1)


def _as_text(count: int, difference: Difference | None) -> str:
    if difference is None:
        return f"{count} events replayed, all with the same actions"
    return (
        f"event {difference.seq} ({difference.event}) differs after {count} with the same actions\n"
        f"recorded: {json.dumps(difference.recorded)}\n"
        f"now:      {json.dumps(difference.ours)}"
    )


def _as_json(count: int, difference: Difference | None) -> str:
    body: dict[str, object] = {"schema": 1, "events": count, "same": difference is None}
    if difference is not None:
        body["difference"] = {
            "event": difference.seq,
            "type": difference.event,
            "recorded": difference.recorded,
            "now": difference.ours,
        }
    return json.dumps(body)
