"""What `resize_lib` exports: each class is documented, and says what a user has in hand."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import resize_lib
from harness.commands import ROOT
from harness.ranks import ONE_HOST, run_job

pytestmark = pytest.mark.mpi
PROGRAMS = Path(__file__).parent / "programs"

EXPORTS = {name: getattr(resize_lib, name) for name in resize_lib.__all__}
CLASSES = {name: found for name, found in EXPORTS.items() if inspect.isclass(found)}
OBJECTS = {name for name, found in CLASSES.items() if not issubclass(found, BaseException)}
# What a session declares, and the page that has them all.
DECLARED = ("Array", "CSR", "Cartesian", "Items", "LocalState", "Matrix", "Parcel", "Value")
SECTIONS = ("Global", "Local", "dtype", "Errors")


def public(found: type) -> dict[str, object]:
    """Its own methods and properties without an underscore."""
    kinds = (property, classmethod, staticmethod)
    return {
        name: member
        for base in found.__mro__
        if base.__module__.startswith("resize_lib")
        for name, member in vars(base).items()
        if not name.startswith("_")
        if isinstance(member, kinds) or inspect.isfunction(member)
    }


@pytest.mark.parametrize("name", EXPORTS)
def test_what_is_exported_is_documented(name: str) -> None:
    found = EXPORTS[name]
    assert found.__name__ == name
    assert len(inspect.getdoc(found) or "") > 40
    assert found.__module__.startswith("resize_lib")
    if name in CLASSES:
        silent = [n for n, member in public(found).items() if not inspect.getdoc(member)]
        assert not silent, f"no docstring: {silent}"


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_declared_tells_shapes_dtype_and_errors(name: str) -> None:
    text = inspect.getdoc(CLASSES[name]) or ""
    for section in SECTIONS:
        assert re.search(rf"^{section} +\S", text, re.MULTILINE), section
    assert f"`{name}`" in (ROOT / "docs" / "arrays.md").read_text()


@pytest.fixture(scope="module")
def reprs() -> dict[str, list[str]]:
    """Of one object of each class at least, on rank 1 of 2."""
    ended = run_job(ONE_HOST, 2, [str(PROGRAMS / "session_reprs.py")])
    assert ended.code == 0, ended.err
    found: dict[str, list[str]] = json.loads(ended.out)
    return found


def test_every_class_has_a_repr_of_its_own(reprs: dict[str, list[str]]) -> None:
    assert set(reprs) >= OBJECTS, "session_reprs.py makes one of each"
    for name in OBJECTS:
        for text in reprs[name]:
            assert " object at 0x" not in text
            assert len(text) < 500, f"{name}: too long to read: {text[:200]}"


def test_a_repr_says_what_is_where(reprs: dict[str, list[str]]) -> None:
    told = {name: texts[0] for name, texts in reprs.items()}
    expected = {
        "Session": ("rank 1 of 2", "1x2 grid", "'dense'", "losses"),
        "Grid": ("1x2", "rank 1 at (0, 1)"),
        "Matrix": ("'dense'", "60 x 45 float64", "8 x 8 blocks", "here 60 x 21", "(0, 1) of 1x2"),
        "Array": ("'rows'", "9 x 4 float32", "Block1D", "here 5:9"),
        "Cartesian": ("'plate'", "8 x 6 float64", "2 x 1 grid", "here [4:8, 0:6]"),
        "CSR": ("'sparse'", "5 x 7 float64", "rows 3:5 with 2 entries"),
        "Items": ("'particles'", "here 0"),
        "LocalState": ("'hits'", "gather", "3"),
        "Value": ("'losses'", "0.5, 0.5"),
        "Parcel": ("'bag'", "set"),
    }
    for name, words in expected.items():
        for word in words:
            assert word.replace("'dense'", "dense" if name == "Session" else word) in told[name]
    assert "here 4 of 9" in reprs["Array"][1]
    assert "here 4:9" in reprs["Array"][2] or "here 5:9" in reprs["Array"][2]


def test_an_array_as_a_whole() -> None:
    ended = run_job(ONE_HOST, 3, [str(PROGRAMS / "session_gather.py")])
    assert ended.code == 0, ended.err
    assert ended.out == "54\n"
