"""The library's MPI tags: one file, distinct numbers, no others elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

from resize_lib import tags

LIBRARY = Path(tags.__file__).parent


def test_no_two_tags_are_equal() -> None:
    numbers = [value for name, value in vars(tags).items() if name.isupper()]
    assert len(numbers) > 5
    assert len(numbers) == len(set(numbers))
    assert max(numbers) == tags.SURVIVORS, "its numbers go on without end"


def test_every_tag_is_in_that_file() -> None:
    found = []
    for path in sorted(LIBRARY.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if path.name != "tags.py" and isinstance(node, ast.Assign | ast.AnnAssign):
                names = node.targets if isinstance(node, ast.Assign) else [node.target]
                found += [
                    f"{path.name}: {name.id}"
                    for name in names
                    if isinstance(name, ast.Name) and name.id.endswith("TAG")
                ]
    assert not found
