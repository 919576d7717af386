"""One script per table or figure of each paper."""
