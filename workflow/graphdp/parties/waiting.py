"""How long one waits for whom in a session, and who is to be named when time is up."""

from collections import Counter

from graphdp.parties.shares import link_bytes

#: Who waits for whom, in multiples of the session's timeout: so that who is really late is named.
#: Users may be long between two rounds, and the parties wait for them at the shuffler.
PATIENCE = {
    ("shuffler", "party"): 1,
    ("server", "party"): 2,
    ("users", "shuffler"): 2,
    ("shuffler", "users"): 4,
    ("party", "shuffler"): 5,
    ("party", "server"): 5,
}
#: Bytes of a round's piece, over all links, that are got through in a second at the very least. A
#: busy core gets through some 100 MB of them, shares, noise, masks and HMACs included.
_LEAST_RATE = 5e6


def seconds_of_work(
    pairs: int, dummies: int, num_keys: int, columns: int, parties: int, shares: int
) -> float:
    """The longest that a piece of a round may take all processes together.

    pairs: that users send, dummies: that parties add. columns: of the piece. It tells of the number
    of pairs, which is not public: who may not know that is not told it.
    """
    sent = link_bytes(pairs, dummies, num_keys, columns, parties, shares)
    return sum(sent.values()) / _LEAST_RATE


def silent(answers: dict[str, list[str] | None]) -> str:
    """Who does not answer, in words; or nothing."""
    names = ", ".join(name for name, waits in answers.items() if waits is None)
    return f"{names} does not answer" if names else ""


def late(answers: dict[str, list[str] | None]) -> str:
    """Who does not answer, else who is at work while all others wait, else the users if they are
    waited for; or nothing."""
    at_work = ", ".join(name for name, waits in answers.items() if waits == [])
    mute = any("users" in (waits or ()) for waits in answers.values())
    return (
        silent(answers)
        or (f"{at_work} is late: it is still at work" if at_work else "")
        or ("users are late: the shuffler waits for what they send" if mute else "")
    )


def most_told(lines: list[str]) -> list[str]:
    """The line that says what most say, the first of those; none of none. Who is cut off says that
    of others: of this process, which is users and server, it counts for nothing."""
    votes = Counter(line.rpartition(": ")[2] for line in lines)
    for own in ("users", "server"):
        votes[f"{own} is cut off"] = 0
    return sorted(lines, key=lambda line: -votes[line.rpartition(": ")[2]])[:1]
