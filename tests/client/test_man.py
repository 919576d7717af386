"""`dq man`: a page for each command, which man can read."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dq_client.base.errors import UsageError
from dq_client.cli.main import cli
from dq_client.cli.man import commands, man, page

CONTEXTS = list(commands(click.Context(cli, info_name="dq")))


def test_each_command_has_a_page(tmp_path: Path) -> None:
    CliRunner().invoke(man, [str(tmp_path)], standalone_mode=False, catch_exceptions=False)
    written = {path.stem for path in (tmp_path / "man1").glob("*.1")}
    assert written == {context.command_path.replace(" ", "-") for context in CONTEXTS}
    assert {"dq", "dq-submit", "dq-node-drain", "dq-sim-run", "dq-hooks-run"} <= written
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(UsageError, match="file"):
        CliRunner().invoke(
            man, [str(in_the_way / "x")], standalone_mode=False, catch_exceptions=False
        )


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path)
def test_a_page_has_every_option_and_groff_takes_it(context: click.Context) -> None:
    text = page(context)
    for parameter in context.command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.opts[0].replace("-", "\\-") in text
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"], input=text, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    shown = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)  # bold
    shown = shown.replace("\N{HYPHEN}", "-").replace("\N{MINUS SIGN}", "-")
    assert context.command_path in " ".join(shown.split())
