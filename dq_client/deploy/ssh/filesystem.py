"""Folders that lie on a network file system.

SQLite's journal needs locks and shared memory that work, and the folder of an agent has sockets and
locks: neither is safe where several machines mount the same folder.
"""

from __future__ import annotations

from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORK_TYPES = {
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "lustre", "gpfs", "beegfs", "ceph", "wekafs"),
    *("glusterfs", "panfs", "pvfs2", "orangefs", "ocfs2", "gfs2"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.beegfs"),
}


def kind_of(folder: Path, mounts: str | None = None) -> str:
    """The type of the file system that a folder lies on, or will; empty if that is not known."""
    text = MOUNTS.read_text() if mounts is None else mounts
    target, found, length = folder.resolve(), "", -1
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        words = before.split()
        if len(words) < 5 or not after:
            continue
        mounted = Path(words[4].replace("\\040", " "))
        # The last of several mounts on one folder covers those before it.
        if (mounted == target or mounted in target.parents) and len(mounted.parts) >= length:
            found, length = after.split()[0], len(mounted.parts)
    return found


def network_kind(folder: Path, mounts: str | None = None) -> str:
    """The type if it is a network file system, else empty."""
    try:
        kind = kind_of(folder, mounts)
    except OSError:
        return ""
    return kind if kind in NETWORK_TYPES else ""
