"""Cluster files of hosts, credentials, and folders on network file systems."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq

from dq_client.base import credentials
from dq_client.base.credentials import Credentials
from dq_client.base.errors import NoServer, UsageError
from dq_client.base.home import Home
from dq_client.base.network import Network
from dq_client.deploy.cluster import read_cluster
from dq_client.deploy.ssh.filesystem import kind_of, network_kind

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 head:/home rw
31 30 0:41 / /home/me/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:42 / /scratch rw - lustre mds:/s rw
33 32 0:43 / /scratch rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("folder", "kind", "shared"),
    [
        ("/var/tmp/dq", "ext4", ""),
        ("/home/me/.local/state/dq", "nfs4", "nfs4"),
        ("/home/me/local disk/dq", "xfs", ""),
        ("/scratch/dq", "tmpfs", ""),  # mounted over the other
        ("/homes", "ext4", ""),
    ],
)
def test_file_systems(folder: str, kind: str, shared: str) -> None:
    assert kind_of(Path(folder), MOUNTS) == kind
    assert network_kind(Path(folder), MOUNTS) == shared


def written(folder: Path, text: str) -> Path:
    path = folder / "hosts.toml"
    path.write_text(f'engine = "hosts"\n{text}')
    return path


def test_hosts(tmp_path: Path) -> None:
    found = read_cluster(
        written(
            tmp_path,
            '[[nodes]]\nnames = ["head", "node[08-10]"]\nprocessors = 4\n'
            '[[nodes]]\nnames = "big"\npython = "/opt/dq/bin/python"\nhome = "/local/dq"\n'
            '[network]\ninterface = "10.0.0.0/16"\nports = "30000-30100"\n',
        )
    )
    assert [h.name for h in found.hosts] == ["head", "node08", "node09", "node10", "big"]
    assert [h.processors for h in found.hosts] == [4, 4, 4, 4, None]
    assert (found.hosts[-1].python, found.hosts[-1].home) == ("/opt/dq/bin/python", "/local/dq")
    assert found.network == Network(interface="10.0.0.0/16", ports="30000-30100")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[[nodes]]\nnames = ["a", "a"]', "a is named twice"),
        ('[[nodes]]\nnames = "a"\nhome = "x"', "a path from / on"),
        ('[[nodes]]\nnames = "a"\nprocessors = 0', "processors = 0"),
        ('[[nodes]]\nnames = "a"\ncore_share = 0.5', "for emulated nodes"),
        ('[[nodes]]\nnames = "a"\n[network]\nports = "1"', "two ports"),
        ('[[nodes]]\nnames = "a"\n[network]\niface = "eth0"', "iface"),
        ('[[nodes]]\nnames = "-oProxyCommand=x"', "not a node name"),
    ],
)
def test_odd_files_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        read_cluster(written(tmp_path, text))


@pytest.fixture
def given() -> Credentials:
    public, secret = (key.decode() for key in zmq.curve_keypair())
    return Credentials("tcp://10.0.0.1:5555", public, secret, 1.5, 20.0, Network(interface="eth0"))


def test_credentials_are_read_from_a_private_file_only(tmp_path: Path, given: Credentials) -> None:
    path = tmp_path / "agent.json"
    path.write_text(credentials.encode(given))
    path.chmod(0o644)
    with pytest.raises(UsageError, match="open to others"):
        credentials.read(str(path))
    path.chmod(0o600)
    assert credentials.read(str(path)) == given
    path.write_text('{"address": "tcp://10.0.0.1:5555"}')
    with pytest.raises(UsageError, match="dq agent credentials"):
        credentials.read(str(path))


def test_an_agent_keeps_what_it_was_given_until_it_is_dismissed(
    tmp_path: Path, given: Credentials
) -> None:
    home = Home(tmp_path / "home")
    home.create()
    credentials.keep(home, "n1", given)
    assert (home.agent("n1") / "credentials").stat().st_mode & 0o777 == 0o600
    assert credentials.of_agent(home, "n1") == given
    credentials.forget(home, "n1")
    with pytest.raises(NoServer):
        credentials.of_agent(home, "n1")


def test_the_examples_of_the_documentation_are_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    blocks = [b.partition("```")[0] for b in page.split("```toml\n")[1:]]
    assert blocks
    for block in blocks:
        path = tmp_path / "hosts.toml"
        path.write_text(block)
        assert read_cluster(path).hosts
