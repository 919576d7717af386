"""Files that a rank writes, in a copy: a set-up that opens them again may have emptied them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resize_lib.state import iterators
from resize_lib.state.iterators import CannotCopyError, rewrite, written

OPENED: dict[str, Callable[[Path], Any]] = {
    "text": lambda path: path.open("w"),
    "lines": lambda path: path.open("w", buffering=1),
    "appended": lambda path: path.open("a+"),
    "bytes": lambda path: path.open("wb"),
    "both": lambda path: path.open("w+b"),
    "unbuffered": lambda path: path.open("wb", buffering=0),
}


@pytest.mark.parametrize("kind", OPENED)
def test_a_file_goes_on_where_the_copy_was_made(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    with OPENED[kind](path) as file:
        text: Callable[[str], Any] = str if hasattr(file, "encoding") else str.encode
        file.write(text("one\n"))
        kept = written(file)
        file.write(text("after the copy\n"))
    assert kept is not None
    with OPENED[kind](path) as again:
        again.write(text("header of the set-up\n"))
        rewrite(again, kept)
        again.write(text("two\n"))
    assert path.read_text() == "one\ntwo\n"


def test_another_file_keeps_what_it_has(tmp_path: Path) -> None:
    with (tmp_path / "a").open("w") as a, (tmp_path / "b").open("w") as b:
        a.write("a")
        b.write("b")
        kept = written(a)
        assert kept is not None
        rewrite(b, kept)
    assert (tmp_path / "b").read_text() == "b"


def test_what_is_no_file_on_disk_has_nothing_to_lose(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("x")
    with (tmp_path / "in").open() as read, Path(os.devnull).open("w") as null:
        assert written(read) is None and written(null) is None
    assert written(read) is None, "it is closed"
    ends = os.pipe()
    with os.fdopen(ends[0]) as out, os.fdopen(ends[1], "w") as into:
        assert written(out) is None and written(into) is None


def test_what_does_not_show_in_the_file_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gzip.open(tmp_path / "z", "wt") as packed, pytest.raises(CannotCopyError, match="open"):
        written(packed)
    monkeypatch.setattr(iterators, "WRITTEN_BYTES_MAX", 3)
    with (tmp_path / "large").open("w") as file:
        file.write("four")
        file.flush()
        with pytest.raises(CannotCopyError):
            written(file)
