"""What docs/cluster.md says of several machines and of installing, done on machines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.commands import ROOT
from harness.pages import put
from tests.lab.conftest import LabMaker, left
from tests.lab.machines import VENV
from tests.pages.owners import of

pytestmark = [pytest.mark.live, pytest.mark.mpi]

# The machines here, and how many cores they share.
HERE = {'names = ["alpha", "node[01-16]"]': 'names = ["alpha", "beta", "gamma", "delta"]',
        "processors = 4": "processors = 2"}  # fmt: skip


def test_the_first_cluster_of_the_page(make_lab: LabMaker) -> None:
    lab = make_lab("alpha", "beta", "gamma", "delta")
    (file,) = (block for block in of("cluster") if str(block) == "cluster.md-0")
    (commands,) = of("lab")
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{put(file.text, HERE)}X")
    said = lab.ok("alpha", "set -e\n" + commands.commands(), timeout_s=300)
    assert '"ok": true' in said.splitlines()[-1]
    assert not left(lab)


def test_installing_with_and_without_the_internet(make_lab: LabMaker, tmp_path: Path) -> None:
    """Wheels are gathered here, because machines of the lab have no internet."""
    lab = make_lab("alpha", "beta")
    usual, without = of("install")
    gather, *carry = without.commands().splitlines()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    made = subprocess.run(
        ["bash", "-c", gather.replace(" -w wheelhouse", f" -w {tmp_path}/wheelhouse")],
        cwd=ROOT, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    shutil.copytree(tmp_path / "wheelhouse", lab.shared / "wheelhouse")
    lab.ok("alpha", f"cp -r {lab.shared}/wheelhouse .")

    # Without the internet: carried from alpha to beta.
    there = {"/opt/dq": "/home/dqu/dq"}
    make = put(usual.commands(), {**there, "python3": sys.executable})
    lab.ok("beta", make.splitlines()[0])
    carried = put("\n".join(carry), {**there, "alpha": "beta"})
    lab.ok("alpha", f"set -eo pipefail\n{carried}", timeout_s=300)
    assert "dq" in lab.ok("beta", "/home/dqu/dq/bin/dq --version")

    # With an index: the gathered wheels, there is no other here.
    index = "set -e; export PIP_NO_INDEX=1 PIP_FIND_LINKS=wheelhouse\n"
    lab.ok("alpha", index + make, timeout_s=300)
    assert "dq" in lab.ok("alpha", "/home/dqu/dq/bin/dq --version")


def test_a_standby_on_another_machine(make_lab: LabMaker) -> None:
    lab = make_lab("alpha", "beta", "delta")
    (commands,) = of("lab-standby")
    hosts = 'engine = "hosts"\n[[nodes]]\nnames = "beta"\nprocessors = 2\n'
    lab.ok("alpha", f"cat > hosts.toml <<'X'\n{hosts}[network]\ninterface = \"eth0\"\nX")
    lab.ok("alpha", "dq up --cluster hosts.toml --detach")
    # What ssh runs there has no virtual environment in its PATH.
    there = put(commands.commands(), {"~/dq-standby dq ": f"~/dq-standby {VENV}/dq "})
    lab.ok("alpha", "set -e; umask 077\n" + there, timeout_s=120)
    assert "delta at tcp://10.77.0.3" in lab.ok("alpha", "dq server status")
    lab.ok("alpha", "dq down")
    assert not left(lab)
