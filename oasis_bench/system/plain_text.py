"""Text from files, plugins and errors, made fit for one line of a terminal or a table."""


def printable(text: str, keep: str = "") -> str:
    """Return `text` with control characters replaced, but for those to `keep`."""
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


def error_line(error: BaseException) -> str:
    """Return the type and the message of an error on one line, not yet `printable`."""
    return " ".join(f"{type(error).__name__}: {error}".split())
