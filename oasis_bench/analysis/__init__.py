"""Statistics over the trials of stored runs: reads, never writes."""
