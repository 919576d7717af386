"""All findings in the source of a program."""

from __future__ import annotations

import ast

from dq_client.check.facts import Facts
from dq_client.check.findings import CODES, Finding
from dq_client.check.linked import linked
from dq_client.check.names import session_is_opened
from dq_client.check.port import to_port
from dq_client.check.program_files import program_of_file
from dq_client.check.scopes import begins_iterations
from dq_client.check.variables import kept_variables
from dq_client.check.walk import Walk


def check_source(source: str, file: str) -> list[Finding]:
    """Return all findings in a program, by line; without a session, what a port has to touch.

    Modules that it imports from its own folder are read, too; findings are about `file` alone.
    """
    try:
        tree = ast.parse(source, file)
    except SyntaxError as error:
        return [Finding(file, error.lineno or 1, "syntax", f"the file is no Python: {error.msg}")]
    facts = Facts(tree, file, linked(program_of_file(tree, file)))
    opens = any(session_is_opened(n) or _is_loop_over_iterations(n) for n in ast.walk(tree))
    if not opens:
        troubles, found = to_port(tree, facts, facts.program()), []
    else:
        walk = Walk(file, tree)
        walk.program()
        found = walk.findings
        lines = {finding.line for finding in found}
        troubles = [t for t in kept_variables(facts, facts.program()) if t.line not in lines]
    found += [Finding(file, t.line, t.code, CODES[t.code].format(what=t.what)) for t in troubles]
    return sorted(found)


def _is_loop_over_iterations(node: ast.AST) -> bool:
    return isinstance(node, ast.For) and begins_iterations(node.iter)
