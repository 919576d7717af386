"""Which interface a cluster's network means on a machine, and what follows for its ranks."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from dq_client.base import network
from dq_client.base.address import endpoint, host_and_port, is_ipv6, is_remote
from dq_client.base.errors import UsageError
from dq_client.base.network import LocalAddress, Network, find, rank_settings


def place(interface: str, text: str) -> LocalAddress:
    found = ipaddress.ip_interface(text)
    return LocalAddress(interface, found.ip, found.network)


HERE = [
    place("lo", "127.0.0.1/8"),
    place("docker0", "172.17.0.1/16"),
    place("eth0", "fd77::2/64"),
    place("eth0", "10.77.0.2/24"),
    place("ib0", "192.168.5.2/24"),
]
SERVER = ipaddress.ip_address("10.77.0.1")
SERVER_6 = ipaddress.ip_address("fd77::1")


@pytest.mark.parametrize(
    ("wanted", "towards", "address"),
    [
        ("eth0", SERVER, "10.77.0.2"),
        ("eth0", SERVER_6, "fd77::2"),
        ("eth0", None, "10.77.0.2"),
        ("10.77.0.0/24", SERVER, "10.77.0.2"),
        ("10.77.0.1", SERVER, "10.77.0.2"),  # the server's own address: the network it lies on
        ("fd77::/64", SERVER_6, "fd77::2"),
        ("192.168.5.2", None, "192.168.5.2"),
        ("ib0", None, "192.168.5.2"),
    ],
)
def test_interface(wanted: str, towards: network.IP | None, address: str) -> None:
    assert str(find(wanted, towards, HERE).address) == address


@pytest.mark.parametrize("wanted", ["eth7", "10.99.0.0/24", "10.99.0.1", "fd99::/64"])
def test_what_is_not_there_is_named_with_what_is(wanted: str) -> None:
    with pytest.raises(UsageError, match=r"no interface .* here; .*eth0 \(10.77.0.2\)"):
        find(wanted, SERVER, HERE)


def test_an_interface_without_an_address_of_the_servers_kind_is_none() -> None:
    with pytest.raises(UsageError, match="no interface ib0"):
        find("ib0", SERVER_6, HERE)


def test_without_a_word_it_is_the_one_that_leads_to_the_server() -> None:
    assert find("", ipaddress.ip_address("127.0.0.1")).interface == "lo"
    with pytest.raises(UsageError, match=r"no way to 10\.77\.0\.1"):
        find("", SERVER, [])


def test_what_ranks_are_told() -> None:
    plain = rank_settings(Network(), HERE[3])
    assert plain["UCX_NET_DEVICES"] == "eth0"
    assert "UCX_TCP_PORT_RANGE" not in plain
    told = rank_settings(Network(ucx_devices="mlx5_0:1", ports="30000-30100"), HERE[2])
    assert told["UCX_NET_DEVICES"] == "mlx5_0:1"
    assert told["UCX_TCP_PORT_RANGE"] == told["DQ_PORTS"] == "30000-30100"
    assert told["MPIEXEC_PORT_RANGE"] == "30000:30100"
    assert told["UCX_TCP_AF_PRIO"].startswith("inet6")


@pytest.mark.parametrize("ports", ["30000", "80-90", "30100-30000", "1-99999", "a-b"])
def test_odd_ranges_of_ports_are_refused(ports: str) -> None:
    with pytest.raises(UsageError, match="two ports"):
        Network(ports=ports).port_range()


def test_a_port_of_the_range_that_is_free_is_taken() -> None:
    loopback = ipaddress.ip_address("127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="no free port on"):
            network.free_port(Network(ports=f"{port}-{port}"), loopback)
        taken.close()
        assert network.free_port(Network(ports=f"{port}-{port}"), loopback) == port


def test_addresses() -> None:
    assert endpoint("fd77::1", 5) == "tcp://[fd77::1]:5"
    assert host_and_port("tcp://[fd77::1]:5") == ("fd77::1", "5")
    assert is_ipv6("tcp://[fd77::1]:5")
    assert not is_ipv6("tcp://10.0.0.1:5")
    remote = ["tcp://10.0.0.1:5", "tcp://[fd77::1]:5", "tcp://head:5", "tcp://127.example.org:5"]
    inside = ["tcp://127.0.0.1:5", "tcp://[::1]:5", "tcp://localhost:5", "ipc:///tmp/x"]
    assert [is_remote(a) for a in remote + inside] == [True] * 4 + [False] * 4
