"""Who may import whom (ARCHITECTURE.md): the import rules of the packages."""

from __future__ import annotations

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STDLIB = frozenset(sys.stdlib_module_names)

# Package -> what it may import beside the standard library and itself.
PACKAGES = {
    "dq_server/core": {"numpy"},
    "dq_server/sim": {"numpy", "dq_server.core"},
    "dq_server/live": {"dq_server.core", "dq_client", "zmq", "psutil", "msgspec"},
    "dq_client": {"msgspec", "zmq", "psutil", "click", "rich"},
    "resize_lib": {"mpi4py", "numpy", "dq_client"},
    "apps": {"resize_lib", "mpi4py", "numpy"},
}
# What stands around the product. Each may import the product and the harness, none another.
AROUND = {
    "harness": set[str](),
    "benchmarks": {"harness"},
    "experiments": {"harness"},
    "tests": {"harness"},
}
# Tests whose subject is an experiment or a benchmark: each may import that one.
SUBJECTS = {
    "tests/client/test_any_mpi_lost.py": {"benchmarks.any_mpi"},
    "tests/live/test_adaptation_phases.py": {"experiments.adaptation_phases"},
    "tests/live/test_fuzz.py": {"benchmarks.fuzz"},
    "tests/sim/test_forecast.py": {"benchmarks.forecast"},
    "tests/live/test_gpu.py": {"benchmarks.gpu"},
    "tests/live/test_loss.py": {"benchmarks.loss"},
    "tests/mpi/test_linalg_node.py": {"benchmarks.linalg_node"},
    "tests/plan/test_porting_cost.py": {"benchmarks.porting"},
    "tests/sim/test_dynamic_esp.py": {"experiments.dynamic_esp"},
    "tests/sim/test_experiments.py": {
        f"experiments.{name}"
        for name in (
            "dynamic_esp", "dynamic_waits", "job_mixes", "klein_perez", "limited_horizon", "mebf",
            "mebf_events", "mebf_rules", "pool_costs", "probing",
        )
    },
    "tests/sim/test_family.py": {"experiments.family"},
    "tests/sim/test_klein_perez.py": {"experiments.klein_perez"},
    "tests/sim/test_spots.py": {"benchmarks.spots", "experiments.changing_spots"},
    "tests/sim/test_twin_model.py": {"experiments.twin"},
}  # fmt: skip
# Files that are doors: they may also import these (and say why).
DOORS = {
    # the command line of the simulator; found by `dq` through an entry point
    "dq_server/sim/cli.py": {"click"},
    "dq_server/sim/one_line.py": {"click"},
    "dq_server/sim/plan_command.py": {"click"},
    "dq_server/sim/run_command.py": {"click"},
    "dq_server/sim/replay_command.py": {"click"},
    "dq_server/sim/shadow_command.py": {"click"},
    "dq_server/sim/import_command.py": {"click"},
    "dq_server/sim/forecast_command.py": {"click"},
    "dq_server/sim/study/command.py": {"click"},
    # figures: matplotlib is imported only when one is asked for
    "dq_server/sim/plots.py": {"matplotlib"},
    "dq_server/sim/study/figures.py": {"matplotlib"},
    # the live page, an extra; its command imports them only to serve
    "dq_client/show/web/site.py": {"starlette"},
    "dq_client/show/web/limits.py": {"uvicorn"},
    "dq_client/show/web/process.py": {"uvicorn"},
    "dq_client/show/web/metrics.py": {"prometheus_client"},
    # the terminal's page, an extra; its command imports them only to show it
    "dq_client/show/top/app.py": {"textual"},
    "dq_client/show/top/detail.py": {"textual"},
    "dq_client/show/top/listing.py": {"textual"},
    "dq_client/show/top/looks.py": {"textual"},
    # building libdq: an extra, for programs in C
    "resize_lib/c/build.py": {"cffi"},
    "dq_server/sim/progress.py": {"rich"},
    # programs that declare sparse matrices get them as scipy's where that is installed
    "resize_lib/declared/csr.py": {"scipy.sparse"},
    # programs that keep parts on a GPU have cupy
    "resize_lib/declared/device.py": {"cupy"},
}
# What the core must never touch: clocks, sockets, files, randomness, processes.
IMPURE = {
    "asyncio", "datetime", "os", "pathlib", "random", "secrets", "shutil", "socket", "sqlite3",
    "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip


# Loaded by starters under another name, in interpreters without DQ.
RANKS = ROOT / "dq_client" / "node" / "ranks"
STARTED = [
    *sorted(RANKS.glob("*.py")),
    *(
        ROOT / "dq_client" / "base" / f"{name}.py"
        for name in ("channel", "imports", "opened", "process")
    ),
]
OF_STARTED = {
    "dq_client.node.ranks",
    *(f"dq_client.base.{path.stem}" for path in STARTED if path.parent != RANKS),
}


@cache
def imported(path: Path) -> frozenset[str]:
    """Modules a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                assert path in STARTED, f"{path}: relative import"
                package = path.relative_to(ROOT).parts[: -node.level]
                module = ".".join([*package, *([module] if module else [])])
            found.add(module)
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def within(module: str, packages: set[str]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in packages)


def test_a_starter_needs_the_standard_library_only() -> None:
    wrong = [
        f"{path.name}: {module}"
        for path in STARTED
        for module in imported(path) - {"dq_client.base"}  # half of `from ...base import opened`
        if module.partition(".")[0] not in STDLIB and not within(module, OF_STARTED)
    ]
    assert not wrong


def test_a_starter_s_modules_import_each_other_relatively() -> None:
    """In a job's interpreter the package has another name."""
    for path in STARTED:
        assert "from dq_client" not in path.read_text(), path.name


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_they_may(package: str) -> None:
    own = package.replace("/", ".")
    wrong = []
    for path in files(package):
        name = str(path.relative_to(ROOT))
        allowed = PACKAGES[package] | {own, "__future__"} | DOORS.get(name, set())
        wrong += [
            f"{name}: {module}"
            for module in imported(path)
            if module.partition(".")[0] not in STDLIB and not within(module, allowed)
        ]
    assert not wrong


@pytest.mark.parametrize("package", AROUND)
def test_tests_benchmarks_and_experiments_share_only_the_harness(package: str) -> None:
    wrong = []
    for path in files(package):
        name = str(path.relative_to(ROOT))
        allowed = AROUND[package] | {package} | SUBJECTS.get(name, set())
        # A package's bare name is the first half of `from experiments import mebf`.
        found = {m for m in imported(path) if within(m, set(AROUND)) and m not in AROUND}
        wrong += [f"{name}: {module}" for module in found if not within(module, allowed)]
    assert not wrong


def test_programs_of_tests_start_without_what_tests_need() -> None:
    """Each rank of each test would pay for it: 0.3 s of processor time for hypothesis alone."""
    reached = set(files("tests/mpi/programs"))
    todo = [*reached]
    while todo:
        path = todo.pop()
        assert not imported(path) & {"hypothesis", "pytest"}, path
        names = [name for name in imported(path) if within(name, set(AROUND))]
        near = {ROOT / f"{name.replace('.', '/')}.py" for name in names}
        todo += [path for path in near - reached if path.is_file()]
        reached |= near


def test_every_exception_is_used() -> None:
    for name, subjects in SUBJECTS.items():
        assert subjects <= imported(ROOT / name), name


@pytest.mark.parametrize("package", PACKAGES)
def test_the_product_does_not_need_what_stands_around_it(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in files(package)
        for module in imported(path)
        if within(module, set(AROUND))
    ]
    assert not wrong


def test_users_get_none_of_it() -> None:
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert not set(AROUND) & set(built["targets"]["wheel"]["only-include"])


def test_the_core_is_pure() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in files("dq_server/core")
        for module in imported(path)
        if module.partition(".")[0] in IMPURE or module == "numpy.random"
    ]
    assert not wrong


def test_the_core_draws_no_random_numbers() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in files("dq_server/core")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "random"
    ]
    assert not wrong


def test_no_pickle_outside_mpi() -> None:
    """No socket of ours carries pickle; MPI between the ranks of one job may, and an executor must:
    a function is what it sends, between a program and its own workers (docs/security.md)."""
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for package in ("dq_server", "dq_client")
        for path in files(package)
        for module in imported(path)
        if module.partition(".")[0] in {"pickle", "cloudpickle", "dill", "marshal", "shelve"}
        and path != ROOT / "dq_client/executor/tasks.py"
    ]
    assert not wrong


def test_one_module_holds_the_wire_messages() -> None:
    """`live/translate.py` and the request handlers meet both worlds; the core never does."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in files("dq_server/core")
        for module in imported(path)
        if within(module, {"dq_client", "msgspec"})
    ]
    assert not wrong


def test_the_command_line_prints_through_one_place() -> None:
    """dq_client/show/output.py makes what others say harmless; nobody prints beside it."""
    prints = [
        f"{path.name}:{node.lineno}"
        for path in files("dq_client/cli")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo")
    ]
    assert prints == []
