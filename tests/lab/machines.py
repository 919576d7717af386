"""Machines inside one: each with a network, process ids, mounts, a name and an sshd of its own.

They share the file system below / (so this checkout and its environment are on all of them), a
folder `shared`, two networks (eth0: 10.77.0.x and fd77::x; eth1: 10.88.0.x) and nothing else. Every
one of them also has 172.17.0.1 on docker0, as machines with Docker do. $HOME is each machine's own
unless it is to be shared. Needs root, Debian's openssh-server and iproute2.

All namespaces are held by processes alone, without names: when these end nothing is left, and
several labs can stand side by side.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.commands import ROOT

USER, UID = "dqu", 4242
TOOLS = ("ip", "unshare", "nsenter", "setpriv", "ssh", "ssh-keygen", "/usr/sbin/sshd")
VENV = Path(sys.executable).parent
READY_WITHIN_S = 120.0
HELD = ("-m", "-u", "-i", "-n", "-p")  # namespaces

SSHD = """\
HostKey {folder}/hostkey
PidFile none
UsePAM no
PasswordAuthentication no
StrictModes no
"""
# What the first process of a machine does. /sys shows the network interfaces of the namespace it
# was mounted from, and MPI looks there.
INIT = """\
set -e
hostname {name}
mount --make-rprivate /
{open_checkout}
for f in hosts passwd group shadow; do mount --bind {lab}/$f /etc/$f; done
mount --bind {home} /home
mount -t tmpfs tmpfs /dev/shm
mount -t sysfs sysfs /sys
ip link set lo up
exec /usr/sbin/sshd -D -e -f {folder}/sshd_config
"""


# In a mount namespace, for a checkout below a folder that only root enters (as CI often has it):
# its entries, without that folder.
OPEN_CHECKOUT = """\
mount --bind {root} /mnt
mount -t tmpfs -o mode=755 tmpfs {top}
mkdir -p {root}
for from in /mnt/* /mnt/.[!.]*; do
    to={root}/${{from##*/}}
    if [ -d "$from" ]; then mkdir "$to"; else : > "$to"; fi
    mount --bind "$from" "$to"
done
"""


def open_checkout() -> str:
    """Commands that let every user reach this checkout; none if they can."""
    for folder in (*reversed(ROOT.parents), ROOT):
        if not folder.stat().st_mode & 0o001:
            return OPEN_CHECKOUT.format(root=shlex.quote(str(ROOT)), top=shlex.quote(str(folder)))
    return ""


class LabError(Exception):
    """A machine cannot be made, or a command on one failed."""


def missing() -> str:
    """Why there can be no lab here; empty if there can be one."""
    if os.geteuid() != 0:
        return "machines with networks of their own need root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install openssh-server iproute2"
    made = subprocess.run(["unshare", *HELD, "--fork", "true"], capture_output=True, check=False)
    if made.returncode != 0:
        return f"no namespaces here: {made.stderr.decode().strip()}"
    user = f"setpriv --reuid={UID} --regid={UID} --clear-groups"
    # By a shell: setpriv itself may still start what its user may not.
    wanted = f"{sys.executable} -c 'import dq_client'"
    script = f"set -e\n{open_checkout()}\ncd /; exec {user} sh -c {shlex.quote(wanted)}"
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"other users cannot run {sys.executable} and read {ROOT}: {said}"
    return ""


class Lab:
    """Some machines. `down` ends all of them and everything on them."""

    def __init__(
        self, folder: Path, names: Sequence[str] = ("alpha", "beta"), *, shared_home: bool = False
    ) -> None:
        self.folder, self.names = folder, list(names)
        self.shared = folder / "shared"
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        folder.chmod(0o755)
        self.shared.mkdir()
        self.shared.chmod(0o777)
        try:
            self._write_files()
            self._switch = self._hold("switch", ["unshare", "-n", "--kill-child", "--fork"])
            for bridge in ("br0", "br1"):
                self._on_switch(f"ip link add {bridge} type bridge")
                self._on_switch(f"ip link set {bridge} up")
            for name in self.names:
                self._make(name, shared_home=shared_home)
            for name in self.names:
                self._wait_for_sshd(name)
        except BaseException:
            self.down()
            raise

    # --- what tests do ------------------------------------------------------------------------

    def run(
        self, name: str, command: str, *, root: bool = False, timeout_s: float = 90.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a machine, as the user unless as root."""
        words, env = self.words(name, command, root=root)
        return subprocess.run(
            words, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    def words(
        self, name: str, command: str, *, root: bool = False
    ) -> tuple[list[str], dict[str, str]]:
        """The same as a command line and an environment for this machine."""
        enter = ["nsenter", "-t", str(self.first(name)), *HELD]
        if not root:
            enter += ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        where = f"/home/{USER}" if not root else "/"
        path = f"{VENV}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        env = {"HOME": where, "USER": USER, "LOGNAME": USER, "SHELL": "/bin/bash", "PATH": path}
        return [*enter, "bash", "-c", f"cd {where}; {command}"], env

    def ok(self, name: str, command: str, *, root: bool = False, timeout_s: float = 90.0) -> str:
        """Its standard output; LabError if it fails."""
        done = self.run(name, command, root=root, timeout_s=timeout_s)
        if done.returncode != 0:
            raise LabError(
                f"{name}: {command}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout

    def cut(self, name: str) -> None:
        """Pull the cable of a machine's eth0."""
        self._on_switch(f"ip link set v0{name} down")

    def heal(self, name: str) -> None:
        """Put it back."""
        self._on_switch(f"ip link set v0{name} up")

    def slow(self, name: str, mbit: int) -> None:
        """Let no more than this through a machine's eth0, either way."""
        shape = f"root tbf rate {mbit}mbit burst 32kb limit 400kb"
        self._on_switch(f"tc qdisc replace dev v0{name} {shape}")
        self._inside(name, f"tc qdisc replace dev eth0 {shape}")

    def kill(self, name: str) -> None:
        """The machine dies: no process of it says anything any more."""
        self.cut(name)
        self._end(name)

    def processes(self, name: str) -> list[str]:
        """Command lines of the user's processes on a machine, but for those of ssh."""
        lines = self.ok(name, f"ps -u {UID} -o args= || true", root=True).splitlines()
        # sshd is the first process there, and no quick reaper of what others have left to it.
        return [line for line in lines if not line.startswith("sshd: ") and "<defunct>" not in line]

    def down(self) -> None:
        """End everything."""
        for name in list(self._holders):
            self._end(name)

    # --- how they are made ----------------------------------------------------------------------

    def _write_files(self) -> None:
        hosts = ["127.0.0.1 localhost", "::1 localhost"]
        for i, name in enumerate(self.names, 1):
            hosts += [f"10.77.0.{i} {name}", f"fd77::{i} {name}-v6"]
        self._file("hosts", "\n".join(hosts) + "\n")
        user = f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/bash\n"
        self._file("passwd", Path("/etc/passwd").read_text() + user)
        self._file("group", Path("/etc/group").read_text() + f"{USER}:x:{UID}:\n")
        self._file("shadow", Path("/etc/shadow").read_text() + f"{USER}:*:19000:0:99999:7:::\n")
        (self.folder / "shadow").chmod(0o640)
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it
        self._key(self.folder / "userkey")
        for name in self.names:
            (self.folder / name).mkdir()
            self._key(self.folder / name / "hostkey")

    def _file(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def _key(self, path: Path) -> None:
        self._call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))

    def _make(self, name: str, *, shared_home: bool) -> None:
        folder = self.folder / name
        home = (self.folder if shared_home else folder) / "home"
        self._make_home(home / USER)
        (folder / "sshd_config").write_text(SSHD.format(folder=folder))
        init = INIT.format(
            name=name, lab=self.folder, home=home, folder=folder, open_checkout=open_checkout()
        )
        self._hold(name, ["unshare", *HELD, "--fork", "--mount-proc", "--kill-child"], init)
        i = self.names.index(name) + 1
        first = self.first(name)
        for eth, net in ((0, 77), (1, 88)):
            port = f"v{eth}{name}"
            self._on_switch(f"ip link add {port} type veth peer name eth{eth} netns {first}")
            self._on_switch(f"ip link set {port} master br{eth}")
            self._on_switch(f"ip link set {port} up")
            self._inside(name, f"ip addr add 10.{net}.0.{i}/24 dev eth{eth}")
            self._inside(name, f"ip link set eth{eth} up")
        self._inside(name, f"ip addr add fd77::{i}/64 dev eth0 nodad")
        # With a peer: an interface without one has no carrier, and MPI would leave it alone.
        self._inside(name, "ip link add docker0 type veth peer name container")
        self._inside(name, "ip addr add 172.17.0.1/16 dev docker0")
        for end in ("docker0", "container"):
            self._inside(name, f"ip link set {end} up")

    def _make_home(self, home: Path) -> None:
        if home.exists():
            return
        keys = home / ".ssh"
        keys.mkdir(parents=True)
        shutil.copy(self.folder / "userkey", keys / "id_ed25519")
        shutil.copy(self.folder / "userkey.pub", keys / "authorized_keys")
        known = ""
        for name in self.names:
            kind, key, *_ = (self.folder / name / "hostkey.pub").read_text().split()
            known += f"{name} {kind} {key}\n{name}-v6 {kind} {key}\n"
        (keys / "known_hosts").write_text(known)
        for path in (home, keys, *keys.iterdir()):
            os.chown(path, UID, UID)
            path.chmod(0o700 if path.is_dir() else 0o600)

    def _hold(self, name: str, words: list[str], init: str = "exec sleep infinity") -> int:
        with (self.folder / f"{name}.log").open("wb") as log:
            holder = subprocess.Popen(
                [*words, "bash", "-c", init],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._holders[name] = holder
        return self.first(name)

    def first(self, name: str) -> int:
        """The first process of a machine, by its number here."""
        holder = self._holders[name]
        deadline = time.monotonic() + READY_WITHIN_S
        while holder.poll() is None and time.monotonic() < deadline:
            children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
            if children:
                return int(children[0])
            time.sleep(0.005)
        raise LabError(f"{name} is not there: {(self.folder / f'{name}.log').read_text()}")

    def _wait_for_sshd(self, name: str) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.run(name, "ss -Hltn 'sport = :22'", root=True).stdout:
            if time.monotonic() > deadline:
                raise LabError(f"{name}: {(self.folder / f'{name}.log').read_text()}")
            time.sleep(0.02)

    def _end(self, name: str) -> None:
        holder = self._holders.pop(name)
        with contextlib.suppress(LabError, OSError, KeyError):
            self._holders[name] = holder
            os.kill(self.first(name), signal.SIGKILL)  # the kernel kills all others with it
        self._holders.pop(name, None)
        holder.kill()
        holder.wait()

    def _on_switch(self, command: str) -> None:
        self._call("nsenter", "-t", str(self.first("switch")), "-n", *shlex.split(command))

    def _inside(self, name: str, command: str) -> None:
        self._call("nsenter", "-t", str(self.first(name)), "-n", *shlex.split(command))

    def _call(self, *words: str) -> None:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"{shlex.join(words)}: {done.stderr.strip()}")
