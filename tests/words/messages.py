"""Every sentence of DQ's reasons and errors, from the source, as one text.

Reasons are what `declare` makes known, by code; errors are what is raised with a text, by class.
What a sentence is filled with stands in braces by its last name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("dq_client", "dq_server", "resize_lib")
GOLDEN = Path(__file__).with_name("messages.txt")
WORDS_MIN = 3  # fewer are a name, or what another message is made of


def template(node: ast.expr) -> str:
    """The text of an expression; empty if it is none."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(template, parts))
        case ast.FormattedValue(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return f"{{{name}}}"
        case ast.FormattedValue():
            return "{...}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return template(left) + template(right)
    return ""


def sentences(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(code, sentence) of each reason, and (class, sentence) of each error."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="declare"), keywords=words):
                yield from ((word.arg, template(word.value)) for word in words if word.arg)
            case ast.Raise(
                exc=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_])
            ):
                text = template(first)
                if name != "AssertionError" and len(text.split()) >= WORDS_MIN:
                    yield name, text


def messages() -> str:
    """The golden file: one line for each sentence, in order."""
    found = {
        f"{name}: {' '.join(text.split())}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name, text in sentences(ast.parse(path.read_text()))
    }
    return "\n".join(sorted(found)) + "\n"
