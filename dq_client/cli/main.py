"""The command line `dq`. The module of a command is imported only when that command is used."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from dq_client import __version__
from dq_client.base.errors import DQError, UsageError
from dq_client.show.output import note

INTERRUPTED = 130

# command -> (module, attribute, one line for `dq --help`)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("demo", "demo", "One command: a cluster, a growing job, its sweet spot, a report."),
    "up": ("cluster_commands", "up", "Start a cluster: this machine, or hosts over ssh."),
    "down": ("cluster_commands", "down", "Stop the cluster."),
    "server": ("cluster_commands", "server", "The server alone: start, stop, status."),
    "agent": ("agent_commands", "agent", "Node agents alone: start, run, stop, status."),
    "doctor": ("doctor", "doctor", "Try what this machine and its MPI can do."),
    "submit": ("submit", "submit", "Submit a job."),
    "run": ("run", "run", "Run a program as a job: its output here, its exit code as ours."),
    "alloc": ("alloc", "alloc", "Open a shell with processors, and mpiexec on them."),
    "check": ("check", "check", "Find habits in a program that a resize would break."),
    "verify": ("verify", "verify", "Run a program with and without resizes, and compare."),
    "recipe": ("recipe", "recipe", "Recipes for programs with checkpoints; does one fit?"),
    "jobs": ("job_views", "jobs", "List jobs."),
    "job": ("job_views", "job", "Show one job."),
    "nodes": ("node_commands", "nodes", "List nodes."),
    "node": ("node_commands", "node", "Empty a node, remove it, take it into use again."),
    "why": ("job_views", "why", "Explain why a job is where it is."),
    "logs": ("logs", "logs", "Show a job's output."),
    "kill": ("job_commands", "kill", "Kill a job."),
    "hold": ("job_commands", "hold", "Keep a queued job from starting."),
    "release": ("job_commands", "release", "Let a held job start."),
    "edit": ("job_commands", "edit", "Change walltime or priority of a job that waits."),
    "resize": ("job_commands", "resize", "Bring a job to a size at its next remap point."),
    "pool": ("pool_command", "pool", "Nodes that are asked for and given back, and why."),
    "reserve": ("reserve_commands", "reserve", "Keep processors for later, or cancel that."),
    "reservations": ("reserve_commands", "reservations", "List reservations."),
    "maintenance": ("reserve_commands", "maintenance", "Empty nodes for a while, later."),
    "watch": ("watch", "watch", "Follow jobs as they grow and shrink."),
    "top": ("top", "top", "Follow jobs, nodes and decisions on the whole terminal."),
    "web": ("web", "web", "Show the cluster live in a browser."),
    "hooks": ("hooks", "hooks", "Call commands and URLs when a job ends or a node is lost."),
    "backup": ("upkeep_commands", "backup", "Write journal, keys and configuration to a file."),
    "restore": ("upkeep_commands", "restore", "Put a backup into a stopped home."),
    "completion": ("completion", "completion", "Print a script: words completed by a shell."),
    "man": ("man", "man", "Write manual pages."),
    "report": ("report", "report", "Write a report as one HTML file."),
    "acct": ("acct", "acct", "Account for what jobs have used."),
    "quotas": ("quotas", "quotas", "Show what users may have, and what they have."),
    "audit": ("audit", "audit", "Show who asked for what, from where, with the answer."),
}
PLUGIN_HELP = {"sim": "Simulate: the same scheduler on a workload, a plan, a journal."}


class Commands(click.Group):
    """A group that knows its commands' names without loading them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All commands, in the order of use."""
        return [*COMMANDS, *PLUGIN_HELP]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of one command; None if there is no such command."""
        if cmd_name in COMMANDS:
            module, attribute, _ = COMMANDS[cmd_name]
            command: click.Command = getattr(import_module(f"dq_client.cli.{module}"), attribute)
            return command
        from importlib.metadata import entry_points  # half of what `dq --version` costs

        for entry in entry_points(group="dq.commands"):
            if entry.name == cmd_name:
                plugin: click.Command = entry.load()
                return plugin
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As of every group; the error names the commands that may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as e:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx), n=3)
            if not close:
                raise
            words = " or ".join(f"dq {name}" for name in close)
            raise click.UsageError(f"{e.format_message()} Did you mean {words}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list in `dq --help`, from the table above: importing every command would be slow."""
        rows = [(name, text) for name, (_, _, text) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*rows, *PLUGIN_HELP.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dq")
def cli() -> None:
    """DQ grows and shrinks running MPI jobs.

    State lives under $DQ_HOME. stdout is data, stderr is notes; every command that prints data
    takes --json. Exit codes: 0 done, 1 the job failed, 2 usage, 3 no server, 4 refused,
    5 not found, 6 time-out, 130 interrupted.
    """


def main(argv: list[str] | None = None) -> Any:
    """Entry point: errors become one line on stderr and an exit code."""
    try:
        result = cli.main(args=argv, prog_name="dq", standalone_mode=False)
        sys.stdout.flush()
    except DQError as e:
        note(f"dq: {e}")
        return _leave(e.exit_code)
    except click.exceptions.Abort:
        return _leave(INTERRUPTED)
    except click.ClickException as e:
        context = getattr(e, "ctx", None)
        where = context.command_path if context is not None else "dq"
        text = e.format_message()  # the whole help where only a subcommand is missing
        note(text if text.startswith("Usage:") else f"{where}: {text}")
        return _leave(e.exit_code)
    except KeyboardInterrupt:
        return _leave(INTERRUPTED)
    except BrokenPipeError:
        # The reader has closed the pipe (`dq jobs | head`): an error message would be noise.
        _forget_stdout()
        return _leave(0)
    except OSError as e:
        # An error that no command handled, a full disk under stdout for example: no traceback.
        note(f"dq: {e.filename or 'the output'}: {e.strerror or e}")
        try:
            sys.stdout.flush()
        except OSError:
            _forget_stdout()
        return _leave(UsageError.exit_code)
    return _leave(result if isinstance(result, int) else 0)


def _forget_stdout() -> None:
    """Send buffered output to /dev/null: the interpreter flushes at its end and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _leave(code: int) -> int:
    sys.exit(code)


if __name__ == "__main__":
    main()
