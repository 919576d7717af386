"""Which files are read as one program: those near the main one, by its imports."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from dq_client.check.facts import tree_of
from dq_client.check.linked import MAIN, Source, absolute

LINES_MAX = 10_000  # of all files together; the analysis of so many takes 4 s
OWN = frozenset(("resize_lib", "dq_client", "dq_server"))


def nearest(sources: Sequence[Source]) -> tuple[list[Source], list[Source]]:
    """Return the files that are read as one program, and others, each read for itself.

    sources: the main program in the end, perhaps none
    """
    if not sources:
        return [], []
    by_name = {source.name: source for source in sources}
    near: dict[str, Source] = {}
    todo, lines = deque([sources[-1].name, *by_name]), 0
    while todo:
        name = todo.popleft()
        source = by_name.get(name)
        if source is None or name in near:
            continue
        lines += _lines(source.tree)
        if lines > LINES_MAX and near:
            break
        near[name] = source
        todo.extendleft(_imported(source))
    far = [source for source in sources if source.name not in near]
    return [*(s for s in sources[:-1] if s.name in near), sources[-1]], far


def program_of_file(tree: ast.Module, file: str) -> list[Source]:
    """Return a program with what it imports from its own folder; the program itself in the end.

    Files that cannot be read, or are no Python, are left out.
    """
    folder, lines, main = Path(file).parent, _lines(tree), Source(MAIN, file, tree)
    found: dict[str, Source] = {}
    todo = deque(_imported(main))
    while todo:
        name = todo.popleft()
        path = None if name in found or name.partition(".")[0] in OWN else _path_of(folder, name)
        if path is None:
            continue
        try:
            inner = tree_of(path.read_text(encoding="utf-8"), str(path))
        except (OSError, ValueError):
            continue
        lines += _lines(inner) if inner is not None else 0
        if lines > LINES_MAX:
            break
        if inner is not None:
            found[name] = Source(name, str(path), inner, path.name == "__init__.py")
            todo += _imported(found[name])
    return [*found.values(), main]


def _lines(tree: ast.Module) -> int:
    return max((node.end_lineno or 0 for node in tree.body), default=0)


def _path_of(folder: Path, name: str) -> Path | None:
    parts = folder.joinpath(*name.split("."))
    candidates = (parts.with_name(f"{parts.name}.py"), parts / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


def _imported(source: Source) -> Iterator[str]:
    """The modules that a file may import."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield from _with_packages(each.name)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(node, source.package)
            if module:
                yield from _with_packages(module)
            yield from (f"{module}.{each.name}".lstrip(".") for each in node.names)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
