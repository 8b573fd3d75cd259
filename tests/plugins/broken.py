"""A plugin whose import fails, with a message of several lines as some libraries write."""

raise ImportError("libmissing.so.1: cannot open shared object file\nIs libmissing installed?")
