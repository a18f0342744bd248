"""A fact a run may know: what people call it, and whether a text states its value."""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from repeatguard_sdk.exceptions import ToolDeclarationError

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
# Words at the end of a slot's name, and what people say for them; the longest ending counts.
_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "email address|email|mail",
        ("email", "e-mail", "email address", "e-mail address", "mail address"),
    ),
    (
        "telephone number|phone number|mobile number|telephone|phone|mobile|tel",
        ("phone number", "phone", "telephone number", "telephone", "mobile number", "cell number"),
    ),
    (
        "zip code|postal code|post code|postcode|zip",
        ("zip code", "zip", "postal code", "postcode", "post code"),
    ),
    (
        "date of birth|birth date|birthdate|birthday|dob",
        ("date of birth", "birth date", "birthdate", "birthday", "DOB"),
    ),
    ("first name|given name", ("first name", "given name", "forename")),
    ("last name|family name|surname", ("last name", "family name", "surname")),
    ("user name|username", ("user name", "username")),
)
_NUMBERED = frozenset({"id", "number", "no", "num", "nr", "ref", "reference"})
_NUMBERS = ("id", "number", "no", "#", "reference", "reference number")
_ALONE = {
    "name": ("full name",),
    "address": ("postal address", "street address", "home address", "mailing address"),
}
_SAME = {
    "shipping": ("delivery",),
    "delivery": ("shipping",),
    "booking": ("reservation",),
    "reservation": ("booking",),
}

# Words that end in a point which ends no sentence.
_ABBREVIATIONS = frozenset(
    {"no", "nr", "e.g", "i.e", "eg", "ie", "approx", "mr", "mrs", "ms", "dr", "st", "vs", "ref"}
    | {"tel", "ext", "acct", "min", "max", "est", "fig", "inc", "ltd"}
)
_END = re.compile(r"(?<![.!?…！？])[.!?…！？]+[\"'”’)*_\]]{0,4}(?=\s)")
_POINT = re.compile(r"[.…]+[^!?]{0,4}")
_NEXT = re.compile(r"\s*(\S)")
_LAST_WORD = re.compile(r"[\w.]{1,12}$")
_TOKEN = re.compile(
    r"\d+(?:[.,]\d+)+|[^\W_]+(?:'[^\W_]+)*|[?!.,;:()#&/\u2022\u2014\u2013]|(?<=\s)-+(?=\s)"
)
_ENUMERATOR = re.compile(r" (?:\( )?(?:\d{1,2}|[a-h]) \) ")
_PLAIN = {
    "pls": "please", "plz": "please", "whats": "what is", "u": "you", "ur": "your",
    "let's": "let us", "cannot": "can not", "--": "-", "\u2013": "-", "\u2014": "-",
}  # fmt: skip
_SHORT = {"ll": " will", "d": " would", "m": " am", "re": " are", "ve": " have"}
_BE = frozenset({"what", "that", "it", "who", "where", "here", "there", "this", "which"})

_PIECE = re.compile(r"[^\W\d_]+|\d+")
_NUMBER = re.compile(r"\d{1,3}(?:[ .,'\u2019]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?")
_AMOUNT = re.compile(r"[^\w.]{0,3}(?:[a-z]{3})?\s?(\d[\d .,']*)\s?(?:[a-z]{3}|[^\w.]{0,3})")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[t ].*)?|\d\d?[./-]\d\d?[./-](?:\d{4}|\d\d)", re.DOTALL)
_ENDING = re.compile(r"\b(?:end(?:s|ing)?|last)\b|[*\u2022\u2026]|\.\.|xx", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = re.compile(
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_IN_DATES = frozenset({"st", "nd", "rd", "th", "of", "the"})
_MOST_ITEMS = 20


@attrs.frozen
class Slot:
    """A fact that is asked for once: its name, and what else people call it.

    The usual names come by themselves, from how the name ends: ``order_id`` is also an order
    number, an order no, an order # and the id of your order; ``billing_email`` a billing e-mail
    address; ``delivery_date`` the date of delivery; ``dob`` a birthday. English only.

    Args:
        name: the name the run knows the fact by.
        aliases: further names, such as ``"booking code"``.

    Raises:
        ToolDeclarationError: a blank name or alias, or a text where a list of names is expected.
    """

    name: str
    aliases: Iterable[str] = ()

    def __attrs_post_init__(self) -> None:
        _check_name("name", self.name, 'Slot("order_id")')
        write = f'Slot({self.name!r}, aliases=["..."])'
        given: Any = self.aliases
        if isinstance(given, str):
            msg = (
                f"Slot: aliases takes a list of names, not a text; "
                f"write Slot({self.name!r}, aliases=[{given!r}])"
            )
            raise ToolDeclarationError(msg)
        try:
            aliases: tuple[Any, ...] = tuple(given)
        except TypeError as error:
            msg = f"Slot: aliases takes a list of names, not {given!r}; write {write}"
            raise ToolDeclarationError(msg) from error
        for alias in aliases:
            _check_name("an alias", alias, write)
        object.__setattr__(self, "aliases", aliases)

    def all_names(self) -> tuple[str, ...]:
        """Return the slot's own name in words, the aliases and the usual names, each once."""
        words = " ".join(word.lower() for word in _WORD_START.split(self.name) if word)
        names: dict[str, str] = {}
        for name in (words, *self.aliases, *_usual_names(words)):
            names.setdefault(name.casefold(), name)
        return tuple(names.values())


def _check_name(what: str, given: Any, write: str) -> None:
    if not isinstance(given, str) or not any(char.isalnum() for char in given):
        msg = f"Slot: {what} must be a text with a letter or a digit, not {given!r}; write {write}"
        raise ToolDeclarationError(msg)


def _usual_names(words: str) -> Iterator[str]:
    for endings, names in _FAMILIES:
        ending = re.search(rf"(?:^| )(?:{endings})$", words)
        if ending:
            yield from (f"{words[: ending.start()]} {name}".strip() for name in names)
            return
    stem, _, last = words.rpartition(" ")
    if not stem:
        yield from _ALONE.get(last, ())
        return
    whole, of, part = words.partition(" of ")
    if of:
        yield f"{part} {whole}"
        return
    if last == "date":
        yield f"date of {stem}"
    # The day something is shipped is not the day it is delivered; the address is one.
    for name in (stem, *_SAME.get(stem, ())) if last != "date" else (stem,):
        for noun in _NUMBERS if last in _NUMBERED else (last,):
            yield f"{name} {noun}"
            if len(noun) > 2 or noun == "id":
                yield from (f"{noun} of {whose} {name}" for whose in ("your", "the"))


@functools.lru_cache(maxsize=64)
def names_of(slots: tuple[Slot, ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return what slots are called, in words, with the slot's name; and a pattern of all of it.

    What a slot is called by its own declaration goes before what another might be called.
    """
    names: dict[str, str] = {}
    for usual in (False, True):
        for slot in slots:
            every = slot.all_names()
            own = 1 + len(tuple(slot.aliases))
            for name in every[own:] if usual else every[:own]:
                names.setdefault(words_of(name).strip(), slot.name)
    names.pop("", None)
    longest_first = sorted(names, key=len, reverse=True)
    return names, re.compile(rf"(?<= )(?:{'|'.join(map(re.escape, longest_first))})(?= )")


def spans_of(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence of a paragraph; abbreviations end none."""
    for mark in _END.finditer(text, start, end):
        if _POINT.fullmatch(mark[0]):
            following = _NEXT.match(text, mark.end(), end)
            word = _LAST_WORD.search(text, max(start, mark.start() - 12), mark.start())
            # "No. Please send ..." is two sentences.
            is_short = (
                word is not None
                and mark[0] == "."
                and (word[0].lower() in _ABBREVIATIONS or len(word[0]) == 1)
                and text[start : mark.start()].strip() != word[0]
            )
            if following and (is_short or following[1].islower()):
                continue
        yield start, mark.end()
        start = mark.end()
    if not text[start:end].isspace():
        yield start, end


def words_of(text: str) -> str:
    """Return the words of a text, lower-cased and parted by single spaces, one at each end."""
    words: list[str] = [""]
    for token in _TOKEN.findall(
        unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    ):
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


def states(text: str, value: Any) -> bool:
    """Tell whether a text states a value, in whatever case, spacing or usual format.

    Dates and amounts are compared by what they mean, in each reading that is possible; of an
    address or an e-mail address most of the words will do, and of a number its last digits
    where the text says that they are the last. A value of an unknown type is never stated.

    Args:
        text: a sentence or two.
        value: what the run knows.
    """
    try:
        return _states(unicodedata.normalize("NFKC", text).casefold(), value)
    except Exception:  # a value may be a class of the host's that misbehaves
        return False


def _states(text: str, value: Any) -> bool:
    shown = unicodedata.normalize("NFKC", _shown(value)).casefold().strip()
    wanted: list[str] = _PIECE.findall(shown)
    found: list[str] = _PIECE.findall(text)
    if not wanted or not found:
        return False
    if _holds(found, "".join(wanted)):
        return True
    named_month = len(wanted) <= 5 and any(_MONTH.fullmatch(piece) for piece in wanted)
    if named_month or _DATE.fullmatch(shown):
        dates = set(_dates(wanted[:5]))
        if dates:
            return any(_same_day(one, other) for one in dates for other in _dates(found))
    amount = _AMOUNT.fullmatch(shown)
    if amount and not _readings(amount[1].strip()).isdisjoint(
        reading for number in _NUMBER.findall(text) for reading in _readings(number)
    ):
        return True
    if _holds_most(found, wanted) or _holds_ending(text, found, wanted):
        return True
    # The number inside an order number says which; a part of an amount says nothing.
    groups = [piece for piece in wanted if piece.isdigit() and len(piece) >= 3]
    return amount is None and len(groups) == 1 and groups[0] in found


def _shown(value: Any, depth: int = 3) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, decimal.Decimal, datetime.date)):
        return str(value)
    if isinstance(value, float):
        return str(decimal.Decimal(repr(value)).normalize()) if value else "0"
    if depth and isinstance(value, Mapping):
        return _shown(list(value.values()), depth)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    if depth and isinstance(value, (list, tuple)):
        items: list[Any] = list(value[:_MOST_ITEMS])  # pyright: ignore[reportUnknownArgumentType]
        return " ".join(_shown(item, depth - 1) for item in items)
    return ""


def _holds(found: list[str], wanted: str) -> bool:
    """Tell whether pieces in a row make up the wanted text, however both are spaced."""
    starts = set(itertools.accumulate(map(len, found), initial=0))
    joined = "".join(found)
    at = joined.find(wanted)
    while at >= 0:
        if at in starts and at + len(wanted) in starts:
            return True
        at = joined.find(wanted, at + 1)
    return False


def _holds_most(found: list[str], wanted: list[str]) -> bool:
    # Numbers alike prove little: every number of a country begins with the same digits.
    if sum(piece.isalpha() for piece in wanted) < 2:
        return False
    pieces = set(wanted)
    shared = len(pieces & set(found))
    return shared >= 2 and shared >= 0.6 * len(pieces)


def _holds_ending(text: str, found: list[str], wanted: list[str]) -> bool:
    digits = "".join(piece for piece in wanted if piece.isdigit())
    shown = [piece for piece in found if piece.isdigit() and len(piece) >= 2]
    return any(map(digits.endswith, shown)) and _ENDING.search(text) is not None


def _readings(number: str) -> set[decimal.Decimal]:
    """Return what a number may mean: "1,200" is a thousand and two hundred, or one and a fifth."""
    readings: set[decimal.Decimal] = set()
    for point, groups in ((".", ", '\u2019"), (",", ". '\u2019")):
        plain = number.translate(dict.fromkeys(map(ord, groups))).replace(point, ".")
        try:
            readings.add(decimal.Decimal(plain))
        except decimal.InvalidOperation:
            continue
    return readings


def _dates(pieces: list[str]) -> Iterator[tuple[int | None, int, int]]:
    """Yield each (year, month, day) the pieces may mean; no year where none stands beside."""
    parts = [piece for piece in pieces if piece not in _IN_DATES]
    numbers = [int(part) if part.isdigit() and len(part) <= 4 else None for part in parts]
    padded = [None, *numbers, None, None]
    for at, part in enumerate(parts):
        before, here, after, after2 = padded[at : at + 4]
        if _MONTH.fullmatch(part):
            month = _MONTHS.index(part[:3]) + 1
            readings = ((before, after), (after, after2), (after, before))
        elif here is not None and before is not None and after is not None:
            yield from _numeric(before, here, after)
            continue
        else:
            continue
        for day, year in readings:
            if day is not None and 1 <= day <= 31:
                yield (year if year is not None and year > 31 else None), month, day


def _numeric(first: int, second: int, third: int) -> Iterator[tuple[int, int, int]]:
    for year, month, day in (
        (first, second, third),
        (third, second, first),
        (third, first, second),
    ):
        if 1 <= month <= 12 and 1 <= day <= 31:
            yield year, month, day


def _same_day(one: tuple[int | None, int, int], other: tuple[int | None, int, int]) -> bool:
    if one[1:] != other[1:]:
        return False
    if one[0] is None or other[0] is None:
        return True
    return one[0] == other[0] or (min(one[0], other[0]) < 100 and (one[0] - other[0]) % 100 == 0)
