"""What talks to the DQ server: messages, connection, node agent, command line."""
