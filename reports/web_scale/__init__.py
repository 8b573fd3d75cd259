"""The report of the web-scale experiment."""
