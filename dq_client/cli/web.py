"""`dq web`: the live page."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import click

from dq_client.base.errors import NotFound, UsageError
from dq_client.base.home import Home
from dq_client.cli.requests import json_option
from dq_client.deploy import sidecars
from dq_client.show.output import note, print_json, say

NEEDS = ("starlette", "uvicorn", "prometheus_client")


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(1, 65535), help="Of this machine.  [default: any free]")
@click.option("--detach", is_flag=True, help="Return once the page is there.")
@json_option
@click.pass_context
def web(context: click.Context, port: int | None, detach: bool, as_json: bool) -> None:
    """Show the cluster live in a browser: nodes over time, jobs, decisions (docs/web.md).

    Prints the page's address, which gives read access only. Only this machine can reach
    it. It ends with dq down, with dq web stop, or without --detach with Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    home = Home.default()
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        raise UsageError(f"dq web needs {', '.join(missing)}: pip install 'dq-mpi[web]'")
    home.server()  # or say that there is none
    known = sidecars.running(home, "web")
    if known is not None and port in (None, known["port"]):
        _say(known["url"], as_json=as_json)
        note("the page was there already: dq web stop ends it")
        return
    if known is not None:
        raise UsageError(f"the page is served on port {known['port']} already: dq web stop first")
    if detach:
        _say(sidecars.start_page(home, port or 0)["url"], as_json=as_json)
        return
    from dq_client.show.web import process

    def ready(url: str) -> None:
        _say(url, as_json=as_json)
        note("Ctrl-C ends it")

    process.serve(home, port or 0, ready)
    note("the page has ended")


def _say(url: str, *, as_json: bool) -> None:
    if as_json:
        print_json(url=url)
    else:
        say(url)


@web.command("stop")
def stop() -> None:
    """End the page."""
    if not sidecars.stop(Home.default(), "web"):
        raise NotFound("no page of this cluster runs here")
    note("the page has ended")


@web.command("status")
@json_option
def status(as_json: bool) -> None:
    """Show the page's address and process."""
    info: dict[str, Any] | None = sidecars.running(Home.default(), "web")
    if info is None:
        raise NotFound("no page of this cluster runs here: dq web starts one")
    if as_json:
        print_json(url=info["url"], pid=info["pid"], port=info["port"])
    else:
        say(f"{info['url']}  (pid {info['pid']})")
