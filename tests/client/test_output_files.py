"""Files that users name for the output: what patterns become, and what is never written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dq_client.base.home import Home
from dq_client.base.launch import LaunchError
from dq_client.node.agent import output_files
from dq_server.core.model.errors import InvalidSpec
from dq_server.core.model.jobs import Job, JobKind, JobSpec, JobState
from dq_server.core.model.sizes import nearest_square
from dq_server.core.model.spec import Element
from dq_server.live.agents.output_paths import check, output_paths


def job(pattern: str, element: Element | None = None) -> Job:
    only = nearest_square(1)
    spec = JobSpec(
        "a/b", JobKind.RIGID, only, (only,), cwd="/work", output=pattern, element=element
    )
    return Job(12, spec, JobState.HELD, 0.0)


@pytest.mark.parametrize(
    ("pattern", "alone", "in_array"),
    [
        ("out", "/work/out", "/work/out"),
        ("/tmp/%j.%%", "/tmp/12.%", "/tmp/12.%"),
        ("%A/%a", "/work/12/0", "/work/9/3"),
        ("%n-%%j", "/work/a_b-%j", "/work/a_b-%j"),
        ("", "", ""),
    ],
)
def test_what_a_pattern_becomes(pattern: str, alone: str, in_array: str) -> None:
    check("--output", pattern)
    assert output_paths(job(pattern)) == (alone, "")
    assert output_paths(job(pattern, Element(9, 3)))[0] == in_array


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("%x", "%x is none of %j"), ("a%", "% is none"), ("out/", "a folder"), ("..", "a folder")],
)
def test_what_is_no_pattern_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(InvalidSpec, match=f"--output .*{words}"):
        check("--output", pattern)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home").mkdir()
    return Home(tmp_path / "home")


def test_folders_and_file_are_made_and_nothing_is_lost(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "a/b/out.txt"
    for _ in range(2):  # of a second world, or on another node
        output_files.place(home, 7, {"out": str(path), "err": ""})
    link = home.job(7) / "out"
    assert link.readlink() == path
    link.write_text("kept")
    output_files.place(home, 8, {"out": str(path), "err": str(path)})
    assert path.read_text() == "kept"
    assert not (home.job(7) / "err").exists()


def test_what_is_no_regular_file_is_refused(home: Home, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "folder", "fifo"):
        with pytest.raises(LaunchError, match="no regular file"):
            output_files.place(home, 7, {"out": str(tmp_path / name)})
    with pytest.raises(LaunchError, match="no regular file"):
        output_files.place(home, 7, {"out": "/dev/zero"})
    assert not (tmp_path / "target").exists()
    assert not home.job(7).exists()
    output_files.place(home, 7, {"out": "/dev/null"})
    assert (home.job(7) / "out").readlink() == Path("/dev/null")


def test_files_of_dq_itself_are_refused_also_by_another_name(home: Home, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(home.root)
    for folder in (home.root, home.root / "keys", tmp_path / "alias"):
        with pytest.raises(LaunchError, match="DQ keeps its own files there"):
            output_files.place(home, 7, {"out": str(folder / "journal.sqlite")})


def test_a_folder_that_cannot_be_made_is_said(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchError, match=r"cannot go to .*: (Not a directory|File exists)"):
        output_files.place(home, 7, {"out": str(tmp_path / "file/out")})


def test_output_that_is_there_already_is_not_replaced(home: Home, tmp_path: Path) -> None:
    home.job(7).mkdir(parents=True)
    (home.job(7) / "out").write_text("before")
    with pytest.raises(LaunchError, match="is there already"):
        output_files.place(home, 7, {"out": str(tmp_path / "out")})
    assert (home.job(7) / "out").read_text() == "before"
