"""What names and expressions of a program stand for, as far as resizes are concerned."""

from __future__ import annotations

import ast
from dataclasses import dataclass

# Kinds of things.
SESSION, JOB, COMM, GRID, OBJECT, PART, RANK, SIZE = (
    *("session", "rs.comm", "communicator", "grid", "declared", "part", "rank", "size"),
)
COMMS = (JOB, COMM)  # rs.comm and COMM_WORLD follow the job, others do not
# Those that a resize makes others, and the code of a finding where one is kept.
KEPT = {
    COMM: "kept-communicator",
    GRID: "kept-communicator",
    PART: "kept-part",
}
# Calls that cannot be repeated for ranks that join; results of bcast, allreduce and allgather can.
COMMUNICATES = frozenset(
    (
        *("gather", "gatherv", "scatter", "scatterv", "allgatherv"),
        *("alltoall", "alltoallv", "alltoallw", "reduce"),
        *("reduce_scatter", "reduce_scatter_block", "scan", "exscan", "send", "recv", "sendrecv"),
        *("sendrecv_replace", "probe", "mprobe", "ssend", "bsend", "isend", "irecv", "issend"),
        *("ibarrier", "ibcast", "igather", "iscatter", "iallgather", "ialltoall", "ireduce"),
        *("iallreduce", "iprobe", "split", "split_type", "dup", "clone", "create"),
        *("create_cart", "create_graph", "create_group", "create_dist_graph"),
        *("create_dist_graph_adjacent", "create_intercomm", "spawn", "cart_create"),
    )
)
ALIKE = {"bcast", "allreduce", "allgather"}
MAKES_COMM = {"Dup", "Clone", "Split", "Split_type", "Create", "Create_cart", "Create_group"}
OF_SESSION = {
    "comm": JOB,
    "cart": COMM,
    "grid": GRID,
    "rank": RANK,
    "size": SIZE,
    "places": SIZE,
    "processors": SIZE,
}
OF_GRID = {
    "comm": COMM,
    "row_comm": COMM,
    "col_comm": COMM,
    "rank": RANK,
    "row": RANK,
    "col": RANK,
    "size": SIZE,
    "rows": SIZE,
    "cols": SIZE,
    "shape": SIZE,
}
OF_COMM = {"rank": RANK, "size": SIZE}
OF_OBJECT = {"local": PART, "interior": PART, "indices": PART, "rows": PART, "cols": PART}
VIEWS = {"T", "real", "imag", "flat", "ravel", "reshape", "view", "transpose", "squeeze"}
# Methods of a session that declare data, and what others stand for nothing that is kept.
DECLARES = {
    "matrix",
    "array",
    "value",
    "parcel",
    "cartesian",
    "csr",
    "items",
    "local_state",
}
DIFFER = ("random", "time.time", "perf_counter", "getpid", "gethostname", "uuid", "urandom")
SEEDED = ("default_rng", "RandomState", "Random", "SeedSequence")
NO_PICKLE = ("open", "Lock", "RLock", "Thread", "socket", "connect", "Event", "Condition")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a name stands for: its kind, the line it was taken in, and after how many remaps."""

    kind: str
    line: int
    generation: int
    text: str


def dotted(node: ast.expr) -> str:
    """`a.b.c` of names and attributes; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


class Names:
    """What names stand for at one place of the program."""

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self.generation = 0

    def kind(self, node: ast.expr) -> str:
        """The kind of what an expression gives; empty: none of those that matter."""
        if isinstance(node, ast.Name | ast.Attribute):
            known = self.origins.get(dotted(node))
            if known is not None:
                return known.kind
        match node:
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                base = self.kind(node.value)
                return base if base == PART and _is_view(node.slice) else ""
            case ast.Call():
                return self._call(node)
            case ast.BinOp():
                return self._number(node.left, node.right)
            case ast.BoolOp():
                return self._number(*node.values)
            case ast.UnaryOp():
                return self._number(node.operand)
            case ast.Compare():
                return self._number(node.left, *node.comparators)
            case ast.IfExp():
                return self.kind(node.body) or self.kind(node.orelse)
            case ast.NamedExpr():
                return self.kind(node.value)
        return ""

    def _number(self, *parts: ast.expr) -> str:
        kinds = {self.kind(part) for part in parts}
        return RANK if RANK in kinds else SIZE if SIZE in kinds else ""

    def _attribute(self, node: ast.Attribute) -> str:
        if node.attr == "COMM_WORLD":
            return JOB
        tables = {
            SESSION: OF_SESSION,
            GRID: OF_GRID,
            JOB: OF_COMM,
            COMM: OF_COMM,
            OBJECT: OF_OBJECT,
        }
        base = self.kind(node.value)
        if base == PART and node.attr in VIEWS:
            return PART
        return tables.get(base, {}).get(node.attr, "")

    def _call(self, node: ast.Call) -> str:
        called = node.func
        if session_is_opened(node):
            return SESSION
        if not isinstance(called, ast.Attribute):
            return ""
        base = self.kind(called.value)
        if base == SESSION and called.attr in DECLARES:
            return OBJECT
        if base in COMMS and called.attr in MAKES_COMM:
            return COMM
        if base in COMMS and called.attr in ("Get_rank", "Get_size"):
            return RANK if called.attr == "Get_rank" else SIZE
        if base == PART and called.attr in VIEWS:
            return PART
        if called.attr == "asarray" and node.args and self.kind(node.args[0]) == PART:
            return PART
        return ""

    def mentions(self, node: ast.expr, kind: str) -> bool:
        """Whether an expression depends on something of this kind.

        What a collective returns does not, whatever it is given: it is the same on all ranks.
        """
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            alike = node.func.attr.lower() in ALIKE
            if alike and self.kind(node.func.value) in COMMS:
                return False
        if self.kind(node) == kind:
            return True
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return any(self.mentions(part, kind) for part in parts)


def _is_view(index: ast.expr) -> bool:
    """Whether an index gives a view of an array, not a number or a copy."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) for part in parts) or (
        isinstance(index, ast.Constant) and index.value is Ellipsis
    )


def base_of(place: str) -> str:
    """The plain name in `a.b`."""
    return place.partition(".")[0]


def session_is_opened(node: ast.AST) -> bool:
    """Whether an expression opens a session: `resize_lib.session(...)`, `session(...)`."""
    return isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "session"
