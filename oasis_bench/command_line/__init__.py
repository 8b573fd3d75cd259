"""The command line: the only package that prints or reads a terminal."""
