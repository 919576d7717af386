"""What talks to the DQ server: messages, connection, node agent, command line."""

# The only place where the version is written: the package's metadata (pyproject.toml),
# `dq --version` and what the server tells its clients are read from here.
__version__ = "0.3.0"
