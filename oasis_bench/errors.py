"""The one exception that stands for a mistake of the user's."""


class UsageError(ValueError):
    """Bad input from the user, told in one line that names the value, the bound and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """
