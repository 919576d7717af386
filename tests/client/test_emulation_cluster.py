"""Emulated clusters: the files that ship, what is refused, and which mechanism is chosen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dq_client.base import cgroups
from dq_client.base.errors import UsageError
from dq_client.deploy import mechanism
from dq_client.deploy.cluster import ClusterShape, read_cluster
from dq_client.deploy.mechanism import require_fit
from dq_client.node.emulation import network

HOSTFILES = Path(__file__).parents[2] / "hostfiles"


@pytest.fixture
def opteron() -> ClusterShape:
    return read_cluster(HOSTFILES / "opteron36.toml")


def scaled(cluster: ClusterShape, factor: float) -> ClusterShape:
    nodes = [
        msgspec.structs.replace(n, core_share=factor * (n.core_share or 1.0)) for n in cluster.nodes
    ]
    return replace(cluster, nodes=tuple(nodes))


def test_every_shipped_file_is_read() -> None:
    found = {path.stem: read_cluster(path) for path in sorted(HOSTFILES.glob("*.toml"))}
    assert found["laptop"].processors == 4
    assert found["opteron36"].processors == found["opteron36-slow"].processors == 36
    assert {n.core_share for n in found["opteron36"].nodes} == {0.05}
    fast, slow = found["opteron36"].nodes[0], found["opteron36-slow"].nodes[0]
    assert (fast.link_mbit, slow.link_mbit) == (1000, 100)
    assert (fast.link_duplex, slow.link_duplex) == ("full", "shared")
    assert found["hosts-example"].processors == 2 * 8 + 4 * 16


def test_two_cores_carry_the_opterons(opteron: ClusterShape) -> None:
    require_fit(opteron, cores=2)


def test_too_many_shares_are_refused_with_what_would_fit(opteron: ClusterShape) -> None:
    with pytest.raises(UsageError) as refusal:
        require_fit(scaled(opteron, 2), cores=2)
    text = str(refusal.value)
    assert "3.6 cores" in text
    assert "has 2" in text
    assert "first 20 nodes" in text
    factor = float(text.rpartition(" times ")[2])
    require_fit(scaled(opteron, 2 * factor), cores=2)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('engine = "local"\n[link]\nrate_mbit = 10', "[link]"),
        ('engine = "hosts"\n[[nodes]]\nnames = "a"\n[link]\nrate_mbit = 10', "emulated"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a"\n[link]\nrate_mbit = 0', "rate_mbit = 0"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a"\n[link]\nrate_mbit = nan', "rate_mbit = nan"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a"\n[link]\nlatency_us = inf', "us = inf"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a"\nspeed = nan', "speed = nan"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a\\n"', "not a node name"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a"\ncore_share = 1.5', "core_share = 1.5"),
        ('engine = "emulated"\n[[nodes]]\nnames = "a"\n[link]\nduplex = "both"', "duplex"),
        ('engin = "local"', "unknown key 'engin'; did you mean 'engine'?"),
        ('engine = "locl"', "unknown engine 'locl'; did you mean 'local'?"),
        ('processors = "four"', "processors: a whole number is needed, not a text"),
        ('engine = "emulated"\n[[nodes]]\nspeed = 1', "nodes entry 1: the key 'names' is missing"),
        ('[[nodes]]\nname = "a"', "nodes entry 1: unknown key 'name'; did you mean 'names'?"),
        ('[[nodes]]\nnames = ["a", 3]', "nodes entry 1 names entry 2: a text"),
        ('[nodes]\nnames = "a"', "nodes: a list (write [[nodes]]) is needed, not a table"),
        ('[link]\nduplex = "hal"', "link duplex: 'hal' is unknown; did you mean 'half'?"),
        ("[link]\nrate = 3", "link: unknown key 'rate'; did you mean 'rate_mbit'?"),
        ('[slurm]\npartion = "x"', "slurm: unknown key 'partion'; did you mean 'partition'?"),
        (
            "[network]\nport = 1",
            "network: unknown key 'port'; did you mean 'ports'?",
        ),
    ],
)
def test_senseless_files_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=str(path)) as refusal:
        read_cluster(path)
    assert complaint in str(refusal.value)


def test_paced_says_what_it_leaves_out(opteron: ClusterShape) -> None:
    chosen = mechanism.choose(opteron, "paced")
    assert chosen.name == "paced"
    assert "not slowed" in chosen.words


def test_without_control_groups_auto_is_paced_and_contained_is_refused(
    opteron: ClusterShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cgroups, "find", lambda: None)
    assert mechanism.choose(opteron, "auto").name == "paced"
    with pytest.raises(UsageError, match=r"no control groups.*--fidelity paced"):
        mechanism.choose(opteron, "contained")


def test_quotas_are_never_below_what_the_kernel_takes() -> None:
    for cores in (0.001, 0.005, 0.05, 0.5, 1.0, 2.0):
        quota_us, period_us = cgroups.quota(cores)
        assert quota_us >= cgroups.QUOTA_US_MIN
        assert quota_us / period_us == pytest.approx(cores, rel=0.01)


def test_interfaces_fit_the_kernels_names_and_addresses_differ() -> None:
    net = network.EmulatedNetwork("abcdef", 1000.0)
    assert len(net.port(9999)) <= 15
    indices = range(1000)
    assert len({net.address(i) for i in indices}) == len({net.hardware(i) for i in indices}) == 1000
