"""A draft that asks the user for what the run already knows, found in plain code.

A slot is asked for where its name is the object of a question or a request ("what is your ...",
"please provide a photo and your ..."): what stands before the name must be a way to ask, and what
stands behind it must leave it whole. A rule of that kind misses some ways to ask and seldom takes
another question for one. Only English is read. Not found: "which order?" (there may be several),
a question that points back ("Could you send it?"), a request in the form of a statement ("Your
order number is required").
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from repeatguard_sdk._identity import fact_name
from repeatguard_sdk._slot import Slot, names_of, spans_of, states, words_of

# A sentence longer than that is none: what stands behind is not read, so that the time a draft
# takes grows with its length only.
_SENTENCE_CHARS = 4000
# How far before a name, and how far behind it, anything can bear on it.
_REACH = 600

# 1. From a draft to sentences.
_HIDDEN = re.compile(
    r"^[ \t]{0,3}(```|~~~)(?![^\n]*\1)[\s\S]*?(?:^[ \t]{0,3}\1[^\n]*|\Z)|^[ \t]{0,3}>[^\n]*"
    r"|https?://\S*[\w/]|(?<!\w)'[^'\n]{1,400}'(?!\w)|(?<!\w)‘[^‘’\n]{1,400}’(?!\w)|"
    + "|".join(f"{a}[^{a}{z}\n]{{1,400}}{z}" for a, z in ('""', "``", "“”", "„“", "„”", "«»")),
    re.MULTILINE,
)
_BULLET = re.compile(r"[ \t]*(?:[-*+•●–]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)])[ \t]+")
_ANNOUNCES = re.compile(r":\W*$|\b(?:following|these|below)\b", re.IGNORECASE)

# 2. Ways to ask. From here on patterns meet words parted by single spaces (`words_of`): each
# pattern ends in a space, and each repetition is bounded.


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile the long ones when they are needed: it takes as long as importing the package."""
    return re.compile(pattern)


def _any(choices: str) -> str:
    each = [" ".join(choice.split()) for choice in choices.split(",")]
    # The longest first: "may I ask" must not stop before "for".
    return f"(?:{'|'.join(sorted(each, key=len, reverse=True))}) "


def _some(choices: str) -> str:
    return f"(?:{_any(choices)}){{0,4}}"


_ADV = _some("""please, kindly, also, just, quickly, first, then, again, still, now, perhaps, maybe,
    possibly, really, only, simply, briefly, once more, once again, therefore, at least, do,
    go ahead and, be so kind as to, be so kind and, kind enough to, willing to, take a moment to,
    happen to, by any chance""")
_TO_ME = _some("""me, us, with me, with us, to me, to us, for me, for us, again, back, once more,
    please, down, in, out, over, along, through, of, with""")
_VERB = "(?:re )?" + _any("""provide, give, share, send, tell, confirm, enter, specify, supply,
    state, type, submit, include, verify, repeat, paste, drop, forward, indicate, read, reply with,
    respond with, remind, fill, spell, let me know, let us know, message, text, pass, identify,
    retype, resend, get me, get us""")
_GERUND = _any("""providing, giving, sharing, sending, telling, confirming, entering, specifying,
    repeating, reminding, passing, supplying, stating, typing, letting me know, letting us know""")
_GET = (
    _any("""know, have, get, ask, ask for, ask you for, request, see, confirm, verify, collect,
    obtain, take, take down, gather, note, receive, hear, trouble you for, bother you for""")
    + "(?:from you )?"
)
_WE = "(?:i|we) (?:(?:will|would|do|am|are|have|shall|must|going to|gonna) ){0,3}"
# It is the user who is told to act: a bare "confirm your address" may be what the agent will do.
_YOU = (
    f"(?:(?:can|could|would|will) you {_ADV}(?:like to )?|(?:please|kindly) "
    f"|{_WE}{_ADV}(?:need|require|want|like|ask) (?:that )?you (?:to )?"
    "|(?:can|could|may|might) (?:i|we) ask you to "
    f"|you (?:will |would )?{_ADV}(?:need to|have to|must|should) "
    "|(?:if|whether) you (?:can|could|would|might) |(?:are|be) (?:you )?able to "
    f"|(?:is it|would it be) possible (?:for you )?to ){_ADV}"
)
_INTRO = _any("""thanks, thank you, ok, okay, sure, great, hi, hello, alright, got it, perfect,
    sorry, yes, no, well, next, first, finally, otherwise, then, also, now, so, and, please""")
_OPENS = rf"(?:(?<=^ )|(?<=[.;:?!\u2022(-] ))(?:(?:{_INTRO}){{1,2}}(?:(?:\w+ )?[,!] )?)?"
_PURPOSE = r"(?<=^ )(?:to|in order to|for|before|after|if|once) (?:[^ ,;:.?]+ ){1,16}, "
_REQUEST = (
    f"(?<= )(?:{_YOU}{_VERB}{_TO_ME}"
    f"|(?:can|could) you {_ADV}(?:find|locate|look up|dig up) "
    f"|(?:{_OPENS}|{_PURPOSE}){_ADV}{_VERB}{_TO_ME}"
    f"|(?:(?<=[,;] )|and |then |or ){_ADV}{_VERB}(?:me|us) {_TO_ME}"
    f"|{_WE}{_ADV}need (?:from you )?(?:now )?(?:is|are) "
    f"|{_WE}{_ADV}(?:need|require|want|missing|waiting for) (?:from you )?(?:to {_ADV}{_GET})?"
    f"|(?:i|we) would {_ADV}(?:like|love) (?:to {_ADV}{_GET})?|{_WE}to {_ADV}{_GET}"
    f"|(?:help|helps|helpful|great|good|useful) to {_GET}|let (?:me|us) (?:have|know) "
    f"|(?:can|could|may|might) (?:i|we) {_ADV}{_GET}|mind if (?:i|we) {_ADV}{_GET}"
    f"|(?:(?:can|could|shall|may) (?:i|we|you) {_ADV}|let us )(?:start|begin) with "
    f"|(?:do|would|might) you {_ADV}(?:have|know|remember|recall) |have you got "
    f"|(?:(?:would|do) you {_ADV}mind|would {_ADV}appreciate you|{_OPENS}mind) {_ADV}{_GERUND}"
    f"{_TO_ME}"
    f"|{_OPENS}(?:what|how) about |{_OPENS}(?:just |still |only )?need (?=[^?]*$)"
    r"|what (?:is|was|are) (?=[^?]{0,400}\?))"
)
_USER_IS_TOLD = f"(?<= ){_YOU}"
_AND_VERB = re.compile(f"(?<= )(?:and|then|,|&) (?:then )?{_ADV}{_VERB}{_TO_ME}$")
_CLAUSE_END = re.compile(r" (?:[,;.?!\u2022-]|but|so) ")
# What makes a request a condition, or somebody else's: "if I need ...", "you asked whether I ...".
_HANGS_ON = re.compile(
    " (?:(?:asked|asks|said|says|saying|told|tells|mentioned|wrote|reads|he|she|they) "
    "|(?:do|does|did|should|shall|if|whether|when|why|how|once|until|unless|while|not|never) $)"
)

# 3. What may stand around the name, and what must not.
_DET = "(?:your|the|this|that|a|an|any|its) "
_PHRASE = re.compile(
    r"(?<= )(?P<wh>(?:what|which) (?:(?:is|was|are|were|would be) )?)?"
    rf"(?:(?:first|also|again|both) )?(?:{_DET})?(?:(?:full|complete|current|exact|own|personal"
    r"|relevant|corresponding|associated|registered|existing|specific|best|\w+ digit) ){0,2}$"
)
_WH_START = re.compile(
    r"(?:^ |[,;:.?!(\u2022-] |(?<= )(?:and|but|so|then|also|or|ok|okay|well|now|please|first|again"
    rf"|under|to|at|for|by|on|with|from|in) |{_OPENS})$"
)
_JOINED = re.compile(r"(?<= )(?:[,:(/&\u2022-]|and|or|plus|as well as|(?:along|together) with) $")
# Between a request and what is joined to it: there a clause of its own begins.
_BREAK = re.compile(
    " " + _any("""[.;?!], if, whether, that, about, regarding, concerning, between, because, while,
    until, unless, since, but, to, so, after, before""")
)  # fmt: skip
_LIST = re.compile(r" (?:\? )?[:\u2022] ")
_LIST_BREAK = re.compile(r" (?:if|whether|about|what|which|how|why|[.;?!]) ")
_FOLLOWS = re.compile(
    _any(r"""[?!.;:()&/\u2022-], and, or, plus, as, so, to(?! be ), for, of, on, from, in, at, with,
    please, again, first, below, here, now, once, if, before, because, since, that, which, you, we,
    i, it, associated, linked, connected, used(?! for [?.]), related, registered, assigned, listed,
    printed, shown, starting, beginning, by, via, then, also, too, handy, ready, available, right,
    just, one, thanks, thank, under, but, exactly, along, together, while, though""") + "|, |$"
)  # fmt: skip
_WH_FOLLOWS = re.compile("(?:is|was|are|were|do|does|did|should|would|will|can|could|have|has) ")
_NEAR = re.compile(
    r"(?:(?!(?:so|because|since|if|before|and|or|but|when|once) )\w+ ){0,12}"
    r"(?:and (?!your |the |an? )\w+ (?=of ))?(?:of (?:\w+ ){1,4})?"
)
_TO_DO = re.compile(r"(?:^| )to (?!(?:the|your|their|our|a|an|any|them|him|her) ).*")
_OTHER = re.compile(
    "(?:^| )" + _any("""other, another, second, third, new, different, next, previous, old, latter,
    former, each, every, two, three, else, instead, recipient, colleague, manager, wife, husband,
    partner, friend, seller, store, shop, courier, driver, their, his, her""")
)  # fmt: skip
_OF_OTHER = re.compile(
    r"(?:^|^and \w+ )of (?!(?:(?:your|the|this|that) )?(?:(?:own|current|recent|latest|original) )?"
    + _any("""order, purchase, account, booking, reservation, profile, yours, transaction, parcel,
    package, shipment, delivery, invoice, receipt""") + ")"
)  # fmt: skip
_ELSEWHERE = re.compile(
    r"(?:^| )(?:(?:to|with) (?:the|your|their|our|a|an|any|them|him|her) |at checkout "
    r"|(?:in|inside|into|on|onto|at|via|from) (?:the|our|your|their|that|this|a) (?:\w+ ){0,2}"
    + _any("""box, bag, subject, field, search, system, records, database, website, site, page,
    portal, app, counter, desk, warehouse, store""") + ")"
)  # fmt: skip
_PREDICATE = re.compile(
    r"(?!(?:that|which|you|we|i|it) )(?:(?!(?:what|how|when|where|why|who|so|because) )\w+ ){0,6}?"
    r"(?<!and )(?<!or )(?:is|are|was|were|match|matches|looks?|works?|has|have) "
    r"|(?:\w+ ){1,8}(?:is|are|matches) (?:\w+ ){0,2}(?:right|correct|valid|accurate|fine|okay?|up) "
)
_SECURITY = re.compile(
    r"(?<! social) (?:security|identity|authentication|authenticate|verification|identify you"
    r"|it is (?:really )?you|you are the account holder) "
)
_CHECKS = re.compile(r" (?:confirm|verify) (?:(?:me|us|with|again) ){0,3}$")
# Names that are things as well: an e-mail is also a message, a phone is also a device.
_THINGS = frozenset({"email", "e mail", "mail", "phone", "mobile", "telephone"})
_HAS_THING = re.compile(r"you (?:\w+ ){0,3}(?:have|find|locate|got) $")
_SENDS_THING = re.compile(r"(?:send|forward|get|resend|share) (?:me |us )?$")
_ABOUT_THING = re.compile(r"(?:from|about|that|with|in|containing|you (?:received|got|sent)) ")
# A name that is the whole of a question: "And your email, please?"
_ALONE_BEFORE = re.compile(
    rf"{_OPENS}(?:(?:{_DET}(?:\w+ ){{1,3}}|\w+ )(?:,|and|&|plus) (?:and )?){{0,3}}$"
)
_ALONE_BEHIND = re.compile(
    rf"(?:(?:and|,|&|plus) (?:and )?(?:{_DET})?(?:\w+ ){{1,3}}){{0,4}}(?:, )?"
    r"(?:please |again |first |thanks |thank you |then |here |too ){0,3}(?P<end>\?|[.!)]|$)"
)


class Asked(NamedTuple):
    """A question for something that is known.

    Attributes:
        slot: the name of the slot.
        sentence: the sentence of the draft that asks; a request and its list are one.
        value: what is known.
    """

    slot: str
    sentence: str
    value: Any


class _Sentence(NamedTuple):
    raw: str
    words: str


class _Mention(NamedTuple):
    """A name of a slot in a sentence, with its phrase ("what is your full ...") before it."""

    words: str
    start: int
    phrase: str
    wh: str
    name: str
    behind: str


def find_asked(draft: str, slots: Iterable[Slot], known: Mapping[str, Any]) -> Asked | None:
    """Return the first question of a draft whose answer is known, `None` if there is none.

    A sentence that states the value asks for a yes, and one that asks for another item, for a
    part of the value or for a proof of identity asks for something else: none of them counts.

    Args:
        draft: what the model is about to tell the user.
        slots: the facts to look for.
        known: slot name to value; `None` and blank text are not known.
    """
    facts = {fact_name(name): value for name, value in known.items() if not _is_blank(value)}
    names, pattern = names_of(tuple(slots))
    if not any(fact_name(slot) in facts for slot in names.values()):
        return None
    nothing = _Sentence("", "")
    sentences = [nothing, *_sentences(draft), nothing]
    for at, sentence in enumerate(sentences[1:-1], 1):
        requests: list[int] | None = None
        settled: set[str] = set()
        for match in pattern.finditer(sentence.words):
            slot = names[match[0]]
            value = facts.get(fact_name(slot))
            if value is None or slot in settled:
                continue
            if requests is None:
                requests = _requests(sentence.words)
            mention = _mention(match)
            if _is_asked(mention, requests) and not _is_beyond(mention, value):
                if not _is_settled(mention, value, *sentences[at - 1 : at + 2]):
                    return Asked(slot, sentence.raw, value)
                settled.add(slot)
    return None


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _sentences(draft: str) -> Iterator[_Sentence]:
    """Yield the sentences of a draft; a list is part of the sentence that announces it."""
    masked = _HIDDEN.sub(_mask, draft)
    start, end, text, in_list = 0, 0, "", False
    for first, last, is_item in _blocks(masked):
        in_list = is_item and (in_list or _ANNOUNCES.search(text[-_REACH:]) is not None)
        if in_list:
            end = last
            if len(text) < _SENTENCE_CHARS:
                text += f" \u2022 {masked[first:last]}"
            continue
        for span in spans_of(masked, first, last):
            yield _Sentence(draft[start:end].strip(), words_of(text[:_SENTENCE_CHARS]))
            start, end = span
            text = masked[start:end]
    yield _Sentence(draft[start:end].strip(), words_of(text[:_SENTENCE_CHARS]))


def _mask(match: re.Match[str]) -> str:
    """Hide code, quotes and addresses, length for length; a quoted word or two is emphasis."""
    text = match[0]
    if match[1] or text.lstrip(" \t").startswith(">"):
        return "\n" * len(text)
    if text.startswith("http") or len(text.split(None, 3)) > 3:
        return " " * len(text)
    return f" {text[1:-1]} "


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of each paragraph and list item, and whether it is an item."""
    start, end, is_item, after_colon = -1, 0, False, False
    for line in text.splitlines(keepends=True):
        at, end = end, end + len(line)
        bullet = _BULLET.match(line)
        begins = after_colon or bullet or (is_item and not line[0].isspace())
        if start >= 0 and (begins or line.isspace()):
            yield start, at, is_item
            start = -1
        if line.isspace():
            after_colon = False
            continue
        if start < 0:
            start = at + bullet.end() if bullet else at
            is_item = bullet is not None or after_colon
        after_colon = after_colon or line.rstrip().endswith(":")
    if start >= 0:
        yield start, end, is_item


def _requests(words: str) -> list[int]:
    """Return where the requests of a sentence end, in order: there their object begins."""
    ends: list[int] = []
    for match in _compiled(_REQUEST).finditer(words):
        start = match.start()
        clause = _CLAUSE_END.split(words[max(0, start - _REACH) : start])[-1]
        if not _HANGS_ON.search(f" {clause}"):
            ends.append(match.end())
    return ends


def _mention(match: re.Match[str]) -> _Mention:
    words, at, end = match.string, match.start(), match.end() + 1
    phrase = _PHRASE.search(words, max(0, at - 80), at)
    start = phrase.start() if phrase else at
    wh = (phrase and phrase["wh"]) or ""
    return _Mention(words, start, words[start:at], wh, match[0], words[end : end + _REACH])


def _is_asked(mention: _Mention, requests: list[int]) -> bool:
    words, start, behind = mention.words, mention.start, mention.behind
    is_whole = _FOLLOWS.match(behind) or (mention.wh and _WH_FOLLOWS.match(behind))
    if not is_whole or (mention.name in _THINGS and _is_thing(mention)):
        return False
    if _is_object(words, start, requests):
        return bool(mention.wh) or not _PREDICATE.match(behind)
    if mention.wh:
        is_question = "?" in behind.partition("\u2022")[0]
        return is_question and _WH_START.search(words, max(0, start - 160), start) is not None
    before = _ALONE_BEFORE.search(words, max(0, start - 160), start)
    after = _ALONE_BEHIND.match(behind)
    if not before or not after:
        return False
    return after["end"] == "?" or "please" in before[0] or "please" in after[0]


def _is_object(words: str, start: int, requests: list[int]) -> bool:
    """Tell whether what starts there is what a request is for, alone or as one of several."""
    at = bisect_right(requests, start) - 1
    if at >= 0 and requests[at] == start:
        return True
    verb = _AND_VERB.search(words, max(0, start - 80), start)
    if verb:
        # "Could you open the app and share your ..."
        told = [*_compiled(_USER_IS_TOLD).finditer(words, max(0, verb.start() - 200), verb.start())]
        return bool(told) and not _BREAK.search(words, told[-1].end() - 1, verb.start() + 1)
    if at < 0 or not _JOINED.search(words, max(0, start - 20), start):
        return False
    end = requests[at] - 1
    listed = _LIST.search(words, end, start)
    if listed:
        return not _LIST_BREAK.search(words, end, listed.start() + 1)
    return start - end <= _REACH and not _BREAK.search(words, end, start)


def _is_thing(mention: _Mention) -> bool:
    """Tell whether "email" is a message here, or "phone" a device."""
    words, start, phrase = mention.words, mention.start, mention.phrase.split()
    return (
        not {"a", "an", "any"}.isdisjoint(phrase)
        or _HAS_THING.search(words, max(0, start - 80), start) is not None
        or (
            "your" not in phrase
            and _SENDS_THING.search(words, max(0, start - 20), start) is not None
        )
        or _ABOUT_THING.match(mention.behind) is not None
    )


def _is_beyond(mention: _Mention, value: Any) -> bool:
    """Tell whether the phrase means another item than the known one, or more of it."""
    is_word = isinstance(value, str) and value.strip().isalpha()
    if is_word and "full" in f"{mention.phrase}{mention.name}":
        return True
    near = _NEAR.match(mention.behind)
    behind = near[0] if near else ""
    if not mention.wh:
        behind = _TO_DO.sub("", behind)
        if _ELSEWHERE.search(behind):
            return True
    return _OTHER.search(behind) is not None or _OF_OTHER.match(behind) is not None


def _is_settled(
    mention: _Mention, value: Any, earlier: _Sentence, sentence: _Sentence, later: _Sentence
) -> bool:
    """Tell whether the draft states the value beside the question, or wants it as a proof."""
    if _SECURITY.search(earlier.words) or _SECURITY.search(sentence.words):
        return True
    if states(sentence.raw, value) or states(later.raw, value):
        return True
    start = mention.start
    is_check = _CHECKS.search(mention.words, max(0, start - 40), start) is not None
    return is_check and states(earlier.raw, value)
