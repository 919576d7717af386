"""`python -m dq_client.hosts.far_side`: the program of dq_client.deploy.ssh on a host.

Hosts and the command line may have different versions of DQ: both know this name.
"""

import sys

from dq_client.deploy.ssh.remote_bootstrap import main

if __name__ == "__main__":
    sys.exit(main())
