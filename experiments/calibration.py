"""The measured speed of the emulated nodes, stored beside each result.

`dq doctor --emulation` measures the cluster file of an experiment before the experiment runs.
Quick forms measure with one number of busy nodes only, `--no-calibration` skips the measurement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.commands import ClusterError, run_dq
from harness.live import cluster_path
from harness.output import note

QUICK_BUSY = "9"
LIMIT_S = 300

Calibration = dict[str, Any]


def add_calibration_option(parser: argparse.ArgumentParser) -> None:
    """--no-calibration."""
    parser.add_argument(
        "--no-calibration", action="store_true", help="do not measure the nodes beforehand"
    )


def calibrate(
    networks: Sequence[str], *, fidelity: str = "paced", options: argparse.Namespace
) -> list[Calibration]:
    """Measure the clusters of `networks`; none with --no-calibration.

    Raises:
        ClusterError: a cluster cannot be measured. Nodes that deviate from the
            cluster file are not an error: the result records by how much.
    """
    if options.no_calibration:
        return []
    return [_measure(network, fidelity, quick=options.quick) for network in networks]


def _measure(network: str, fidelity: str, *, quick: bool) -> Calibration:
    words = ["doctor", "--emulation", str(cluster_path(network)), "--fidelity", fidelity, "--json"]
    words += ["--busy", QUICK_BUSY] if quick else []
    note(f"measuring the nodes of the {network} network ...")
    done = run_dq(*words, timeout_s=LIMIT_S)
    if not done.stdout:
        raise ClusterError(f"dq {' '.join(words)}: {done.stderr.strip()}")
    found: Calibration = json.loads(done.stdout)
    return found


def in_words(calibrations: Sequence[Calibration]) -> str:
    """One line of text for each cluster."""
    return "\n".join(map(_line, calibrations))


def _line(found: Calibration) -> str:
    speeds = ", ".join(
        f"{100 * row['error']:+.1f} % with {row['busy']} busy" for row in found["rows"]
    )
    link = found["link"]
    linked = f"; link {100 * link['error']:+.1f} %" if link else ""
    return f"nodes of {found['cluster']} ({found['mechanism']}), asked and given: {speeds}{linked}"


def save_beside(result: Path, calibrations: Sequence[Calibration]) -> None:
    """Write RESULT.calibration.json."""
    if calibrations:
        path = result.with_name(result.name + ".calibration.json")
        path.write_text(json.dumps({"schema": 1, "clusters": list(calibrations)}, indent=1) + "\n")
