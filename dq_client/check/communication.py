"""Calls of communicators: what ranks receive, and what that depends on."""

from __future__ import annotations

import ast
import itertools

from dq_client.check import words as w
from dq_client.check.effects import Effects
from dq_client.check.flow import Value
from dq_client.check.given import Given
from dq_client.check.graph import STATES_MAX, Node, made_of
from dq_client.check.turns import Turn, TurnKind

CONSTANT = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.unaryop, ast.operator, ast.expr_context)
FILLED = {"ones", "full", "array", "int", "float", "int64", "float64"}  # with constants
SUMMED = {"allreduce", "reduce"}
LOCATES = ("MINLOC", "MAXLOC")
SUMS = ("", "SUM", "PROD")


class Communication(Effects):
    """Reads calls of communicators."""

    def of_comm(self, node: ast.Call, name: str, given: Given) -> Value:
        """What a call of a method gives."""
        low = name.lower()
        if name in ("Get_rank", "Get_size"):
            return source_of(w.RANK if name == "Get_rank" else w.SIZE)
        if low == "get_group":
            return source_of(w.RANK | w.SIZE)
        if low in w.MAKES_COMM or low.startswith("create_"):
            return Value(kind=w.COMM)
        if low in ("get_coords", "get_topo", "get_cart_rank", "shift"):
            return source_of(w.RANK)
        if low not in w.EQUAL | w.SINGLE:
            return Value(given.nodes)
        buffer = given.received(low) if name[0].isupper() else None
        from_one = low in w.FROM_ONE
        only_received = buffer if from_one and not low.endswith("_replace") else None
        self.sink([n for v in given.values if v is not only_received for n in v.nodes])
        self.sink(given.rest)
        self.sink_objects(given.values)
        self.program.communication.append((self.scope.number, node.lineno))
        source = 0 if low in w.EQUAL else w.RANK | w.DIVIDED.get(low, 0)
        if low in w.EQUAL and _is_by_size(node, low, given):
            source = w.FROZEN
        received, result = Node(source=source), Node(source=source)
        received.received = result.received = from_one
        received.shared = result.shared = low in w.EQUAL
        received.sent = result.sent = [n for v in given.values for n in v.nodes]
        if buffer is not None:
            control = self.control
            if from_one:  # from MPI.PROC_NULL nothing comes
                self.control = self.condition([])
                self.control.branches = [Node(given.numbers(buffer))]
            if low in w.ON_ROOT and _root_of(node) == 0:
                self.control = self.condition([])
                self.control.on_root = Node(source=w.RANK)
            self.change(buffer, received, node.lineno)
            self.control = control
        if low in SUMMED and _operation(node) in SUMS and given.args:
            self.program.turns.append(
                Turn(TurnKind.SUM, node.lineno, [given.args[0].nodes], result)
            )
        if low.endswith("reduce") and _operation(node) in LOCATES:
            place = Node(passed=[result])
            place.divisor = [Node(source=w.SIZE)]  # the number of a rank, as what `% size` leaves
            return Value([result], parts=(Value([result]), Value([place], passed=True)))
        result.gathered = name in ("allgather", "iallgather")
        return Value([result], passed=result.gathered)


def _root_of(node: ast.Call) -> object:
    """The rank that gets the result, if it is written as a number; by default 0."""
    named = [each.value for each in node.keywords if each.arg == "root"]
    numbers = [*named, *node.args[2:], ast.Constant(0)]
    return next(each.value for each in numbers if isinstance(each, ast.Constant))


def _is_by_size(node: ast.Call, low: str, given: Given) -> bool:
    """Whether the result, which is the same on all ranks, depends on how many there are.

    As that of `bcast(comm.size)`, `allreduce(1)`, `allreduce(comm.rank, op=MPI.MAX)` and
    `allreduce(len(part), op=MPI.MAX)`.
    """
    if not node.args or not given.args:
        return False
    sent, bits = node.args[0], 0
    nodes = [part for each in given.args[0].nodes for part in each.passed or [each]]
    for each in itertools.islice(made_of(nodes), STATES_MAX):
        bits |= each.source
    if low.endswith("bcast"):
        return bool(bits & w.SIZE) and not bits & (w.RANK | w.PART)
    if bits & (w.RANK | w.SIZE | w.PART) and nodes and all(map(_is_length, nodes)):
        return low.endswith("allgather") or _operation(node) not in SUMS
    asks = isinstance(sent, ast.Call) and ast.unparse(sent.func).endswith(("Get_rank", "Get_size"))
    if bits and (asks or isinstance(sent, ast.Attribute | ast.Name)) and all(map(_is_place, nodes)):
        return True
    return _is_constant(sent) and (low == "allgather" or _operation(node) in SUMS)


def _is_length(node: Node) -> bool:
    """Whether a value is the number of items that something has, or computed from such."""
    todo, seen = [node], set[Node]()
    while todo:
        each = todo.pop()
        seen.add(each)
        if not each.length:
            made = [*each.passed, *each.computed]
            if not made or each.kept or each.source:
                return False
            todo += [part for part in made if part not in seen]
    return True


def _is_place(node: Node) -> bool:
    """Whether a value is the rank or the number of ranks, and nothing computed from it."""
    todo, seen = [node], set[Node]()
    while todo:
        each = todo.pop()
        if each.computed or each.kept or each.source not in (0, w.RANK, w.SIZE):
            return False
        seen.add(each)
        todo += [part for part in each.passed if part not in seen]
    return True


def _is_constant(node: ast.AST) -> bool:
    """Whether an expression is made of constants, as `1` and `np.ones(1)`."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        return name in FILLED and all(map(_is_constant, node.args))
    if isinstance(node, ast.List | ast.Tuple):
        return all(map(_is_constant, node.elts))
    parts = ast.iter_child_nodes(node)
    return isinstance(node, CONSTANT) and all(map(_is_constant, parts))


def _operation(node: ast.Call) -> str:
    """The last part of the operation that a reduction is given; empty: none."""
    named = [each.value for each in node.keywords if each.arg == "op"]
    placed = node.args[2 if ast.unparse(node.func).endswith("Allreduce") else 1 :]
    return next((ast.unparse(each).rpartition(".")[2] for each in (*named, *placed)), "")


def source_of(bits: int) -> Value:
    """A number that comes from these."""
    return Value([Node(source=bits)], w.PLAIN)
