"""Text from files, plugins and errors, made fit for one line of a terminal or a table."""

LONGEST_TEXT = 20_000
"""Characters of a text that are kept."""

LONGEST_REASON = 2000
"""Characters of the reason of a failure."""

LONGEST_PATH = 200
"""Characters of a path that a message repeats."""

SHOWN = 80
"""Characters of a user's value that a message repeats."""


_KEPT = "\n\t\xa0\u202f\u3000"
"""The end of a line, the tab, and blanks of French and Japanese."""


def printable(text: str, keep: str = "") -> str:
    """Return `text` with control characters replaced, but for those to `keep`."""
    return "".join(char if char.isprintable() or char in keep else "\ufffd" for char in text)


def encodable(text: str) -> str:
    """Return a text with the bytes of paths that are no UTF-8 as Python writes them."""
    return text.encode("utf-8", "backslashreplace").decode()


def for_terminal(text: str) -> str:
    """Return an `encodable` text of some lines, what a terminal would obey in it replaced."""
    return text if text.isprintable() else printable(encodable(text), keep=_KEPT)


def cut(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text of at most `longest` characters, without the middle of a longer one."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def shown(value: object) -> str:
    """Return a value as messages show it: as Python writes it, without the middle of a long one."""
    try:
        return printable(cut(repr(value), SHOWN))
    except ValueError:  # Python writes no number of more than 4300 digits
        return f"a number of type {type(value).__name__}, too long to be shown"


def error_line(error: BaseException) -> str:
    """Return the type and the message of an error on one `printable` line of bounded length.

    Those of a plugin may raise errors themselves.
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = f"{type.__dict__['__name__'].__get__(type(error))}: its message cannot be made"
    return printable(" ".join(cut(text, LONGEST_REASON).split()))
