"""A draft that asks the user for what the run already knows, found in plain code.

A slot is asked for where its name is the object of a question or a request ("what is your ...",
"please provide a photo and your ..."): what stands before the name must be a way to ask, and what
stands behind it must leave it whole. A rule of that kind misses some ways to ask and seldom takes
another question for one. Only English is read. Not found: "which order?" (there may be several),
a question that points back ("Could you send it?"), a request that looks like a statement ("Your
order number is required").
"""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from repeatguard_sdk._identity import fact_name
from repeatguard_sdk._slot import Slot, states

# A sentence longer than that is none: what stands behind is not read, so that the time a draft
# takes grows with its length only.
_SENTENCE_CHARS = 4000
# How far before a name the request may stand to which it is joined by "and".
_REACH = 600

# 1. From a draft to sentences.
_QUOTES = ("\"\"", "\u201c\u201d", "\u201e\u201c", "\u201e\u201d", "\u00ab\u00bb", "``")
_HIDDEN = re.compile(
    r"https?://\S*[\w/]|(?<!\w)'[^'\n]{1,400}'(?!\w)|(?<!\w)\u2018[^\u2018\u2019\n]{1,400}\u2019(?!\w)|"
    + "|".join(f"{a}[^{a}{b}\n]{{1,400}}{b}" for a, b in _QUOTES)
)
_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
_BULLET = re.compile(r"[ \t]*(?:[-*+\u2022\u25cf\u2013]|\(?\d{1,2}[.)]|\(?[a-zA-Z][.)])[ \t]+")
_END = re.compile(r"[.!?\u2026\uff01\uff1f]+[\"'\u201d\u2019)*_\]]{0,4}(?=\s)")
_NEXT = re.compile(r"\s*(\S)")
_LAST_WORD = re.compile(r"[\w.]{1,12}$")
_ANNOUNCES = re.compile(r":\W*$|\b(?:following|these|below)\b", re.IGNORECASE)
_ABBREVIATIONS = frozenset(
    "no nr e.g i.e eg ie approx mr mrs ms dr st vs ref tel ext acct min max est fig inc ltd".split()
)

# 2. From a sentence to words, parted by single spaces. All that follows is matched against these,
# with every repetition bounded.
_TOKEN = re.compile(
    r"\d+(?:[.,]\d+)+|[^\W_]+(?:'[^\W_]+)*|[?!.,;:()#&/\u2022\u2014\u2013]|(?<=\s)-+(?=\s)"
)
_ENUMERATOR = re.compile(r" (?:\( )?(?:\d{1,2}|[a-h]) \) ")
_PLAIN = {
    "pls": "please", "plz": "please", "whats": "what is", "u": "you", "ur": "your",
    "let's": "let us", "cannot": "can not", "--": "-", "\u2013": "-", "\u2014": "-",
}  # fmt: skip
_SHORT = {"ll": " will", "d": " would", "m": " am", "re": " are", "ve": " have"}
_BE = frozenset("what that it who where here there this which".split())

# 3. Ways to ask.
_ADV = (
    "(?:(?:please|kindly|also|just|quickly|first|then|again|still|now|perhaps|maybe|possibly|really"
    "|only|simply|briefly|once (?:more|again)|therefore|at least|do|go ahead and|be so kind (?:as to|and)"
    "|take a moment to|happen to|by any chance) ){0,4}"
)
_TO_ME = (
    "(?:(?:me|us|(?:with|to|for) (?:me|us)|again|back|once more|please|down|in|out|of|with) ){0,4}"
)
_VERB = (
    "(?:re )?(?:provide|give|share|send|tell|confirm|enter|specify|supply|state|type|submit|include"
    "|verify|repeat|paste|drop|forward|indicate|read|(?:reply|respond) with|remind|fill|spell"
    "|let (?:me|us) know|message|text|pass|identify|retype|resend|get (?:me|us)) "
)
_GERUND = (
    "(?:providing|giving|sharing|sending|telling|confirming|entering|specifying|repeating"
    "|reminding|letting (?:me|us) know) "
)
_GET = (
    "(?:know|have|get|ask(?: you)?(?: for)?|request|see|confirm|verify|collect|obtain"
    "|take(?: down)?|gather|note(?: down)?|receive|hear) (?:from you )?"
)
_WE = "(?:i|we) (?:(?:will|would|do|am|are|have|shall|must) ){0,2}"
# Who is told to act is the user. A bare "confirm your address" may be what the agent will do.
_YOU = (
    f"(?:(?:can|could|would|will) you {_ADV}(?:like to )?|(?:please|kindly) "
    f"|{_WE}{_ADV}(?:need|require|want|like|ask) (?:that )?you (?:to )?"
    f"|you (?:will |would )?{_ADV}(?:need to|have to|must|should) "
    "|(?:if|whether) you (?:can|could|would|might) |(?:are|be) (?:you )?able to "
    f"|(?:is it|would it be) possible (?:for you )?to ){_ADV}"
)
_INTRO = (
    "(?:(?:thanks|thank you|ok|okay|sure|great|hi|hello|alright|got it|perfect|sorry|yes|no|well"
    "|next|first|finally|otherwise|then|also|now|so|and|plus|please) ){1,2}(?:(?:\\w+ )?[,!] )?"
)
_CLAUSE = r"(?:(?<=^ )|(?<=[.;:?!\u2022(-] ))"
_PURPOSE = r"(?<=^ )(?:to|in order to|for|before|after|so that|if|next|once) (?:[^ ,;:.?]+ ){1,16}, "
_REQUEST = re.compile(
    "(?<= )(?:"
    + "|".join(
        (
            f"{_YOU}{_VERB}{_TO_ME}",
            f"(?:can|could) you {_ADV}(?:find|locate|look up|dig up) ",
            f"(?:{_CLAUSE}(?:{_INTRO})?|{_PURPOSE}){_ADV}{_VERB}{_TO_ME}",
            f"(?:(?<=[,;] )|and |then |or ){_ADV}{_VERB}(?:me|us) {_TO_ME}",
            f"{_WE}{_ADV}need (?:from you )?(?:now )?(?:is|are) ",
            f"{_WE}{_ADV}(?:need|require|want|like|love|missing|waiting for) (?:from you )?"
            f"(?:to {_ADV}{_GET})?",
            f"{_WE}to {_ADV}{_GET}",
            f"(?:can|could|may|might) (?:i|we) {_ADV}{_GET}",
            "let (?:me|us) (?:have|know) ",
            f"(?:(?:can|could|shall|may) (?:i|we|you) {_ADV}|let us )(?:start|begin) with ",
            f"(?:do|would|might) you {_ADV}(?:have|know|remember|recall) |have you got ",
            f"(?:(?:would|do) you {_ADV}mind|appreciate you) {_ADV}{_GERUND}{_TO_ME}",
            f"mind if (?:i|we) {_ADV}{_GET}",
            f"{_CLAUSE}(?:{_INTRO})?(?:what|how) about ",
            f"{_CLAUSE}(?:{_INTRO})?(?:just |still |only )?need (?=[^?]*$)",
            r"what (?:is|was|are) (?=[^?]{0,400}\?)",
        )
    )
    + ")"
)
_USER_IS_TOLD = re.compile(f"(?<= ){_YOU}")
_AND_VERB = re.compile(f"(?<= )(?:and|then|,|&) (?:then )?{_ADV}{_VERB}{_TO_ME}$")
# Told by, or hanging on, something else: "you asked whether I need ...", "if I need ...".
_NOT_BEFORE = frozenset(
    "do does did should shall if whether when why how once until unless while not never where".split()
)
_REPORTED = re.compile(
    r" (?:asked|asks|said|says|saying|told|tells|mentioned|wrote|writes|reads|claims?|they|he|she) "
)

# 4. What stands around the name.
_DET = r"(?:your|the|this|that|a|an|any|its|ur) "
_BEFORE = re.compile(
    r"(?<= )(?P<wh>(?:what|which)(?: is| was| are| were| would be)? )?(?:(?:first|also|again|both|then) )?"
    rf"(?P<det>{_DET})?(?:(?:full|complete|current|exact|own|personal|relevant|corresponding|associated"
    r"|registered|existing|specific|best|\w+ digit) ){0,2}$"
)
_JOINED = re.compile(
    r"(?<= )(?:[,:(/&\u2022-]|and|or|plus|as well as|(?:along|together) with) $"
)
# Between a request and what "and" joins to it: there a clause of its own begins.
_BREAK = re.compile(
    r" (?:[.;?!]|if|whether|that|about|regarding|concerning|between|because|while|until|unless|since"
    r"|but|to|so|after|before) "
)
# The same for what is listed behind a colon.
_LIST = re.compile(r" (?:\? )?[:\u2022] ")
_BREAK_LIST = re.compile(r" (?:if|whether|about|what|which|how|why|[.;?!]) ")
_WH_START = re.compile(
    rf"(?:^ |[,;:.?!(\u2022-] |(?:^| )(?:and|but|so|then|also|or|ok|okay|well|now|please|under|to|at|for|by|on"
    rf"|with|from|in|first|again) |{_CLAUSE}{_INTRO})$"
)
_FOLLOWS = re.compile(
    r"(?:[?!.,;:()&/\u2022-]|and|or|plus|as|so|to|for|of|on|from|in|at|with|please|again|first|below|here"
    r"|now|once|if|before|because|since|that|which|you|we|i|it|associated|linked|connected|used(?! for [?.])|related"
    r"|registered|assigned|listed|printed|shown|starting|beginning|by|via|then|also|too|handy|ready"
    r"|available|right|just|one|thanks|thank|under|but|exactly|along|together|while|though) |$"
)
_WH_FOLLOWS = re.compile(
    r"(?:is|was|are|were|do|does|did|should|shall|would|will|can|could|have|has|am) "
)
_NEAR = re.compile(r"(?:(?!(?:so|because|since|if|before|and|or|but|when|once) )\w+ ){0,12}")
_PURPOSE_BEHIND = re.compile(r"(?:^| )(?:in order )?to (?!(?:the|your|their|our|a|an|any|them|him|her) ).*")
_OTHER = re.compile(
    r"(?:^| )(?:other|another|second|third|new|different|next|previous|old|latter|former|replacement"
    r"|each|every|two|three|else|instead|recipient|colleague|manager|wife|husband|partner|friend"
    r"|seller|store|shop|courier|driver|their|his|her) "
)
_OF_OTHER = re.compile(
    r"of (?!(?:(?:your|the|this|that|said) )?(?:(?:own|current|recent|latest|original) )?(?:order|purchase|account"
    r"|booking|reservation|profile|yours|transaction|parcel|package|item|product|shipment|delivery"
    r"|invoice|receipt)s? )"
)
_ELSEWHERE = re.compile(
    r"(?:^| )(?:(?:to|with) (?:the|your|their|our|a|an|any|them|him|her)|(?:in|inside|into|onto) (?:the|your"
    r"|our|their|that|this|a) (?:\w+ ){0,2}(?:box|parcel|package|subject|field|search|system|records|database)"
    r"|(?:on|in|at|via|from|into) (?:the|our|your|their|that|this) (?:\w+ ){0,2}(?:website|site|page|portal|app"
    r"|counter|desk|warehouse|store)) "
)
_PREDICATE = re.compile(
    r"(?!(?:that|which|you|we|i|it) )(?:(?!(?:what|how|when|where|why|who|so|because) )\w+ ){0,6}?"
    r"(?<!and )(?<!or )(?:is|are|was|were|match|matches|looks?|works?|has|have) "
)
_SECURITY = re.compile(
    r"(?<! social) (?:security|identity|authentication|authenticate|verification|identify you"
    r"|it is (?:really )?you|you are the account holder) "
)
# Names that are things as well: an e-mail is also a message, a phone is also a device.
_THINGS = frozenset({"email", "e mail", "mail", "phone", "mobile", "telephone"})
_HAS_THING = re.compile(r"you (?:\w+ ){0,3}(?:have|find|locate|got) $")
_SENDS_THING = re.compile(r"(?:send|forward|get|resend|share) (?:me |us )?$")
_ABOUT_THING = re.compile(r"(?:from|about|that|with|in|containing|we|i|you (?:received|got|sent)) ")

# 5. A name that is the whole of a question: "And your email, please?"
_ITEM = rf"(?:{_DET}(?:\w+ ){{1,3}}|\w+ )"
_ALONE_BEFORE = re.compile(rf"{_CLAUSE}(?:{_INTRO})?(?:{_ITEM}(?:,|and|&|plus) (?:and )?){{0,3}}$")
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
    """A name of a slot in a sentence, and the phrase around it: "what is | your full | name"."""

    words: str
    start: int
    end: int
    name: str
    phrase: str
    wh: str

    @property
    def before(self) -> str:
        return self.words[max(0, self.start - _REACH) : self.start]

    @property
    def behind(self) -> str:
        return self.words[self.end + 1 : self.end + 1 + _REACH]


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
    names, pattern = _names(tuple(slots))
    if not any(fact_name(slot) in facts for slot in names.values()):
        return None
    earlier = _Sentence("", "")
    for sentence, later in _pairs(_sentences(draft)):
        requests: list[int] | None = None
        settled: set[str] = set()
        for match in pattern.finditer(sentence.words):
            slot = names[match[0]]
            value = facts.get(fact_name(slot))
            if value is None or slot in settled:
                continue
            if requests is None:
                requests = _requests(sentence.words)
            mention = _mention(sentence.words, match)
            if _is_asked(mention, requests) and not _is_beyond(mention, value):
                if not _is_settled(mention, value, earlier, sentence, later):
                    return Asked(slot, sentence.raw, value)
                settled.add(slot)
        earlier = sentence
    return None


def _pairs(sentences: Iterator[_Sentence]) -> Iterator[tuple[_Sentence, _Sentence]]:
    nothing = _Sentence("", "")
    this = next(sentences, nothing)
    for following in sentences:
        yield this, following
        this = following
    yield this, nothing


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


@functools.lru_cache(maxsize=64)
def _names(slots: tuple[Slot, ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return what the slots are called, in words, and a pattern of all of it.

    What a slot is called by its own declaration goes before what another might be called.
    """
    names: dict[str, str] = {}
    for usual in (False, True):
        for slot in slots:
            every = slot.all_names()
            own = 1 + len(tuple(slot.aliases))
            for name in every[own:] if usual else every[:own]:
                names.setdefault(_words(name).strip(), slot.name)
    names.pop("", None)
    longest_first = sorted(names, key=len, reverse=True)
    return names, re.compile(rf"(?<= )(?:{'|'.join(map(re.escape, longest_first))})(?= )")


def _sentences(draft: str) -> Iterator[_Sentence]:
    """Yield the sentences of a draft; a list is part of the sentence that announces it."""
    masked = _HIDDEN.sub(_mask, draft)
    # The sentence that announces a list, as long as items of it come: start, end, text.
    lead: tuple[int, int, str] | None = None
    for start, end, is_item in _blocks(masked):
        if lead is not None and is_item:
            text = lead[2]
            if len(text) < _SENTENCE_CHARS:
                text += f" \u2022 {masked[start:end]}"
            lead = lead[0], end, text
            continue
        if lead is not None:
            yield _sentence(draft, *lead)
            lead = None
        for first, last in _spans(masked, start, end):
            text = masked[first:last]
            if last == end and _ANNOUNCES.search(text, max(0, len(text) - _REACH)):
                lead = first, last, text
            else:
                yield _sentence(draft, first, last, text)
    if lead is not None:
        yield _sentence(draft, *lead)


def _sentence(draft: str, start: int, end: int, text: str) -> _Sentence:
    return _Sentence(draft[start:end].strip(), _words(text[:_SENTENCE_CHARS]))


def _mask(match: re.Match[str]) -> str:
    """Hide quoted text and addresses, length for length; one or two quoted words are emphasis."""
    text = match[0]
    if text.startswith("http") or len(text.split(None, 3)) > 3:
        return " " * len(text)
    return f" {text[1:-1]} "


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of each paragraph and list item, and whether it is an item."""
    start, end, is_item = -1, 0, False
    fence = ""
    after_colon = False
    for line in text.splitlines(keepends=True):
        at, end = end, end + len(line)
        mark = _FENCE.match(line)
        if mark and mark[1] == (fence or mark[1]) and mark[1] not in line[mark.end() :]:
            fence = "" if fence else mark[1]
        bullet = _BULLET.match(line)
        is_void = bool(fence or mark) or line.isspace() or line.lstrip().startswith(">")
        begins = after_colon or bullet or (is_item and not line[0].isspace())
        if start >= 0 and (is_void or begins):
            yield start, at, is_item
            start = -1
        if is_void:
            after_colon = False
            continue
        if start < 0:
            start = at + bullet.end() if bullet else at
            is_item = bool(bullet) or after_colon
        after_colon = after_colon or line.rstrip().endswith(":")
    if start >= 0:
        yield start, end, is_item


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence; the points of abbreviations and numbers end none."""
    for mark in _END.finditer(text, start, end):
        if mark[0].strip(".\u2026\"'\u201d\u2019)*_]") == "":
            following = _NEXT.match(text, mark.end(), end)
            word = _LAST_WORD.search(text, max(start, mark.start() - 12), mark.start())
            is_short = word is not None and word.start() > start and (
                word[0].lower() in _ABBREVIATIONS or len(word[0]) == 1
            )
            if following and (following[1].islower() or (is_short and mark[0] == ".")):
                continue
        yield start, mark.end()
        start = mark.end()
    if text[start:end].strip():
        yield start, end


def _words(text: str) -> str:
    """Return the words of a text, lower-cased and parted by single spaces, one at each end."""
    words: list[str] = [""]
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")):
        last = words[-1]
        if token == "." and (last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha())):
            continue
        word = _PLAIN.get(token, token)
        stem, mark, ending = word.partition("'")
        if mark:
            if word.endswith("n't"):
                word = f"{word[:-3]} not"
            else:
                is_verb = ending == "s" and stem in _BE
                word = f"{stem} is" if is_verb else stem + _SHORT.get(ending, "")
        words.append(word)
    plain = " ".join(words) + " "
    return _ENUMERATOR.sub(" , ", plain)


def _requests(words: str) -> list[int]:
    """Return where the requests of a sentence end, in order: there their object begins."""
    ends: list[int] = []
    for match in _REQUEST.finditer(words):
        start = match.start()
        clause = words[max(0, start - _REACH) : start]
        clause = re.split(r" (?:[,;.?!\u2022-]|but|so) ", clause)[-1]
        if clause.split()[-1:] and clause.split()[-1] in _NOT_BEFORE:
            continue
        if not _REPORTED.search(f" {clause}"):
            ends.append(match.end())
    return ends


def _mention(words: str, match: re.Match[str]) -> _Mention:
    around = _BEFORE.search(words, max(0, match.start() - 80), match.start())
    start = around.start() if around else match.start()
    wh = (around and around["wh"]) or ""
    return _Mention(words, start, match.end(), match[0], words[start : match.start()], wh)


def _is_asked(mention: _Mention, requests: list[int]) -> bool:
    behind = mention.behind
    is_whole = _FOLLOWS.match(behind) or (mention.wh and _WH_FOLLOWS.match(behind))
    if not is_whole or (mention.name in _THINGS and _is_thing(mention)):
        return False
    if _is_object(mention, requests):
        return bool(mention.wh) or not _PREDICATE.match(behind)
    if mention.wh:
        ends = behind.partition("\u2022")[0]
        return "?" in ends and _WH_START.search(mention.words, 0, mention.start) is not None
    return _is_alone(mention)


def _is_object(mention: _Mention, requests: list[int]) -> bool:
    """Tell whether the phrase is what a request is for, alone or as one of several."""
    words, start = mention.words, mention.start
    at = bisect_right(requests, start) - 1
    if at >= 0 and requests[at] == start:
        return True
    verb = _AND_VERB.search(words, max(0, start - 80), start)
    if verb:
        told = [match.end() for match in _USER_IS_TOLD.finditer(words, max(0, verb.start() - 200), verb.start())]
        return bool(told) and not _BREAK.search(words, told[-1] - 1, verb.start() + 1)
    if at < 0 or not _JOINED.search(words, max(0, start - 20), start):
        return False
    end = requests[at]
    listed = _LIST.search(words, end - 1, start)
    if listed:
        return not _BREAK_LIST.search(words, end - 1, listed.start() + 1)
    return start - end <= _REACH and not _BREAK.search(words, end - 1, start)


def _is_alone(mention: _Mention) -> bool:
    before = _ALONE_BEFORE.search(mention.words, max(0, mention.start - 160), mention.start)
    behind = _ALONE_BEHIND.match(mention.behind)
    if not before or not behind:
        return False
    return behind["end"] == "?" or "please" in before[0] or "please" in behind[0]


def _is_thing(mention: _Mention) -> bool:
    """Tell whether "email" is a message here, or "phone" a device."""
    before, det = mention.before, mention.phrase.split(" ")
    return (
        not {"a", "an", "any"}.isdisjoint(det)
        or _HAS_THING.search(before) is not None
        or ("your" not in det and _SENDS_THING.search(before) is not None)
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
        behind = _PURPOSE_BEHIND.sub("", behind)
        if _ELSEWHERE.search(behind):
            return True
    return _OTHER.search(behind) is not None or _OF_OTHER.match(behind) is not None


def _is_settled(
    mention: _Mention, value: Any, earlier: _Sentence, sentence: _Sentence, later: _Sentence
) -> bool:
    """Tell whether the draft states the value beside the question, or wants it as a proof."""
    if any(_SECURITY.search(text.words) for text in (earlier, sentence)):
        return True
    if states(sentence.raw, value) or states(later.raw, value):
        return True
    is_check = re.search(r"(?:confirm|verify) (?:me |us |with |again )*$", mention.before)
    return is_check is not None and states(earlier.raw, value)
