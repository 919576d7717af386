"""Connects to what it is told of and says what nobody should; run by another user, or elsewhere.

    stranger.py < "ADDRESS PORT" lines    > JSON: connections, refused, heard (distinct, as hex)

Each line is attacked in all ways at once: garbage, hydra's header, lines of PMI, half of a greeting
of ZeroMQ (held open to the end), a connection that says nothing (likewise). Needs no package.
"""

import json
import os
import socket
import sys
import threading

HEARD_S = 2.0
WAYS = (
    os.urandom(4096),
    b"HYD\0" + b"\1\0\0\0" * 2,
    b"\0" * 12,
    b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=1\n",
    b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL",
    b"",
)
held: list[socket.socket] = []
found = {"connections": 0, "refused": 0}
heard: set[bytes] = set()
lock = threading.Lock()


def attack(address: str, port: int, data: bytes) -> None:
    try:
        line = socket.create_connection((address, port), timeout=HEARD_S)
    except OSError:
        with lock:
            found["refused"] += 1
        return
    answer = b""
    try:
        line.sendall(data)
        line.settimeout(HEARD_S)
        answer = line.recv(65536)
    except OSError:
        pass
    with lock:
        found["connections"] += 1
        heard.add(answer)
        if len(held) < 400:
            held.append(line)
        else:
            line.close()


threads = []
for told in sys.stdin:
    where, number = told.split()
    for way in WAYS:
        threads.append(threading.Thread(target=attack, args=(where, int(number), way)))
        threads[-1].start()
for thread in threads:
    thread.join()
print(json.dumps({**found, "heard": sorted(answer.hex() for answer in heard)}))
