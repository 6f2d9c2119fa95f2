"""Progress of long work: a bar on a terminal, a heartbeat line in a log."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

HEARTBEAT_SECONDS = 15.0
_BRIEF = ContextVar("brief", default=False)


@contextmanager
def brief() -> Iterator[None]:
    """Within it only work of more than 15 s is heard of: for thousands of short pieces of work."""
    token = _BRIEF.set(True)
    try:
        yield
    finally:
        _BRIEF.reset(token)


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Iterate over `items`, showing how far along the work named `label` is.

    On a terminal a tqdm bar; otherwise at most one line every 15 seconds on standard error (which
    the workflow's jobs send to their log), and one at the end.
    """
    if total is None:
        total = len(items)  # type: ignore[arg-type]
    quiet = _BRIEF.get()
    if sys.stderr.isatty() and not quiet:
        from tqdm import tqdm

        yield from tqdm(items, desc=label, total=total, leave=False)
        return
    start = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if now - last >= HEARTBEAT_SECONDS:
            last, quiet = now, False
            print(f"{label}: {done}/{total} after {now - start:.0f} s", file=sys.stderr, flush=True)
        yield item
    elapsed = time.monotonic() - start
    if not quiet:
        print(f"{label}: {total}/{total} in {elapsed:.1f} s", file=sys.stderr, flush=True)
