"""The exceptions that users are meant to read."""

from collections.abc import Iterable


class GraphDPError(Exception):
    """Bad input or a broken promise; the message says in one line what is wrong and the fix."""


def one_of(what: str, value: object, choices: Iterable[object]) -> None:
    """Raises `GraphDPError` unless `value` is among the choices; what: a name for it."""
    choices = list(choices)
    if value not in choices:
        known = ", ".join(str(choice) for choice in choices)
        raise GraphDPError(f"{what} is {value!r}; choose one of {known}")


class LostRelease(GraphDPError):
    """A noisy aggregate is not in the cache any more, or damaged there; it is made again by the
    stage that made it, with the same bytes."""
