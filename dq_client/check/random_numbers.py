"""Calls that draw random numbers, and what they change."""

from __future__ import annotations

import ast

from dq_client.check import words as w
from dq_client.check.flow import NOTHING, Value
from dq_client.check.given import Given
from dq_client.check.graph import Node
from dq_client.check.session_calls import SessionCalls


class RandomNumbers(SessionCalls):
    """Reads them."""

    def random_numbers(
        self, node: ast.Call, name: str, base: Value, given: Given, module: str
    ) -> Value | None:
        """Random numbers: of a generator, or of the global ones."""
        whole = module.partition(".")[0] if module.endswith("random") else ""
        if not whole and isinstance(node.func, ast.Attribute):
            inner = ast.unparse(node.func.value)
            whole = "numpy" if inner in ("np.random", "numpy.random") else ""
        if whole:
            if name == "seed":
                self.program.seeded.setdefault(whole, []).append(Node(given.nodes))
                return NOTHING
            if name in w.DRAWS:
                drawn = Node(given.nodes, source=0)
                drawn.passed = self.program.seeded.setdefault(whole, [])
                self._shuffled(name, given, drawn, node.lineno)
                return Value([drawn])
        if base.kind == w.RNG:
            drawn = Node([*base.nodes, *given.nodes])
            drawn.opaque = True
            if base.path:
                self.change(base, Node(kept=[self.get(base.path)], kind=w.RNG), node.lineno)
            self._shuffled(name, given, drawn, node.lineno)
            return Value([drawn])
        return None

    def _shuffled(self, name: str, given: Given, drawn: Node, line: int) -> None:
        if name == "shuffle" and given.args and (given.args[0].path or given.args[0].within):
            self.change(given.args[0], Node([*given.args[0].nodes, drawn]), line)
