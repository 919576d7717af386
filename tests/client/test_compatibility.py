"""What `--json` prints has each key, of the same type, that the version before printed.

json_0_2.json holds keys and types of the schemas of 0.2 (docs/schemas). Keys may be added. The same
for the wire is test_wire_messages.py, and for journals tests/live/test_old_journals.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.commands import ROOT

BEFORE = Path(__file__).parent / "json_0_2.json"


def shape(kind: dict[str, Any]) -> object:
    """A type without its texts."""
    return {
        word: [shape(k) for k in value] if word == "anyOf"
        else shape(value) if isinstance(value, dict) else value
        for word, value in kind.items() if word not in ("description", "title", "default")
    }  # fmt: skip


def keys_of(schemas: Path) -> dict[str, str]:
    """Type, as JSON, by `Name.key`, of all that the schemas in a folder describe."""
    return {
        f"{name}.{key}": json.dumps(shape(kind), sort_keys=True)
        for path in sorted(schemas.glob("*.json"))
        for name, table in json.loads(path.read_text())["$defs"].items()
        for key, kind in table.get("properties", {}).items()
    }


def test_no_key_of_the_version_before_is_gone_or_has_another_type() -> None:
    before, now = json.loads(BEFORE.read_text()), keys_of(ROOT / "docs" / "schemas")
    assert len(before) > 150
    assert {key: now.get(key) for key in before} == before
