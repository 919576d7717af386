"""Layers (ARCHITECTURE.md): a folder imports from the folders below it only, so no folders import
each other in a circle."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Package -> its folders and files, lowest first, each with those that it may import.
LAYERS = {
    "dq_client": {
        "base": "",
        "check": "",
        "node": "base",
        "deploy": "base node",
        "show": "base node deploy",
        "verify": "base deploy show",
        "examples": "base",
        "cli": "base node deploy show verify examples check",
        "executor": "base",
        "client": "base deploy show cli executor",
        # Public names of what lies below.
        "errors": "base",
        "ranks": "node",
        "hosts": "deploy",
    },
    "dq_client.node": {
        "local_agents": "",
        "supervision": "",
        "ranks": "",
        "mpiexec": "",
        "mpi_probe": "mpiexec",
        "emulation": "supervision",
        "fleet": "supervision",
        "agent": "local_agents fleet emulation mpiexec ranks",
        "launcher": "agent ranks",
    },
    "dq_client.deploy": {
        "standby": "",
        "stopped_cluster": "",
        "server_watch": "",
        "contained_nodes": "",
        "batch_settings": "",
        "cluster": "batch_settings",
        "mechanism": "cluster",
        "local": "cluster",
        "sidecars": "local",
        "shutdown": "local sidecars",
        "supervisor": "local server_watch contained_nodes",
        "ssh": "cluster local shutdown supervisor",
        "resume": "cluster local ssh",
        "batch": "batch_settings cluster local shutdown ssh",
        "slurm": "batch batch_settings local shutdown ssh",
        "grid_engine": "batch batch_settings",
        "systems": "batch batch_settings grid_engine slurm",
    },
    "dq_client.show": {
        "views": "",
        "feed": "",
        "forecast": "",
        "report": "feed",
        "output": "report",
        "job_output": "output",
        "hooks": "feed report",
        "top": "feed output report",
        "web": "feed forecast",
    },
    "dq_server.live": {
        "rate_limited_log": "",
        "clock": "",
        "configuration": "",
        "allocation": "",
        "supervised": "",
        "access": "",
        "connection_limits": "rate_limited_log",
        "audit": "access rate_limited_log",
        "agents": "",
        "store": "rate_limited_log",
        "translate": "agents",
        "views": "agents store translate",
        "standby": "access agents rate_limited_log store",
        "context": "access agents standby store translate views",
        "orders": "agents configuration context translate",
        "engines": "context rate_limited_log",
        "requests": "access agents configuration context engines orders rate_limited_log store"
        " translate views",
        "server": "access agents audit context engines orders rate_limited_log requests standby"
        " store views",
        "loop": "access allocation audit clock connection_limits engines rate_limited_log server"
        " standby store supervised",
        "offline": "loop store",
        "__main__": "configuration engines loop standby store",
    },
}
# What the library that applications link may use of the client.
OF_RESIZE_LIB = {"base", "check"}


@cache
def imports(package: str) -> dict[str, frozenset[str]]:
    """For each module of a package: what it imports, as far as it is ours."""
    found = {}
    for path in sorted((ROOT / package.replace(".", "/")).rglob("*.py")):
        words = path.relative_to(ROOT).with_suffix("").parts
        named = set[str]()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                start = [*words[: -node.level]] if node.level else []
                module = ".".join([*start, *([node.module] if node.module else [])])
                named |= {f"{module}.{alias.name}" for alias in node.names}
        found[".".join(words)] = frozenset(named)
    return found


def folder(package: str, module: str) -> str:
    """The folder or file of a package in which a module lies; empty: it is elsewhere."""
    if not module.startswith(package + "."):
        return ""
    name = module[len(package) + 1 :].partition(".")[0]
    path = ROOT / package.replace(".", "/") / name
    return name if path.is_dir() or path.with_suffix(".py").exists() else ""


@pytest.mark.parametrize("package", LAYERS)
def test_a_folder_imports_from_those_below_it(package: str) -> None:
    layers = LAYERS[package]
    below = set[str]()
    for name, may in layers.items():
        assert set(may.split()) <= below, f"{name}: {may} are to stand above it in the table"
        below.add(name)
    wrong = [
        f"{module}: {name}"
        for module, names in imports(package).items()
        if (here := folder(package, module)) != "__init__"
        for name in sorted(names)
        if (there := folder(package, name)) and there not in {here, *layers[here].split()}
    ]
    assert wrong == []


@pytest.mark.parametrize("package", LAYERS)
def test_the_tables_name_what_is_there_and_what_is_used(package: str) -> None:
    layers = LAYERS[package]
    used = {name: set[str]() for name in layers}
    for module, names in imports(package).items():
        here = folder(package, module)
        if here != "__init__":
            used[here] |= {folder(package, name) for name in names} - {"", here}
    assert {name: sorted(may.split()) for name, may in layers.items()} == {
        name: sorted(names) for name, names in used.items()
    }


def test_the_library_uses_the_base_alone() -> None:
    """And the reader of sources, which uses nothing."""
    wrong = [
        f"{module}: {name}"
        for module, names in imports("resize_lib").items()
        for name in names
        if name.startswith("dq_client.") and name.split(".")[1] not in OF_RESIZE_LIB
    ]
    assert wrong == []
