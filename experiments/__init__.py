"""One script per table or figure of each paper: ours printed beside the paper's."""
