"""Which run a request to an MCP server belongs to, and how long a run is kept."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Generator, Hashable, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from repeatguard_sdk._outcome import Outcome
from repeatguard_sdk._run import Run
from repeatguard_sdk._scope import active
from repeatguard_sdk.integrations._conversation import Conversation, Settings

# What a client may say in the `_meta` of a request.
RUN_ID = "repeatguard/run_id"
TURN = "repeatguard/turn"
CALL_ID = "repeatguard/call_id"

_LONGEST_ID = 200
_NONE: Mapping[str, str] = {}
_log = logging.getLogger("repeatguard_sdk")


class Caller(NamedTuple):
    """Who asks, as far as a request tells.

    Attributes:
        key: whose run it is; `None` where nothing tells one client from the next.
        shared: whether it may stand for several tasks of an agent: nothing names the run.
        turn: the mark of the model response that the call is part of, if there is one.
        call_id: the provider's id of the call, if there is one.
    """

    key: Hashable
    shared: bool
    turn: Hashable = None
    call_id: str | None = None


def caller_of(
    meta: Mapping[str, Any], request: Any, principal: Callable[[Any], str | None] | None
) -> Caller:
    """Tell whose run a request belongs to.

    The run that its `_meta` names, else the authenticated principal (in each of its sessions, where the
    protocol has those), else the process, which serves one client. A run is never found by another
    principal, whatever it names.

    Args:
        meta: the `_meta` of the request.
        request: the HTTP request, `None` where there is none, as on stdio and in memory.
        principal: tells who a request is from; default: whom the server has authenticated.
    """
    who = None if request is None else (principal or _authenticated)(request)
    turn, call_id = _text(meta.get(TURN)), _text(meta.get(CALL_ID))
    run_id = _text(meta.get(RUN_ID))
    if run_id is not None:
        return Caller(("run", who, run_id), shared=False, turn=turn, call_id=call_id)
    if who is not None:
        session = getattr(request, "headers", _NONE).get("mcp-session-id")
        return Caller(("principal", who, session), shared=True, turn=turn, call_id=call_id)
    key = ("process",) if request is None else None
    return Caller(key, shared=True, turn=turn, call_id=call_id)


def _text(value: Any) -> str | None:
    """Return an identifier as text, `None` for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value)
    return text if 0 < len(text) <= _LONGEST_ID else None


def _authenticated(request: Any) -> Any:
    """Return whom the server has authenticated, `None` if it has not."""
    scope: Mapping[str, Any] = getattr(request, "scope", None) or {}
    user = scope.get("user")
    token = getattr(user, "access_token", None)
    if token is not None:
        claims: Mapping[str, Any] = getattr(token, "claims", None) or {}
        subject = getattr(token, "subject", None) or claims.get("sub")
        return token.client_id, str(claims.get("iss")), subject
    if getattr(user, "is_authenticated", False):
        return str(getattr(user, "display_name", "") or user)
    return None


class Kept:
    """A conversation of a server, and what is known of its client.

    Attributes:
        conversation: its run.
        shared: as in `Caller`.
        opened, used: when its run began, and when it was last called (or had ended).
        busy: how many calls are in flight.
        turn: the newest mark of a turn.
        ended_by: the identity of the call that ended the run.
        outcome: how it ended.
        told: the run that has been told of the tools.
        tools: the tools it was told of, by name.
    """

    def __init__(self, conversation: Conversation, now: float, *, shared: bool) -> None:
        self.conversation = conversation
        self.shared = shared
        self.opened = self.used = now
        self.busy = 0
        self.turn: Hashable = None
        self.ended_by: str | None = None
        self.outcome: Outcome | None = None
        self.told: Run | None = None
        self.tools: Mapping[str, Any] = {}

    def mark(self, turn: Hashable) -> None:
        """Open the next turn, if a call is the first of it; a run of the host has turns of its own."""
        if turn is not None and turn != self.turn and self.conversation.owns_run:
            self.turn = turn
            self.conversation.next_turn()

    def ended(self, run: Run, by: Callable[[], str]) -> None:
        """Remember which call ended the run, if one did."""
        if run.over and self.ended_by is None and run is self.conversation.run:
            self.ended_by = by()
            # As it is now, not as it will be after the calls that are refused.
            self.outcome = run.outcome

    def start_afresh(self, now: float) -> None:
        """Open a new run in place of one that is over."""
        self.conversation.user_message()
        self.opened = self.used = now
        self.turn = self.ended_by = self.outcome = None


class ServerRuns:
    """The runs of a server, by who asks; each ends when nobody has asked for a while.

    Args:
        settings: what the host said.
        idle: seconds without a call after which a run is closed.
        longest: seconds after which a run is closed that nobody named: it may have become another task.
        limit: how many runs are kept; beyond it the one that was called longest ago is closed.
        clock: seconds, from any start.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        idle: float,
        longest: float,
        limit: int = 1_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, seconds in (("idle", idle), ("longest", longest)):
            if isinstance(seconds, bool) or not seconds > 0:
                msg = f"{name}={seconds!r}: give a number of seconds above 0"
                raise ValueError(msg)
        self._settings = settings
        self._idle, self._longest, self._limit = idle, longest, limit
        self.clock = clock
        # Protects `_kept` and the timer: a server may serve in several threads.
        self._lock = threading.RLock()
        # The one that was called longest ago comes first.
        self._kept: dict[Hashable, Kept] = {}
        self._timer: threading.Timer | None = None
        self._said = False
        # At the end of the process, and of the server, the records are sent.
        self._finalizer = weakref.finalize(self, _close_all, self._kept)

    @contextmanager
    def serving(self, caller: Caller) -> Generator[Kept | None, None, None]:
        """Keep a run from being closed while one of its calls is in flight; `None` guards nothing."""
        kept = self._find(caller)
        if kept is None:
            yield None
            return
        try:
            yield kept
        finally:
            with self._lock:
                kept.busy -= 1
                if kept.ended_by is None:
                    # A run that is over rests from its end on: who only repeats does not prolong it.
                    kept.used = self.clock()

    def _find(self, caller: Caller) -> Kept | None:
        here = active.get()
        if isinstance(here, Run) and here.guarding:
            # In memory, inside a block of the host: that run is for this call.
            kept = Kept(Conversation(self._settings), self.clock(), shared=False)
            kept.busy = 1
            return kept
        if caller.key is None:
            self._say_unguarded()
            return None
        self.sweep()
        with self._lock:
            # To the end of the row.
            found = self._kept.pop(caller.key) if caller.key in self._kept else None
            kept = found or Kept(Conversation(self._settings), self.clock(), shared=caller.shared)
            self._kept[caller.key] = kept
            kept.busy += 1
            self._arm()
        self.sweep()
        return kept

    def _say_unguarded(self) -> None:
        if not self._said:
            self._said = True
            _log.warning(
                "calls over HTTP without authentication are not guarded: nothing tells one client from "
                "the next; let clients send a run id in _meta (%r), or authenticate them",
                RUN_ID,
            )

    # -- the end of a run ------------------------------------------------------------------------

    def sweep(self) -> None:
        """Close the runs that have rested for long enough, and those beyond the limit."""
        now = self.clock()
        with self._lock:
            resting = {key: kept for key, kept in self._kept.items() if not kept.busy}
            over = [key for key, kept in resting.items() if self._is_over(kept, now)]
            many = len(self._kept) - len(over) - self._limit
            rest = [key for key in resting if key not in over]
            closing = [self._kept.pop(key) for key in (*over, *rest[: max(0, many)])]
        for kept in closing:
            kept.conversation.close()

    def _is_over(self, kept: Kept, now: float) -> bool:
        if now - kept.used >= self._idle:
            return True
        return kept.shared and now - kept.opened >= self._longest

    def _arm(self) -> None:
        """Have the next sweep made, though nobody may call again."""
        if self._timer is None and self._kept:
            me = weakref.ref(self)
            self._timer = threading.Timer(self._idle, _rung, (me,))
            self._timer.daemon = True
            self._timer.start()

    def ring(self) -> None:
        """Sweep, and go on as long as there are runs."""
        with self._lock:
            self._timer = None
        self.sweep()
        with self._lock:
            self._arm()

    def close(self) -> None:
        """Close all runs, so that their records are sent."""
        with self._lock:
            timer, self._timer = self._timer, None
            closing = list(self._kept.values())
            self._kept.clear()
        if timer is not None:
            timer.cancel()
        for kept in closing:
            kept.conversation.close()

    def __len__(self) -> int:
        return len(self._kept)


def _rung(runs: weakref.ref[ServerRuns]) -> None:
    here = runs()
    if here is not None:
        here.ring()


def _close_all(kept: dict[Hashable, Kept]) -> None:
    for each in kept.values():
        each.conversation.close()
    kept.clear()
