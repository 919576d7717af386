"""The words that programs for MPI, numpy and DQ use, by what they mean for a resize."""

from __future__ import annotations

# What a value may come from, as bits. TIME, RANDOM, PROCESS and IDENTITY are reported as "clock".
# FROZEN: the number of ranks, through a collective call, whose result a rank that joins gets, too.
RANK, SIZE, PART, TIME, RANDOM, EMPTY, PROCESS, IDENTITY, FROZEN = (1 << k for k in range(9))
CLOCK = TIME | RANDOM | PROCESS | IDENTITY

# Kinds of values.
SESSION, COMM, GRID, OBJECT, VALUE, LOCAL, RNG, FILE, SHOW, PLAIN, GENERATOR, METHOD, BUFFER = (
    *("session", "comm", "grid", "object", "value", "part", "rng", "file", "show", "plain"),
    *("generator", "method", "buffer"),  # "method:Bcast": of a communicator, under another name
)
POOL = "pool"  # of threads: what is given to it changes, and not the pool
FUNCTIONS = "functions:"  # of a display of the file's functions, with their scopes: "functions:3,4"
BY_NAME = {"rs": SESSION, "session": SESSION, "comm": COMM, "world": COMM, "cart": COMM}

DECLARES = {"matrix", "array", "parcel", "cartesian", "csr", "items", "local_state"}
OF_SESSION = {"rank": RANK, "size": SIZE, "places": SIZE, "processors": SIZE}
OF_COMM = {"rank": RANK, "size": SIZE, "coords": RANK, "topo": RANK, "dims": SIZE}
OF_COMM |= {"group": RANK | SIZE}
OF_GRID = {"rank": RANK, "row": RANK, "col": RANK}
OF_GRID |= {"size": SIZE, "rows": SIZE, "cols": SIZE, "shape": SIZE}
COMMS = {"comm", "cart", "row_comm", "col_comm", "COMM_WORLD"}
ALIKE_OBJECT = {"shape", "name", "desc", "dtype", "gather", "allgather", "nnz_total", "value"}
DECLARED_PARTS = {"local", "interior", "value"}  # stored to: part of the job's declared data

# Methods of communicators, in lower case.
EQUAL = {"bcast", "allreduce", "allgather", "allgatherv", "barrier", "ibarrier", "abort"}
EQUAL |= {"iallreduce", "ibcast", "iallgather"}
SINGLE = {
    *("send", "recv", "isend", "irecv", "ssend", "bsend", "issend", "sendrecv", "probe", "iprobe"),
    *("sendrecv_replace", "isendrecv", "isendrecv_replace", "mprobe", "improbe"),
    *("scatter", "scatterv", "gather", "gatherv"),
    *("reduce", "ireduce", "igather", "iscatter", "alltoall", "alltoallv", "alltoallw", "scan"),
    *("exscan", "reduce_scatter", "reduce_scatter_block", "ialltoall"),
}
ON_ROOT = {"gather", "gatherv", "igather", "reduce", "ireduce"}  # one rank gets the result
RECEIVES = {"recv", "irecv", "sendrecv", "scatter", "scatterv", "gather", "gatherv", "reduce"}
RECEIVES |= {"alltoall", "alltoallv", "alltoallw", "scan", "exscan", "reduce_scatter"}
RECEIVES |= {"allreduce", "allgather", "allgatherv", "sendrecv_replace", "bcast", "ireduce"}
# What each rank receives is a part, for as many ranks as there are.
DIVIDED = dict.fromkeys(("scatter", "scatterv", "iscatter", "alltoall", "alltoallv"), SIZE | PART)
DIVIDED |= dict.fromkeys(("alltoallw", "ialltoall", "reduce_scatter"), SIZE | PART)
DIVIDED |= {"reduce_scatter_block": SIZE | PART, "scan": PART, "exscan": PART}
RECEIVES |= {"iallreduce", "ibcast", "iallgather", "igather", "iscatter", "reduce_scatter_block"}
RECEIVES |= {"isendrecv", "isendrecv_replace"}
# Where the buffer stands that is received into, if not second.
RECEIVED_AT = dict.fromkeys(("recv", "irecv", "bcast", "ibcast", "sendrecv_replace"), 0)
RECEIVED_AT |= {"sendrecv": 3, "isendrecv": 3}
FROM_ONE = {"recv", "irecv", "sendrecv", "isendrecv", "sendrecv_replace", "isendrecv_replace"}
MAKES_COMM = {"dup", "clone", "split", "split_type", "create", "create_cart", "create_group", "sub"}

# Functions by the last part of their name.
TIMES = {
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns"),
    *("process_time", "thread_time", "Wtime", "now", "utcnow", "today", "default_timer"),
}
PROCESSES = {
    *("getpid", "getppid", "gethostname", "getfqdn", "uuid1", "uuid4", "urandom", "id", "node"),
    *("mkdtemp", "mkstemp", "gettempdir", "NamedTemporaryFile", "TemporaryDirectory", "get_ident"),
    *("token_hex", "token_bytes", "sched_getaffinity", "getrusage"),
}
MAKES_RNG = {"default_rng", "RandomState", "Random", "Generator", "PCG64", "Philox", "MT19937"}
MAKES_RNG |= {"SeedSequence", "SystemRandom"}
LIBRARIES = {"numpy", "cupy", "torch", "math", "cmath", "scipy", "operator", "itertools"}
LIBRARIES |= {"functools", "statistics", "copy", "string", "fractions", "decimal", "collections"}
UNDEFINED = {"empty", "empty_like", "ndarray"}
SAVES = {"save", "savez", "savetxt", "savez_compressed", "tofile", "load_library", "seterr"}
BUILTINS = {
    *("abs", "all", "any", "bool", "bytes", "bytearray", "chr", "complex", "dict", "divmod"),
    *("enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "int", "isinstance"),
    *("issubclass", "iter", "len", "list", "map", "max", "memoryview", "min", "object", "ord"),
    *("pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "super"),
    *("tuple", "type", "zip", "getattr", "hasattr", "callable", "Fraction", "Decimal", "deque"),
    *("defaultdict", "Counter", "OrderedDict", "namedtuple", "deepcopy", "vars", "dir", "Path"),
}
READS_ALL = {"asdict", "astuple", "dumps"}  # all attributes of an object
SHOWS = {"print", "pprint", "log", "debug", "info", "warning", "error", "exception", "critical"}
SHOWS |= {"set_description", "set_postfix", "set_postfix_str", "write", "writelines", "writerow"}
SHOWS |= {"writerows", "flush", "close", "add_scalar", "note", "warn"}
MAKES_SHOW = {"tqdm", "trange", "getLogger", "writer", "DictWriter", "SummaryWriter", "Progress"}

# Methods of containers and arrays.
GROWS = {
    *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "pop", "popleft"),
    *("popitem", "remove", "discard", "subtract", "rotate", "difference_update", "put"),
    *("symmetric_difference_update", "intersection_update", "move_to_end", "put_nowait"),
    "get_nowait",
}  # fmt: skip
DROPS = {"pop", "discard", "remove"}  # with an argument: that item, and the others stay
REORDERS = {"sort", "reverse", "setdefault", "resize", "setflags", "shuffle"}
SPLITS = {"array_split", "split", "hsplit", "vsplit", "dsplit"}
# Functions of numpy that take an array for the result after one operand, or after two.
OF_ONE = {"exp", "log", "sqrt", "square", "sin", "cos", "tan", "tanh", "abs", "absolute"}
OF_ONE |= {"negative", "floor", "ceil", "rint", "sign", "reciprocal", "conjugate", "isnan"}
OF_TWO = {"add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "power"}
OF_TWO |= {"maximum", "minimum", "mod", "remainder", "fmax", "fmin", "hypot", "matmul"}
LISTS = {"list", "tuple", "sorted", "reversed", "iter"}  # the same items in another container
# Functions of numpy, and heappush, that change their first argument.
CHANGES_FIRST = {"copyto", "at", "fill_diagonal", "put", "putmask", "place", "put_along_axis"}
CHANGES_FIRST |= {"heappush"}
VIEWS = {"reshape", "ravel", "transpose", "swapaxes", "squeeze", "view", "moveaxis", "atleast_1d"}
VIEWS |= {"atleast_2d", "asarray", "expand_dims", "flip", "flat", "memoryview", "T", "real", "imag"}
READS = {
    *("all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumsum"),
    *("count", "cpu", "decode", "detach", "dot", "encode", "endswith", "flatten", "format", "get"),
    *("index", "isdigit", "isdisjoint", "issubset", "item", "items", "join", "keys", "lower"),
    *("lstrip", "max", "mean", "min", "nonzero", "norm", "numpy", "partition", "prod", "ravel"),
    *("repeat", "replace", "reshape", "round", "rpartition", "rsplit", "rstrip", "split", "std"),
    *("startswith", "strip", "sum", "swapaxes", "title", "to", "tobytes", "tolist", "transpose"),
    *("union", "upper", "values", "var", "view", "zfill", "squeeze", "take", "trace", "toarray"),
    *(
        "intersection",
        "difference",
        "most_common",
        "elements",
        "diagonal",
        "searchsorted",
        "isoformat",
    ),
    *(
        "total_seconds",
        "strftime",
        "read",
        "readline",
        "readlines",
        "read_text",
        "exists",
        "hexdigest",
    ),
    # Of modules and optimizers of torch: gradients are no part of what travels.
    *("parameters", "named_parameters", "state_dict", "zero_grad"),
}
# Methods of paths, which none of them changes.
OF_PATHS = {
    *("absolute", "chmod", "expanduser", "glob", "is_dir", "is_file", "iterdir", "joinpath"),
    *("mkdir", "read_bytes", "relative_to", "rename", "resolve", "rglob", "rmdir", "stat"),
    *("symlink_to", "touch", "unlink", "with_name", "with_stem", "with_suffix", "write_bytes"),
    "write_text",
}
DRAWS = {
    *("random", "normal", "integers", "uniform", "choice", "choices", "randint", "randrange"),
    *("gauss", "permutation", "permuted", "shuffle", "sample", "standard_normal", "exponential"),
    *("poisson", "rand", "randn", "binomial", "bytes", "getrandbits", "beta", "gamma"),
}


def of_environment(name: str) -> int:
    """What a variable of the environment comes from: starters of ranks set some, and DQ others."""
    if "RANK" in name and "LOCAL" not in name:
        return RANK | SIZE  # of the world that the rank was started in, which is not the job
    if "SIZE" in name:
        return SIZE
    return PROCESS if name.startswith("DQ_") else 0


def named(bits: int) -> frozenset[str]:
    """What values come from, by name."""
    masks = {"rank": RANK, "size": SIZE, "part": PART, "clock": CLOCK, "empty": EMPTY}
    masks["id"] = IDENTITY
    return frozenset(name for name, mask in masks.items() if bits & mask)


def set_up(bits: int) -> frozenset[str]:
    """The same of what is computed before a loop, where a collective call is not made again."""
    return named(bits) | ({"rank", "size"} if bits & FROZEN else set())
