"""The lock of a run: held for the few lines of an admission or a settlement, on every call."""

from __future__ import annotations

import threading
from typing import Final, cast

# Whether this is the compiled build of the package; see the contributors' part of the README.
COMPILED: Final = not __file__.endswith((".py", ".pyc"))


class RunLock:
    """A lock for ``with``, which compiled code enters without a look-up of its methods.

    In the compiled build only: what is interpreted could be left by a Ctrl-C between the acquisition
    and the block, with the lock held for ever.
    """

    __slots__ = ("_acquire", "_release")

    def __init__(self) -> None:
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release

    def __enter__(self) -> None:
        self._acquire()

    def __exit__(self, *_: object) -> None:
        self._release()


def new_lock() -> RunLock:
    """Return a lock that no Ctrl-C can leave held."""
    return RunLock() if COMPILED else cast(RunLock, threading.Lock())
