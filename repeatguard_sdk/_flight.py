"""One running execution that equal calls wait for instead of running again."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Literal, NamedTuple

from repeatguard_sdk._copies import Stored


class Landing(NamedTuple):
    """What the running execution came to.

    `how` is "abandoned" when its owner was cancelled or killed: a waiter must take over.
    """

    how: Literal["ok", "error", "abandoned"]
    value: Any = None
    stored: Stored | None = None

    def deliver(self) -> Any:
        """Return the result for one waiter, as its own copy where a copy can be made."""
        return self.value if self.stored is None else self.stored.deliver()


class Flight:
    """The waiters of one running execution; every method is called under the run's lock.

    A waiter has a future of its own, so cancelling one waiter touches neither the
    owner nor the other waiters. Most flights land without any, and cost no future.

    Attributes:
        epoch, drift: what they were when it began.
        landing: what it came to, once it has.
        heir: the execution of the same call that began after it. The waiters of an abandoned
            flight wake one after the other, and the heir may have landed before the last does.
    """

    __slots__ = ("_waiters", "drift", "epoch", "heir", "landing")

    def __init__(self, epoch: int, drift: int) -> None:
        self.epoch = epoch
        self.drift = drift
        self.landing: Landing | None = None
        self.heir: Flight | None = None
        self._waiters: list[Future[Landing]] | None = None

    def join(self) -> Future[Landing]:
        """Add a waiter; one who comes after the landing need not wait."""
        waiter: Future[Landing] = Future()
        if self.landing is not None:
            waiter.set_result(self.landing)
        elif self._waiters is None:
            self._waiters = [waiter]
        else:
            self._waiters.append(waiter)
        return waiter

    def last(self) -> Flight:
        """Return the newest execution of the same call."""
        flight = self
        while flight.heir is not None:
            flight = flight.heir
        return flight

    def end(self, landing: Landing) -> list[Future[Landing]]:
        """Hand over the waiters; they are told outside the lock, for they may run callbacks."""
        self.landing = landing
        waiters, self._waiters = self._waiters, None
        return waiters or []


def land(waiters: list[Future[Landing]], landing: Landing) -> None:
    """Tell every waiter that was not cancelled meanwhile."""
    for waiter in waiters:
        if waiter.set_running_or_notify_cancel():
            waiter.set_result(landing)
