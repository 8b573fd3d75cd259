"""Performance of the kernels and the harness, tracked by asv."""
