"""`dq sim`: the scheduler without a cluster. Each subcommand is imported only when it is used."""

from __future__ import annotations

import sys
from importlib import import_module

import click

# name -> "module:attribute" of its click command
COMMANDS = {
    "forecast": "dq_server.sim.forecast_command:command",
    "import": "dq_server.sim.import_command:import_",
    "plan": "dq_server.sim.plan_command:plan",
    "replay": "dq_server.sim.replay_command:replay",
    "run": "dq_server.sim.run_command:run",
    "shadow": "dq_server.sim.shadow_command:shadow",
    "study": "dq_server.sim.study.command:study",
}


class LazyGroup(click.Group):
    """Knows the names of its commands and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, attribute = COMMANDS[cmd_name].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup)
def sim() -> None:
    """Ask what jobs would gain, with the code that schedules live."""
    if "" not in sys.path:
        sys.path.append("")  # a policy of one's own may lie in the current folder
