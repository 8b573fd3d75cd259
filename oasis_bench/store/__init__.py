"""The SQLite file of a run: the only package that uses SQL."""
