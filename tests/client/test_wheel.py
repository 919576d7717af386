"""What the wheel installs, and how the samples inside it are found."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dq_client import examples
from dq_client.base.errors import UsageError
from dq_client.cli.cluster_commands import cluster_of
from harness.commands import HANG_S
from tests.client.wheel import ROOT, build_wheel, install_wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def tracked(room: str) -> set[str]:
    done = subprocess.run(
        ["git", "ls-files", room], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in done.stdout.split() if (ROOT / name).is_file()}


def test_the_wheel_installs_our_packages_and_no_other_name(wheel: Path) -> None:
    top = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in top if not name.endswith(".dist-info")} == {
        "dq_client",
        "dq_server",
        "resize_lib",
    }


@pytest.mark.parametrize(
    ("room", "inside"), [("apps", "apps"), ("hostfiles", "hostfiles"), ("docs/examples", "docs")]
)
def test_the_wheel_has_every_sample_inside_dq_client(wheel: Path, room: str, inside: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"dq_client/examples/{inside}{name.removeprefix(room)}" for name in tracked(room)}
    assert wanted
    assert wanted <= names


def test_what_the_wheel_installs_finds_its_samples_and_imports_no_apps(
    wheel: Path, tmp_path: Path
) -> None:
    python = install_wheel(wheel, tmp_path / "venv")
    program = (
        "import importlib.util as u; from dq_client import examples as e;"
        "print(u.find_spec('apps'), e.folder(), e.cluster_file('opteron36').is_file())"
    )
    done = subprocess.run(
        [python, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found, folder, is_file = done.stdout.split()
    assert (found, is_file) == ("None", "True")
    assert Path(folder).parent.name == "dq_client"
    assert tmp_path in Path(folder).parents


def test_an_app_is_run_with_our_folder_first_and_the_current_one_never(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    argv, environment = examples.app_command("matmul", ["--help"])
    assert environment["PYTHONPATH"].split(os.pathsep) == [str(ROOT), str(tmp_path)]
    done = subprocess.run(
        argv, env={**os.environ, **environment}, cwd=tmp_path,
        capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "SUMMA" in done.stdout
    assert argv[:3] == [sys.executable, "-P", "-m"]
    with pytest.raises(UsageError, match="nosuch"):
        examples.app_command("nosuch", [])


def test_a_cluster_file_of_ours_has_a_name_but_a_file_of_the_users_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cluster_of("opteron36", None).name == cluster_of("opteron36.toml", None).name
    assert cluster_of("laptop", None).processors == 4
    (tmp_path / "laptop.toml").write_text('engine = "local"\nprocessors = 7\n')
    assert cluster_of("laptop.toml", None).processors == 7
    for word in ("nosuch", "./opteron36", "hostfiles/opteron36.toml"):
        with pytest.raises(UsageError, match="no such cluster file"):
            cluster_of(word, None)
