"""A draft that asks the user for what the run already knows, found in plain code.

Only English is read. A slot counts as asked for where its name is the object of a question or a
request ("what is your ...", "please provide ...", "... and your ..."), and nothing but the name:
a rule that knows which words may stand around a name misses some ways to ask, and seldom takes
another question for one. Not found, among others: "which order?" (the user may have several), a
question that points back ("Could you send it?"), and requests in the form of a statement ("Your
order number is required").
"""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import attrs

from repeatguard_sdk._identity import fact_name
from repeatguard_sdk._slot import Slot, states

# A sentence longer than that is none; what stands behind is not read.
_SENTENCE_CHARS = 4000
_REACH = 600

# Splitting the draft.
_HIDDEN = re.compile(
    r"https?://[^\s?]*(?:\?[^\s?]+)?|`[^`\n]{1,200}`|\"[^\"\n]{0,400}\"|\u201c[^\u201c\u201d\n]{0,400}\u201d"
    r"|\u201e[^\u201e\u201c\u201d\n]{0,400}[\u201c\u201d]|\u00ab[^\u00ab\u00bb\n]{0,400}\u00bb"
    r"|(?<!\w)'[^'\n]{1,400}'(?!\w)|(?<!\w)\u2018[^\u2018\u2019\n]{1,400}\u2019(?!\w)"
)
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_BULLET = re.compile(r"\s*(?:[-*+\u2022\u25cf\u2013]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")
_END = re.compile(r"[.!?\u2026\uff01\uff1f]+[\"'\u201d\u2019)*_\]]{0,4}(?=\s)")
_ABBREVIATIONS = frozenset(
    "no nr e.g i.e eg ie approx mr mrs ms dr st vs ref tel ext acct dept max min est fig inc ltd".split()
)
_TOKEN = re.compile(
    r"\d+(?:[.,]\d+)+|[^\W_]+(?:['\u2019][^\W_]+)*|[?!.,;:()#&/]|[\u2022\u2014\u2013]|(?<=\s)-+(?=\s)"
)
_PLAIN = {
    "pls": "please", "plz": "please", "whats": "what is", "u": "you", "ur": "your", "\u2013": "-",
    "\u2014": "-", "let's": "let us", "can't": "can not", "cannot": "can not", "'s": " is",
    "'ll": " will", "'d": " would", "'m": " am", "'re": " are", "'ve": " have",
}  # fmt: skip
_IS = frozenset("what that it who where here there this".split())


def _any(words: str) -> str:
    return "(?:" + "|".join(words.split("|")) + ")"


# What may stand between the words of a request. Everything below is matched against words
# parted by single spaces, and every repetition is bounded.
_ADV = (
    "(?:" + _any(
        "please|kindly|also|just|quickly|first|then|again|still|now|perhaps|maybe|possibly|really|only"
        "|simply|briefly|once more|once again|therefore|at least|do|go ahead and|be so kind as to"
        "|be so kind and|take a moment to|try to|happen to|by any chance|at this point"
    ) + " ){0,4}"
)  # fmt: skip
_TO_ME = "(?:(?:me|us|with (?:me|us)|to (?:me|us)|again|back|once more|please|down|in|out|of|with) ){0,4}"
_VERB = (
    "(?:re )?" + _any(
        "provide|give|share|send|tell|confirm|enter|specify|supply|state|type|submit|include|verify"
        "|repeat|write|paste|drop|forward|indicate|read|(?:reply|respond) with|remind|fill|spell"
        "|let (?:me|us) know|message|text|pass|identify|retype|resend|hand|get (?:me|us)"
    ) + " "
)  # fmt: skip
_GERUND = _any("providing|giving|sharing|sending|telling|confirming|entering|specifying|repeating|letting (?:me|us) know|reminding") + " "  # fmt: skip
_WE = "(?:i|we) (?:(?:will|would|do|am|are|have|shall|must) ){0,2}"
_ABLE = "(?:are you|would you be|will you be) able to |(?:is it|would it be) possible (?:for you )?to "
_YOU = (
    f"(?:(?:can|could|would|will) you {_ADV}(?:like to )?|(?:please|kindly) "
    f"|{_WE}{_ADV}(?:need|require|want|like|ask) (?:that )?you (?:to )?"
    f"|you (?:will |would )?{_ADV}(?:need to|have to|must|should) "
    f"|(?:if|whether) you (?:can|could|would|might) |{_ABLE}){_ADV}"
)
_START = (
    r"(?:^ |(?<=[.;?!\u2022(] )|(?<= - ))(?:(?:(?:thanks|thank you|ok|okay|sure|great|hi|hello|alright|got it"
    r"|perfect|sorry|yes|no|well|next|first|finally|otherwise|then|also|now|so|and) ){1,2}(?:\w+ )?(?:[,!] )?)?"
)
_LEAD = r"^ (?:to|in order to|for|before|after|so that|if|next|once) (?:[^ ,;:.?]+ ){1,16}, "
_GET = (
    "(?:know|have|get|ask(?: you)?(?: for)?|request|see|confirm|verify|collect|obtain|take(?: down)?"
    "|gather|note(?: down)?|receive|hear) (?:from you )?"
)
_REQUESTS = "|".join(
    (
        f"{_YOU}{_VERB}{_TO_ME}",
        f"(?:can|could) you {_ADV}(?:find|locate|look up|dig up) ",
        f"(?:{_START}|{_LEAD}){_ADV}{_VERB}{_TO_ME}",
        f"(?<=[,;] ){_ADV}{_VERB}(?:me|us) {_TO_ME}|(?:and|then|or) {_ADV}{_VERB}(?:me|us) {_TO_ME}",
        f"{_WE}{_ADV}(?:need|require|want|would like|would love|like|missing|waiting for) (?:from you )?"
        f"(?:(?:is|are) )?(?:to {_ADV}{_GET})?",
        f"{_WE}(?:to |need to |want to ){_ADV}{_GET}",
        f"(?:i|we) (?:still |just )?need (?:from you )?(?:now )?(?:is|are) ",
        f"(?:can|could|may|might) (?:i|we) {_ADV}{_GET}|let (?:me|us) (?:have|know) ",
        f"(?:can|could|shall|may) (?:i|we|you) {_ADV}(?:start|begin) with |let us (?:start|begin) with ",
        f"(?:do|would|might) you {_ADV}(?:have|know|remember|recall) |have you got ",
        f"(?:would|do) you {_ADV}mind {_ADV}{_GERUND}{_TO_ME}|appreciate you {_GERUND}{_TO_ME}",
        f"mind if (?:i|we) {_ADV}{_GET}|(?:what|how) about ",
    )
)
