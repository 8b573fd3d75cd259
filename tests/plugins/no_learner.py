"""A Python file without a plugin."""

ANSWER = 42
