"""A node of its own: a process in new network, host name, IPC, mount and process namespaces.

With a network namespace alone, MPI notices that ranks share memory and uses it; so a node also has
its own /dev/shm, its own processes (the agent is number 1: when it dies the kernel ends every
process of the node at once) and its own name.
"""

from __future__ import annotations

import ctypes
import os
import socket

NEW_MOUNTS = 0x00020000
NEW_NAME = 0x04000000
NEW_IPC = 0x08000000
NEW_PIDS = 0x20000000
NEW_NET = 0x40000000
PRIVATE, RECURSIVE, BIND = 1 << 18, 1 << 14, 1 << 12

_libc = ctypes.CDLL(None, use_errno=True)


def unshare() -> None:
    """Leave all five namespaces; children are in the new one of processes. OSError if not root."""
    _checked(_libc.unshare(NEW_MOUNTS | NEW_NAME | NEW_IPC | NEW_PIDS | NEW_NET), "unshare")


def settle(name: str) -> None:
    """In the first process of the new namespaces: own name, /proc, /dev/shm and /sys."""
    socket.sethostname(name)
    _mount("none", "/", None, PRIVATE | RECURSIVE)
    _mount("proc", "/proc", "proc", 0)
    _mount("tmpfs", "/dev/shm", "tmpfs", 0)  # noqa: S108 - mounted afresh, for this node alone
    # MPI looks for network interfaces in /sys, which shows those of the namespace it was mounted
    # from; the control groups below it must stay within reach.
    groups = os.open("/sys/fs/cgroup", os.O_PATH)
    _mount("sysfs", "/sys", "sysfs", 0)
    _mount(f"/proc/self/fd/{groups}", "/sys/fs/cgroup", None, BIND | RECURSIVE)
    os.close(groups)


def _mount(source: str, target: str, kind: str | None, flags: int) -> None:
    words = [source.encode(), target.encode(), None if kind is None else kind.encode()]
    _checked(_libc.mount(*words, flags, None), f"mount {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
