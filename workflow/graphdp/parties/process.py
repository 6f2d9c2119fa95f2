"""What party and shuffler have in common as processes, wherever they run.

They read what they have to know as one JSON object from their standard input, which stays open for
as long as it is needed that they go on: when it closes, they end at once. So nothing is left where
whoever started them is killed, or what started them there (ssh, srun) passes no signal on.

A line on it asks whom they wait for. They answer whatever they are at, so that who is at work and
who is stopped can be told apart.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from threading import Thread
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.parties.frames import WAITS_FOR
from graphdp.workflow import code

#: Before what a process says: what ssh, srun and a shell's start say besides stands without it.
MARK = "graphdp> "


def say(what: Any) -> None:
    """Tell who started this process, as JSON."""
    sys.stdout.write(f"{MARK}{json.dumps(what)}\n")  # one write: two threads may say something
    sys.stdout.flush()


def answer(number: str) -> str:
    """What the answer to a question of that number is called."""
    return f"answer {number}"


def heard(line: str) -> str | None:
    """What a process says in a line, if it does."""
    _, mark, said = line.partition(MARK)
    return said.strip() if mark else None


def source() -> str:
    """The digest of all that programs run of this library, wherever it is installed."""
    return code.digest(None, "graphdp.parties.party:main", "graphdp.parties.shuffler:main")


def run(work: Callable[[dict[str, Any]], Awaitable[None]]) -> int:
    """Do the work that is read; 1 with a line on standard error if the session failed."""
    try:
        asyncio.run(work(_told()))
    except GraphDPError as error:
        print(f"{MARK}{error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _told() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        raise GraphDPError("standard input ended at once; launch has to pass it on, as ssh does")
    Thread(target=_answer_until_input_ends, daemon=True).start()
    spec = json.loads(line)
    if spec["source"] != source():
        raise GraphDPError(
            f"graphdp on {socket.gethostname()} is of another version than what started it: "
            "install the same on all hosts"
        )
    return spec


def _answer_until_input_ends() -> None:
    """Says whom the process waits for when it is asked; ends it, whatever it does just now, when
    its standard input ends."""
    while asked := os.read(0, 1 << 12).decode().split():
        say({answer(asked[-1]): list(WAITS_FOR)})
    os._exit(1)
