"""What the machine gives: processes, memory, threads, files, provenance; and errors."""
