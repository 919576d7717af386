"""The name by which DQ of any version is started over ssh (dq_client.deploy.ssh)."""
