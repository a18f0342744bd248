"""What a tool does, guessed from its name: a start for a declaration, never a substitute."""

from __future__ import annotations

import re

from repeatguard_sdk._types import Effect

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FINAL = _set(
    "transfer handoff handover escalate submit finish finished finalize complete done answer conclude"
    " terminate exit end"
)
_FINAL_OBJECTS = _set(
    "human agent person operator supervisor specialist support task run session conversation answer"
    " result solution response final"
)
_ASK = _set("ask clarify confirm prompt")
_BOOKKEEPING = _set("think thought reflect plan todo todos scratchpad memo brainstorm reason")
_LIVE = _set("poll wait sleep watch tail status progress health ping now clock time screenshot")
_UNKNOWN = _set(
    "bash shell sh exec execute run python code terminal command cmd sql script eval invoke call"
    " browser computer click type press navigate delegate subagent agent task"
)
_WRITE = _set(
    "create add insert append make new update edit modify change set put patch write save store upsert"
    " delete remove drop clear cancel revoke send post publish reply email notify book reserve order buy"
    " purchase pay charge refund exchange return transfer move copy rename upload import install deploy"
    " start stop restart enable disable grant assign approve reject merge close open lock unlock schedule"
    " reschedule register submit sign apply replace toggle commit push mark tag comment archive restore"
)
_READ = _set(
    "get list read fetch find search lookup look query retrieve show view describe check count calculate"
    " compute browse glob grep ls cat head stat inspect explain compare validate verify lint test track"
    " download load select summarize translate analyze analyse extract parse convert estimate preview is"
    " has whoami"
)


def guess_effect(name: str) -> Effect:
    """Guess the effect of a tool from the words of its name; what says nothing may change anything.

    The first word that is a verb decides, but for what ends a task or asks the user. A name of the
    kind ``server__tool`` or ``server.tool`` is read from its last part.
    """
    last = re.split(r"__|[./:]", name.strip("_ "))[-1] or name
    words = [word.lower() for word in _WORDS.findall(last)]
    first = words[0] if words else ""
    if first in _FINAL and (len(words) == 1 or _FINAL_OBJECTS.intersection(words[1:])):
        return "final"
    if words == ["final", "answer"]:
        return "final"
    if first in _ASK and (
        len(words) == 1 or {"user", "human", "question", "followup"} & set(words)
    ):
        return "ask"
    if first in _BOOKKEEPING or (words[1:2] and words[1] in _BOOKKEEPING and len(words) == 2):
        return "bookkeeping"
    return _by_verb(words)


def _by_verb(words: list[str]) -> Effect:
    kinds: tuple[tuple[frozenset[str], Effect], ...] = (
        (_UNKNOWN, "unknown"),
        (_WRITE, "write"),
        (_READ, "read"),
    )
    if _LIVE.intersection(words) and not _WRITE.intersection(words[:1]):
        return "live"
    for word in words:
        for kind, effect in kinds:
            if word in kind:
                return effect
    return "unknown"
