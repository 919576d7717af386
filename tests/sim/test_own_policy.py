"""Policies that do not come with DQ: added up, from a file, from a module, from a package."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dq_server.core.model.errors import ConfigError
from dq_server.core.policies import registry
from dq_server.core.settings import check, named_config
from dq_server.sim.cli import sim

EXAMPLE = Path(__file__).parents[2] / "docs/examples/gentle.py"
GIVES_WAY = EXAMPLE.with_name("least_efficient.py")
LOG = "; MaxProcs: 8\n" + "\n".join(
    f"{k} {10 * k} -1 100 4 -1 -1 4 200 -1 1 1 1 -1 -1 -1 -1 -1" for k in range(1, 9)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The current folder, with a log and the example policy in it."""
    (tmp_path / "log.swf").write_text(LOG)
    shutil.copy(EXAMPLE, tmp_path)
    shutil.copy(GIVES_WAY, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("gentle", None)
    sys.modules.pop("least_efficient", None)
    registry._imported.cache_clear()


def simulated(*options: Any) -> Any:
    return CliRunner().invoke(sim, ["run", "log.swf", "--nodes", "8", "--json", *options])


def test_single_policies_add_up(folder: Path) -> None:
    done = simulated("--malleable", "1", "--policy", "easy+reshape", "--policy", "easy+intensive")
    assert done.exit_code == 0, done.output
    assert [r["policy"] for r in json.loads(done.stdout)["runs"]] == [
        "easy+reshape", "easy+intensive",
    ]  # fmt: skip
    config = named_config("conservative+priority+never")
    assert (config.order, config.start, config.resize, config.grant) == (
        "priority", "conservative", "none", "never",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("easy+conservative", "names two start policies, easy and conservative"),
        ("easy+best", "unknown part 'best' of 'easy+best'"),
        ("conservative+spare", 'needs start = "easy"'),
        ("nowhere:Policy", "'nowhere:Policy' cannot be imported: No module named 'nowhere'; "),
        ("json:dumps", "is not a class derived from one of StartPolicy"),
        ("json:", "cannot be imported"),
    ],
)
def test_what_makes_no_sense_is_one_line(folder: Path, name: str, says: str) -> None:
    done = simulated("--policy", name)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_policy_of_the_current_folder(folder: Path) -> None:
    done = simulated("--malleable", "1", "--policy", "easy+gentle:EvenShare", "--policy", "easy")
    assert done.exit_code == 0, done.output
    ours, easy = json.loads(done.stdout)["runs"]
    assert ours["expands"] > 0
    assert easy["expands"] == 0


def test_its_options_are_a_table_of_the_configuration(folder: Path) -> None:
    (folder / "c.toml").write_text(
        '[scheduler]\npolicy = "easy+gentle:EvenShare"\n[scheduler.gentle]\nslack = -1\n'
    )
    done = simulated("--config", "c.toml")
    assert "slack = -1: 0 or more processors" in done.stderr
    (folder / "c.toml").write_text('[scheduler]\npolicy = "easy"\n[scheduler.mebf]\nspare = 1\n')
    done = simulated("--config", "c.toml")
    assert "unknown setting 'spare' in [scheduler.mebf]; did you mean 'share'?" in done.stderr


def test_a_server_s_configuration_is_simulated(folder: Path) -> None:
    (folder / "ours.toml").write_text('[scheduler]\nstart = "easy"\nresize = "none"\n')
    done = simulated("--config", "ours.toml")
    assert [r["policy"] for r in json.loads(done.stdout)["runs"]] == ["ours"]
    done = simulated("--config", "ours.toml", "--policy", "fcfs")
    assert [r["policy"] for r in json.loads(done.stdout)["runs"]] == ["fcfs"]
    assert "Missing option '--policy'" in simulated().stderr
    assert "no.toml: No such file" in simulated("--config", "no.toml").stderr


def test_a_policy_of_an_installed_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.append("")
    point = EntryPoint("even-share", "gentle:EvenShare", registry.GROUP)
    monkeypatch.setattr(registry, "_offered", lambda: {"even-share": point})
    check(named_config("easy+even-share"))
    with pytest.raises(ConfigError, match=r"unknown start policy 'best'; known: conservative, "):
        check(named_config("even-share").__class__(start="best"))
    with pytest.raises(ConfigError, match="not derived from StartPolicy"):
        check(named_config("easy").__class__(start="even-share"))


@pytest.mark.parametrize("others", ["easy+reshape", "easy"])
def test_who_gives_way_may_be_said_by_another_policy(folder: Path, others: str) -> None:
    """Beside a resize policy, also beside one that never resizes: then jobs only shrink."""
    name = f"{others}+least_efficient:LeastEfficient"
    done = simulated("--malleable", "1", "--policy", name, "--policy", "easy")
    assert done.exit_code == 0, done.output
    ours, easy = json.loads(done.stdout)["runs"]
    assert ours["mean_wait_s"] < easy["mean_wait_s"]
    assert ours["shrinks"] > 0
