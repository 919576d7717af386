"""`python -m dq_client.ranks`: ranks without a cluster, the public name of node/launcher.py."""

import sys

from dq_client.node.launcher import main

if __name__ == "__main__":
    sys.exit(main())
