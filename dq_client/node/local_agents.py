"""The agents of a home that run on this machine, by their own files."""

from __future__ import annotations

from dq_client.base.home import Home, is_alive, machine
from dq_client.base.text_files import object_of


def running_agents(home: Home) -> dict[str, dict[str, float]]:
    """Agents of this home that run on this machine, by name."""
    found = {}
    for path in sorted((home.root / "agents").glob("*/agent.json")):
        try:
            info = object_of(path)
        except (OSError, ValueError):
            continue
        # A home may be shared: pids of other machines mean nothing here.
        here = info.pop("machine", machine()) == machine()
        if here and is_alive(info.get("pid", 0), info.get("create_time")):
            found[path.parent.name] = info
    return found
