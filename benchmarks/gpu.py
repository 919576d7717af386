"""Whether programs with their data on a GPU find the same, bit for bit, when they are resized.

    python -m benchmarks.gpu [--cells 96] [--iterations 60] [--samples 1024] [--cpu]

Two programs run on a cluster on this machine, each on one processor and then resized 1, 2, 4, 1:
heat in three dimensions with cupy arrays (_gpu_heat.py) and a torch module (_gpu_train.py). Ranks
share the GPUs, by rank. Needs cupy and torch, and a GPU; what is missing is skipped, with a line
that says so. `--cpu` runs the same programs with numpy, and with torch on the processor.

Exit code 1 if a result differs, 0 if all that ran were equal, 77 if nothing could run.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from harness import walks
from harness.commands import ROOT, ClusterError
from harness.live import Live

GATES = {8: 2, 24: 4, 40: 1}
NOTHING_RAN = 77
LIMIT_S = 900.0  # a GPU's first kernels are compiled


def missing(package: str, *, on_gpu: bool) -> str:
    """Why a program with this package cannot run here; empty if it can."""
    try:
        module = importlib.import_module(package)
        if not on_gpu:
            return ""
        cuda = module.cuda
        count = cuda.device_count() if package == "torch" else cuda.runtime.getDeviceCount()
    except Exception as e:  # without a driver they raise errors of their own
        return f"{package}: {type(e).__name__}: {e}".splitlines()[0]
    return "" if count else f"{package} finds no GPU"


def compare(cluster: Live, folder: Path, name: str, words: list[object]) -> bool:
    """Whether a program prints the same resized and not; prints the verdict."""
    program = [ROOT / "benchmarks" / f"_gpu_{name}.py", *words]
    folder.mkdir()
    try:
        wanted = walks.plain(cluster, program, LIMIT_S)
        found = walks.resized(cluster, folder, program, GATES, LIMIT_S)
    except ClusterError as e:
        print(f"{name}: {e}")
        return False
    same = bool(wanted) and found == wanted
    sizes = ", ".join(map(str, [1, *GATES.values()]))
    print(f"{name}: {'equal' if same else 'DIFFERENT'} on one processor and resized {sizes}")
    print(wanted if same else f"{wanted}{found}", end="", flush=True)
    return same


def main(words: list[str] | None = None) -> int:
    """Run what can be run here; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cells", type=int, default=96, help="along each axis")
    parser.add_argument("--iterations", type=int, default=60, help="at least 50")
    parser.add_argument("--samples", type=int, default=1024, help="a multiple of 64")
    parser.add_argument("--cpu", action="store_true")
    o = parser.parse_args(words)
    if o.iterations < max(GATES) + 10 or o.samples % 64:
        parser.error("at least 50 iterations, and a multiple of 64 samples")
    device = "cpu" if o.cpu else "cupy"
    programs = {"heat": ("numpy" if o.cpu else "cupy", o.cells), "train": ("torch", o.samples)}
    lacking = {name: missing(package, on_gpu=not o.cpu) for name, (package, _) in programs.items()}
    for name, why in lacking.items():
        if why:
            print(f"{name}: skipped: {why}")
    if all(lacking.values()):
        return NOTHING_RAN
    with tempfile.TemporaryDirectory(prefix="dq-gpu-") as folder:
        cluster = Live(Path(folder, "home"))
        try:
            walks.up(cluster, 4, Path(folder))
            outcomes = [
                compare(cluster, Path(folder, name), name, [device, extent, o.iterations])
                for name, (_, extent) in programs.items()
                if not lacking[name]
            ]
        finally:
            cluster.clear()
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
