"""The commands on the pages run, in order, in a folder of each page's own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from dq_client.deploy import local
from harness.c_programs import no_fortran, no_libdq, no_scalapack
from harness.live import Live
from harness.pages import Block, blocks
from tests.pages.owners import of
from tests.pages.stages import BEFORE, FILES

pytestmark = [pytest.mark.live, pytest.mark.mpi]

PAGES = [(page, list(found)) for page, found in groupby(of("shell"), lambda block: block.page)]


def script(page: str, found: list[Block]) -> str:
    """The page's commands, each line shown as it is run."""
    parts = [FILES]
    for block in found:
        parts.append(BEFORE[page].get(block.number, ""))
        if block.language == "sh":  # the text of a job's script
            parts.append(f"cat > job.sh <<'EOF'\n{block.text}EOF\ndq submit --wait job.sh\n")
        else:
            parts.append(block.commands())
    return "set -eEo pipefail\ntrap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\n" + "\n".join(parts)


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A home without a cluster; nothing of it is left behind."""
    cluster = Live(tmp_path_factory.mktemp("dq") / "home")
    yield cluster
    cluster.clear()


@pytest.mark.parametrize(("page", "found"), PAGES, ids=[page for page, _ in PAGES])
def test_the_commands_of_a_page_run(
    live: Live, page: str, found: list[Block], tmp_path: Path
) -> None:
    if page == "c.md" and (why := no_libdq() or no_scalapack() or no_fortran()):
        pytest.skip(why)
    write_files(page, tmp_path)
    done = subprocess.run(
        ["bash", "-c", script(page, found)],
        cwd=tmp_path, env=live.env, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    if local.leftovers(live.home):
        rows = json.loads(live.dq("jobs", "--all", "--json"))["jobs"]
        failed = [
            (row["id"], row["name"], row["reason"]) for row in rows if row["state"] == "failed"
        ]
        assert not failed, failed
    if page == "nodes.md":
        table_is_as_printed(done.stdout, next(b for b in found if b.number == 1))


def write_files(page: str, folder: Path) -> None:
    """The files that the page itself prints: their first line names them."""
    for block in blocks(page):
        name = block.text.partition(";")[0].removeprefix("# ")
        if block.language == "toml" and name.endswith(".toml"):
            (folder / name).write_text(block.text)


def table_is_as_printed(said: str, block: Block) -> None:
    """What follows the first command is what was printed, but for the width of columns."""
    rows = [line.split() for line in block.text.splitlines() if not line.startswith("$")]
    printed = [line.split() for line in said.splitlines()]
    assert all(row in printed for row in rows), said
