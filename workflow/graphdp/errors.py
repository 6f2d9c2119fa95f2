"""The one exception that users are meant to read."""


class GraphDPError(Exception):
    """Bad input or a broken promise; the message says in one line what is wrong and the fix."""
