"""What holds a lock, a thread or a connection is told when the process forks."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """Is told of each fork of the process."""

    def before_fork(self) -> None:
        """Let go of what a child must not inherit; nothing may begin until `after_fork`."""

    def after_fork(self, *, child: bool) -> None:
        """Go on in the parent, or begin anew in the child."""


# Protects `_watched` and `_told`; a fork holds it from its beginning to its end.
_lock = threading.Lock()
_watched: weakref.WeakSet[Forked] = weakref.WeakSet()
_told: list[Forked] = []


def watch_forks(this: Forked) -> None:
    """Tell an object of each fork, as long as something else refers to it."""
    with _lock:
        _watched.add(this)


def _before() -> None:
    _lock.acquire()
    _told[:] = _watched
    for each in _told:
        each.before_fork()


def _after(*, child: bool) -> None:
    for each in _told:
        each.after_fork(child=child)
    _told.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(child=False),
        after_in_child=lambda: _after(child=True),
    )
