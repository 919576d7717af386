"""What a cluster has done, made readable: a page in one file, and live displays."""
