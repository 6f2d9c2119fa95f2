"""The exceptions that users are meant to read."""


class GraphDPError(Exception):
    """Bad input or a broken promise; the message says in one line what is wrong and the fix."""


class LostRelease(GraphDPError):
    """A noisy aggregate is not in the cache any more, or damaged there; it is made again by the
    stage that made it, with the same bytes."""
