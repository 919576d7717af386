"""The shape of the tree: features are separate, imports have no loops, files are short."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from dq_server.core.features import FEATURES
from dq_server.core.model.events import EVENTS, Configured
from dq_server.core.model.records import RECORDS, Record
from dq_server.core.scheduler import HANDLERS
from dq_server.core.settings import TABLE_OF_ITS_OWN

ROOT = Path(__file__).parents[2]
PACKAGES = ("dq_server", "dq_client", "resize_lib", "apps")
CORE = ROOT / "dq_server/core"
LINES_MAX = 450
LONGER = {
    "dq_server/core/model/events.py": "a list: all that a journal can hold, in one place",
    "dq_server/core/features/profiles.py": "the promise, its keeping and its end are one protocol",
}


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def at_run_time(node: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a file, those in functions too, without those for type checkers."""
    found: list[ast.Import | ast.ImportFrom] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            found.append(child)
        elif not for_types_only(child):
            found += at_run_time(child)
    return found


@cache
def graph() -> dict[str, set[str]]:
    """Our modules and what each imports of our modules."""
    files = {module(path): path for p in PACKAGES for path in (ROOT / p).rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        edges: set[str] = set()
        for node in at_run_time(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                edges |= {alias.name for alias in node.names}
                continue
            base = node.module or ""
            members = {f"{base}.{alias.name}" for alias in node.names}
            edges |= {m if m in files else base for m in members}
        found[name] = {e for e in edges if e in files and e != name}
    return found


def loops() -> list[list[str]]:
    """Strongly connected modules (Tarjan), without those of one module."""
    edges, index, low = graph(), dict[str, int](), dict[str, int]()
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in edges:
        if name not in index:
            visit(name)
    return found


def test_no_import_loops_at_run_time() -> None:
    assert loops() == []


FEATURE_FILES = sorted((CORE / "features").glob("[!_]*.py"))


@pytest.mark.parametrize("path", FEATURE_FILES, ids=lambda path: path.stem)
def test_a_feature_imports_no_other(path: Path) -> None:
    name = module(path)
    assert not [m for m in graph()[name] if m.startswith("dq_server.core.features")]


@pytest.mark.parametrize("package", ["model", "planning", "policies"])
def test_what_features_stand_on_knows_none(package: str) -> None:
    below = [m for m in graph() if m.startswith(f"dq_server.core.{package}.")]
    assert below
    for name in [*below, "dq_server.core.turn"]:
        wrong = [m for m in graph()[name] if m.startswith("dq_server.core.features")]
        assert not wrong, f"{name} imports {wrong}"


def test_every_event_has_one_handler_in_a_feature() -> None:
    handled = [kind for kind, _ in FEATURES.handlers()]
    assert len(handled) == len(set(handled))
    assert set(handled) == set(EVENTS.values()) - {Configured} == set(HANDLERS)


@pytest.mark.parametrize("package", PACKAGES)
def test_files_fit_a_head(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        name = str(path.relative_to(ROOT))
        lines = len(path.read_text().splitlines())
        assert lines <= LINES_MAX or name in LONGER, f"{name}: {lines} lines, and no reason why"
        assert lines > LINES_MAX or name not in LONGER, f"{name} is short now: take its reason out"


def test_records_have_the_names_that_snapshots_on_disk_have() -> None:
    """A class may be renamed. A changed key, or a dropped one that snapshot.RETIRED does not list,
    makes old snapshots unreadable."""
    assert FEATURES.all  # all are imported
    assert sorted(RECORDS) == [
        "ArraysKnown", "Asked", "AskedFor", "Attached", "Booked", "Copies", "Drains", "Ends",
        "Followers", "HoursUsed", "Interrupted", "Interruption", "Ledger", "LeftSizes",
        "Loads", "LostOutput", "Metered", "NoMoreWork", "Phases", "Placed", "Places", "Pool",
        "Profiled", "Promise", "QuotaWaits", "RanOn", "Runs", "Spawns", "Succession",
        "Unmet", "Usage", "Waiting", "Watched", "Windows", "WorkerJobs", "Worlds",
    ]  # fmt: skip


def test_a_record_without_a_key_or_with_another_s_is_refused() -> None:
    with pytest.raises(TypeError, match="a record needs a key of its own"):
        type("Nameless", (Record,), {})
    with pytest.raises(TypeError, match="Pool has the key 'Pool'"):
        type("Other", (Record,), {"key": "Pool"})


def test_every_table_of_its_own_is_declared_when_settings_are_read() -> None:
    """Options count once their module is imported: the core imports all of them itself."""
    code = "from dq_server.core import settings; print(*settings.TABLES)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(TABLE_OF_ITS_OWN) <= set(told.stdout.split())
