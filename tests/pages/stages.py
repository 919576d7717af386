"""What the commands of each page take for granted: files, and a cluster. In bash."""

from __future__ import annotations

from harness.commands import ROOT

PROGRAM = """\
import time
import resize_lib

with resize_lib.session() as rs:
    u = rs.array("u", 64, init=lambda i: i)
    for _ in rs.iterations(40):
        u.local[:] += 1
        time.sleep(0.02)
"""

# Everywhere: the samples, and programs of any name that the pages use.
FILES = f"""\
ln -s {ROOT}/docs {ROOT}/hostfiles .
for name in app lu show train evaluate cleanup program sweep; do cat > $name.py <<'EOF'
{PROGRAM}EOF
done
"""
LOG = """\
python - <<'EOF'
import gzip, random
draw = random.Random(7)
with gzip.open("trace.swf.gz", "wt") as out:
    out.write("; MaxProcs: 100\\n")
    at = 0
    for number in range(1, 81):
        at += draw.randrange(200)
        size, lasts = draw.choice([1, 2, 4, 8, 16, 32]), draw.randrange(10, 3000)
        fields = [number, at, -1, lasts, size, -1, -1, size, lasts * 2, -1, *[1] * 6, -1, -1]
        out.write(" ".join(map(str, fields)) + "\\n")
EOF
"""
SACCT = """\
cat > sacct.txt <<'EOF'
JobID|State|Submit|ElapsedRaw|AllocCPUS
7|COMPLETED|2026-03-01T08:00:00|600|4
EOF
"""
STUDY = """\
cat > study.toml <<'EOF'
logs = ["trace.swf.gz"]
policies = ["easy", "mebf-spare"]
shares = [1.0]
seeds = 2
EOF
"""
NODES = """\
cat > three.toml <<'EOF'
engine = "emulated"
[[nodes]]
names = ["n01", "n02", "alpha"]
processors = 2
EOF
"""
FEATURES = """\
dq down
cat > features.toml <<'EOF'
engine = "emulated"
[[nodes]]
names = "alpha"
processors = 4
memory = "16G"
[[nodes]]
names = "beta"
processors = 4
memory = "64G"
gpus = 2
features = ["ssd", "a100"]
EOF
dq up --cluster features.toml --detach
"""
# Six nodes of the page's 36: a process each.
FEW = f"""\
rm hostfiles; mkdir hostfiles
for file in opteron36 opteron36-slow; do
    sed 's/n\\[01-36\\]/n[01-06]/' {ROOT}/hostfiles/$file.toml > hostfiles/$file.toml
done
"""
HOOK = """\
cat > tell.sh <<'EOF'
#!/bin/sh
exit 0
EOF
chmod +x tell.sh
"""
# Who is not root has what the page installs, or the test is skipped.
APT = 'apt-get() { [ "$(id -u)" != 0 ] || command apt-get "$@"; }\n'
C = f"{APT}cp {ROOT}/resize_lib/c/examples/* .\ndq up --local 4 --detach\n"
# `dq agent run` goes on until it is told to go.
RUNS_ON = """\
dq() {
    if [ "$2" = run ]; then timeout --preserve-status -s TERM 5 dq "$@"; else command dq "$@"; fi
}
"""
PROFILES = "echo '[[[3600, 10], [1800, 40]], [[1200, 75], [1200, 20]]]' > profiles.json\n"
RUNS = "sed -i s/40/2000/ app.py\ndq submit -n 1 --sizes 1,2,4 -- python app.py\nsleep 1\n"
# A hundred jobs, some of which are killed meanwhile: of MPI there is enough in the others.
SWEEP = "echo 'import time; time.sleep(2)' > sweep.py\n"
LOCAL = "dq up --local {} --detach\n"

# By page: what comes before each of its blocks, by number; before the first one, after FILES.
BEFORE: dict[str, dict[int, str]] = {
    "attach.md": {},
    "c.md": {2: C},
    "cluster.md": {6: RUNS_ON + "dq server start --detach\n"},
    # What it measures on a busy machine is not what it should be, and it says so.
    "emulation.md": {0: FEW + 'dq() { command dq "$@" || [ $? = 1 -a "$1" = doctor ]; }\n'},
    "evolving.md": {1: LOCAL.format(8), 3: "echo '[[60, 4], [120, 8], [30, 2]]' > steps.json\n"},
    "hooks.md": {1: HOOK + LOCAL.format(2)},
    "kernels.md": {},
    "mistakes.md": {2: LOCAL.format(4) + RUNS},
    "nodes.md": {0: NODES + "dq up --cluster three.toml --detach\n", 1: FEATURES,
                 3: "dq down --force\ndq server start --detach\n",
                 4: "until dq nodes | grep -q n03; do sleep 0.2; done\n"},
    "pool.md": {2: LOG},
    # What differs is what is shown.
    "porting.md": {0: 'diff() { command diff "$@" || [ $? = 1 ]; }\n'
                      'dq() { command dq "$@" || [ "$1 $?" = "check 1" ]; }\n',
                   4: "cp -r docs/examples/porting/* .\n"},
    "protection.md": {0: LOCAL.format(8)},
    "scheduling.md": {0: LOCAL.format(25) + "dq submit --array 0-12 -- sleep 40\n"},
    "quotas.md": {1: LOCAL.format(2)},
    "security.md": {0: LOCAL.format(2)},
    "simulation.md": {0: LOG + LOCAL.format(2) + "dq submit --wait -n 1 -- true\ndq down\n"
                         "cp $DQ_HOME/journal.sqlite .\n" + PROFILES + STUDY + SACCT},
    "studies.md": {1: LOG, 5: SACCT},
    "submitting.md": {0: LOCAL.format(8) + "mkdir out\n" + SWEEP},
    "verify.md": {},
    "web.md": {0: LOCAL.format(2)},
    "workers.md": {0: LOCAL.format(4) + "echo 'import time; time.sleep(60)' > worker.py\n"},
    "years.md": {0: LOCAL.format(2)},
}  # fmt: skip
