"""Where trials run: on this machine, each in a process of its own."""
