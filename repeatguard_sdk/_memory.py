"""What outlives a run: its ledger, handed to the next run of the same work."""

from __future__ import annotations

import threading

from repeatguard_sdk._ledger import Ledger
from repeatguard_sdk.exceptions import RunStateError


class Memory:
    """Carries calls, results and facts from one run to the next: ``Run(memory=memory)``.

    For an agent that is started again and again on the same work, such as a heartbeat. The first
    equal call of the next run is a second one: it is answered from memory, with an observation. Counts
    begin anew, for the model has not read the notes of the run before, and so do budgets. If the
    world changed in between, say so with `Run.progress`, and if a user spoke, with
    `Run.user_message`. One run at a time.

    Example:
        >>> memory = Memory()
        >>> memory
        <Memory of 0 calls>
    """

    def __init__(self) -> None:
        # Protects `_in_use`: two runs that start at once must not both get the ledger.
        self._lock = threading.Lock()
        self._in_use = False
        self._ledger = Ledger()

    def __repr__(self) -> str:
        return f"<Memory of {self._ledger.calls} calls>"

    @property
    def ledger(self) -> Ledger:
        """The memory itself, for the run that has taken it."""
        return self._ledger

    def take(self) -> None:
        """Begin a run on this memory.

        Raises:
            RunStateError: another run has it.
        """
        with self._lock:
            if self._in_use:
                msg = "this Memory is in use by another run; runs at the same time need one each"
                raise RunStateError(msg)
            self._in_use = True
            self._ledger.begin_run()

    def release(self) -> None:
        """End the run on this memory."""
        with self._lock:
            self._in_use = False
