"""`dq top`: the whole terminal."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from dq_client.base.errors import UsageError
from dq_client.base.home import Home
from dq_client.show.output import note
from dq_client.show.report.live_view import is_drawable


@click.command()
def top() -> None:
    """Follow jobs, nodes and decisions on the whole terminal; q ends.

    Enter shows more of a job: sizes, decisions (w), output (o, e). / filters, s sorts, r reverses,
    a changes between active, waiting, ended and all jobs, n between nodes and decisions where there
    is no room for both, t between light and dark.
    """
    if not (is_drawable(sys.stdout) and sys.stdin.isatty()):
        raise UsageError("dq top needs a terminal: use dq watch, or dq jobs")
    if find_spec("textual") is None:
        raise UsageError("dq top needs textual: pip install 'dq-mpi[top]'")
    home = Home.default()
    home.server()  # or say that there is none
    from dq_client.show.top.app import show

    if why := show(home):
        note(why)
