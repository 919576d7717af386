"""The version is written in one place, and everything that tells it reads it from there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from dq_client import __version__
from dq_client.cli.main import main

ROOT = Path(__file__).parents[2]


def test_the_package_takes_it_from_dq_client() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["hatch"]["version"]["path"] == "dq_client/__init__.py"


def test_no_other_file_holds_a_copy() -> None:
    copies = [
        str(path.relative_to(ROOT))
        for room in ("dq_client", "dq_server", "resize_lib", "apps")
        for path in (ROOT / room).rglob("*.py")
        if re.search(rf"[\"']{re.escape(__version__)}[\"']", path.read_text())
    ]
    assert copies == ["dq_client/__init__.py"]


def test_the_changelog_has_a_section_for_it() -> None:
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_command_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"dq, version {__version__}\n"
