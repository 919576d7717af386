"""Commands round a standby server (docs/standby.md)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click
import msgspec

from dq_client.base import messages as m
from dq_client.base.address import is_remote
from dq_client.base.connection import ask
from dq_client.base.errors import DQError, UsageError
from dq_client.base.home import Home
from dq_client.cli.requests import server as connected
from dq_client.deploy import local
from dq_client.show.output import note, say

if TYPE_CHECKING:
    from dq_client.deploy.standby import StandbyRecord

PATIENCE_S = 300.0  # until a copy is whole: it may be large
TOLD_AFTER_S = 2.0


@click.command("credentials")
def credentials() -> None:
    """Print what dq server standby needs on another machine. Keep the output secret, because it
    gives full control over the cluster."""
    from dq_client.deploy import standby

    say(msgspec.json.encode(standby.introduction_of(Home.default())).decode())


@click.command("standby")
@click.option(
    "--credentials", "source", metavar="FILE",
    help="Output of dq server credentials; - reads it from standard input. Not needed again"
    " in a home that was a standby's before.",
)  # fmt: skip
@click.option("--address", help="Where it will serve; default: beside the way to the server.")
@click.option("--name", help="Name of the standby at the server.  [default: this machine's name]")
@click.option("--sync", is_flag=True, help="Without a second copy no job is acknowledged.")
@click.option("--yes-as-root", is_flag=True, help="Let others reach a standby run by root.")
@click.option("--detach", is_flag=True, help="Return once the copy is whole.")
@click.option(
    "--take-over", is_flag=True,
    help="Become the server without the agents' consent; the old one must be gone for good.",
)  # fmt: skip
def standby(
    source: str | None,
    address: str | None,
    name: str | None,
    sync: bool,
    yes_as_root: bool,
    detach: bool,
    take_over: bool,
) -> None:
    """Follow a server, and take its place if its machine is lost. Needs a DQ_HOME of its own."""
    from dq_client.base.credentials import secret_from
    from dq_client.deploy import standby as kept

    home = Home.default()
    home.create()
    before = kept.kept(home)
    if running := kept.runs(home):
        raise UsageError(f"a standby runs in {home.root} already (pid {running['pid']})")
    if take_over:
        _take_over(home, before)
        return
    if before is None and home.journal.exists():
        raise UsageError(
            f"{home.root} has a journal of its own: give the standby another DQ_HOME, or move that"
            " one away"
        )
    if source is None and before is None:
        raise UsageError("--credentials is needed: dq server credentials prints them")
    told = kept.decode(*secret_from(source)) if source is not None else before.introduction  # type: ignore[union-attr]
    own = address or (before.address if before is not None else kept.own_address(told.address))
    as_root = yes_as_root or (before is not None and before.as_root)
    if os.geteuid() == 0 and is_remote(own) and not as_root:
        raise UsageError(
            "a standby run by root would be a server that others reach: run it as a user, or give"
            " --yes-as-root where root is the only user (a container)"
        )
    called = name or (before.name if before is not None else os.uname().nodename)
    always = sync or (before is not None and before.sync)
    kept.keep(
        home,
        kept.StandbyRecord(
            introduction=told, name=called, address=own, sync=always, as_root=as_root
        ),
    )
    program = ["-m", "dq_server.live.standby.program"]
    if not detach:
        os.environ["DQ_HOME"] = str(home.root)
        os.execv(sys.executable, [sys.executable, *program])  # noqa: S606
    kept.runs_file(home).unlink(missing_ok=True)
    process = local.start(home, "standby", program)
    try:
        _wait_until_whole(home, process)
    except BaseException:
        process.terminate()
        raise
    note(f"the standby {called} (pid {process.pid}) has a whole copy; it would serve at {own}")


def _take_over(home: Home, kept: StandbyRecord | None) -> None:
    if kept is None:
        raise UsageError(f"{home.root} is no standby's, so there is no copy to take over with")
    info = local.start_server(home, ["--take-over", "--address", kept.address])
    note(f"the server {info['pid']} listens at {info['address']}")


def _wait_until_whole(home: Home, process: subprocess.Popen[bytes]) -> None:
    from dq_client.deploy import standby as kept

    begun_s, told = time.monotonic(), False
    while not kept.runs(home).get("whole"):
        took_s = time.monotonic() - begun_s
        if process.poll() is not None:
            raise local.last_words(home, "standby", process.returncode)
        if took_s > PATIENCE_S:
            raise DQError(f"the copy is not whole after {PATIENCE_S:g} s: see log/standby.log")
        if took_s > TOLD_AFTER_S and not told:
            note("copying the journal ...")
            told = True
        time.sleep(0.05)


@click.command("forget")
def forget() -> None:
    """Go on without the standby, which must no longer run."""
    with connected() as connection:
        ask(connection, m.ForgetStandby())
    note("the server has no standby any more")


COMMANDS = (credentials, standby, forget)
