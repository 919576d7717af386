"""Files are opened in one module (dq_client/base/opened.py), wherever others could have touched
them, or where waiting for one would stop a server, an agent, a keeper or the page."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "dq_server/live", "dq_client/node/agent", "dq_client/node/ranks", "dq_client/show/web",
    "dq_client/show/hooks",
)  # fmt: skip
FILES = (
    *(f"base/{name}.py" for name in ("audit", "credentials", "home", "keys", "private", "storage")),
    "base/process_tree.py",
    *(f"deploy/{name}.py" for name in ("local", "resume", "shutdown", "sidecars", "standby")),
    "deploy/server_watch.py", "deploy/supervisor.py", "deploy/ssh/kept_alive.py",
    "node/fleet.py", "node/local_agents.py", "node/supervision.py",
)  # fmt: skip
OPENS = {"read_text", "read_bytes", "write_text", "write_bytes", "touch"}
DOOR = "dq_client/base/opened.py"
# In a rank, or of what is no part of a home.
MAY: dict[str, str] = {
    "dq_client/node/ranks/program.py": "in the rank itself: its program and its standard streams",
    "dq_client/node/ranks/program_keeper.py": "/dev/null",
    "dq_client/base/channel.py": "a folder, by its descriptor",
    "dq_client/show/web/site.py": "the package's own pages, once",
    "dq_client/show/hooks/call.py": "a URL",
    "dq_server/live/store/backup.py": "files that a user names; a folder of its own",
    "dq_client/node/agent/output_files.py": "makes a file that must not be there",
}


def calls(path: Path) -> list[str]:
    """The calls in a file that open one."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        function, name = node.func, ast.unparse(node.func)
        by_descriptor = any(word.arg == "closefd" for word in node.keywords)
        method = isinstance(function, ast.Attribute) and (
            function.attr in OPENS or function.attr == "open"
        )
        mine = name.startswith(("opened.", "self._changes."))
        logs = name.endswith("basicConfig") and any(w.arg == "filename" for w in node.keywords)
        if (name == "open" and not by_descriptor) or (method and not mine) or logs:
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    return found


def guarded() -> list[Path]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [*paths, *(ROOT / "dq_client" / name for name in FILES)]


def test_files_are_opened_at_the_door() -> None:
    exempt = {DOOR, *MAY}
    found = [
        call
        for path in guarded()
        if str(path.relative_to(ROOT)) not in exempt
        for call in calls(path)
    ]
    assert found == []


def test_every_exception_is_needed() -> None:
    assert [name for name in MAY if not calls(ROOT / name)] == []
