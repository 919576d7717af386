"""`dq hooks`: call commands and URLs when a job has ended or a node is lost."""

from __future__ import annotations

from pathlib import Path

import click

from dq_client.base.errors import NotFound, UsageError
from dq_client.base.home import Home
from dq_client.cli.requests import json_option
from dq_client.deploy import sidecars
from dq_client.show.output import note, print_json, say


@click.group()
def hooks() -> None:
    """Call commands and URLs when a job has ended or a node is lost (docs/hooks.md)."""


@hooks.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--detach", is_flag=True, help="Return once they follow the cluster.")
def run(file: Path, detach: bool) -> None:
    """Call the hooks of FILE from now on, or from where they were; Ctrl-C ends it."""
    from dq_client.show.hooks import config

    home = Home.default()
    found = config.read(file)  # before anything is started
    home.server()
    if (known := sidecars.running(home, "hooks")) is not None:
        raise UsageError(f"hooks of {known['file']} run already: dq hooks stop first")
    if detach:
        sidecars.start_hooks(home, file.absolute())
        note(f"{len(found)} hooks follow the cluster: log/hooks.err has what fails")
        return
    from dq_client.show.hooks import process

    note("Ctrl-C ends it")
    process.serve(home, found, file)


@hooks.command("stop")
def stop() -> None:
    """Stop calling hooks; events until the next start are delivered then."""
    if not sidecars.stop(Home.default(), "hooks"):
        raise NotFound("no hooks of this cluster run here")
    note("the hooks have ended")


@hooks.command("status")
@json_option
def status(as_json: bool) -> None:
    """Show which hooks run, and how each of them stands."""
    info = sidecars.running(Home.default(), "hooks")
    if info is None:
        raise NotFound("no hooks of this cluster run here: dq hooks run FILE starts them")
    if as_json:
        print_json(pid=info["pid"], file=info["file"], hooks=info["hooks"])
        return
    say(f"{info['file']}  (pid {info['pid']})")
    for hook in info["hooks"]:
        told = f"calls: {hook['delivered']}, failed tries: {hook['failed_tries']}"
        if hook["given_up"]:
            told += f", given up: {hook['given_up']}"
        if hook["waiting"]:
            told += f", to come: {hook['waiting']}"
        if hook["trouble"]:
            told += f"; last trouble: {hook['trouble']}"
        say(f"  {hook['name']}: {told}")
