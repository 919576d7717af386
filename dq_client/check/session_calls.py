"""Calls of the session and of declared data."""

from __future__ import annotations

import ast
from abc import abstractmethod

from dq_client.check import words as w
from dq_client.check.communication import Communication
from dq_client.check.flow import NOTHING, Value
from dq_client.check.given import Given
from dq_client.check.graph import Node
from dq_client.check.turns import Turn, TurnKind


class SessionCalls(Communication):
    """Reads them."""

    @abstractmethod
    def called_by_others(
        self, value: Value, line: int, given: Given, *, in_loop: bool = False
    ) -> list[Node]:
        """Call a function of the program that is passed on, and return what it gives."""

    def of_session(self, node: ast.Call, name: str, given: Given) -> Value:
        """A method of the session."""
        if name in w.DECLARES:
            return Value(kind=w.OBJECT)
        if name == "value":
            return Value(kind=w.VALUE)
        if name == "keep":
            for value in given.keywords.values():
                if value.path:
                    self.put(value.path, Node(kind=value.kind), node.lineno)
                    self._keep(value.path)
        if name in ("setup", "on_resize"):
            kinds = [value.kind.partition(":") for value in given.args]
            self.program.run_again |= {int(n) for what, _, n in kinds if what == "function"}
            for value in given.args:
                self.called_by_others(value, node.lineno, Given([Value(kind=w.COMM)]))
        if name in ("solve", "map"):
            control = self.control
            if name == "map":  # each rank gets other items
                selects = Node(source=w.RANK)
                self.control = self.condition([selects])
                self.control.branches = [selects]
            for value in given.values:
                self.called_by_others(value, node.lineno, Given(), in_loop=True)
            self.control = control
            self.sink(given.nodes)
            return NOTHING
        if name == "iterations":
            self.program.turns.append(Turn(TurnKind.ITERATIONS, node.lineno, [given.nodes], Node()))
            return Value([Node(given.nodes)])
        return NOTHING

    def _keep(self, slot: str) -> None:
        number, _, name = slot[1:].partition(":") if slot[0] == "^" else ("", "", slot)
        self.program.kept.add((int(number or self.scope.number), name))

    def of_object(self, name: str, base: Value, given: Given) -> Value:
        """A method of declared data."""
        self.sink(given.nodes)
        if name in w.ALIKE_OBJECT:
            return NOTHING
        return Value([Node(source=w.PART)], w.LOCAL, path=f"{base.path}.local" if base.path else "")
