"""The command line: the only room that prints or reads a terminal."""
