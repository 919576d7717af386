"""Sample applications: small enough to read as examples."""
