"""Documents out of files: which part of a file is one, and what is said of a part that is none."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatguard_sdk.audit import _files, _json, _values
from repeatguard_sdk.audit._files import Documents, Range, ranges
from repeatguard_sdk.audit._json import BrokenJson, parse
from repeatguard_sdk.audit._recorded import Fault
from strategies import json_values

A, B, C = {"a": 1}, {"b": [2]}, {"c": "é"}
SAID = {"role": "user", "content": "hello"}
Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return what writes a file and gives its path."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "log.jsonl"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path: str | Path) -> list[Any]:
    """Return the documents, and the faults as (line, text)."""
    return [
        (found.line, found.what) if isinstance(found, Fault) else found for found in Documents(path)
    ]


def lines(*documents: Any) -> str:
    """Return documents as JSON lines."""
    return "".join(json.dumps(document) + "\n" for document in documents)


def without_orjson(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package do as if orjson were not installed."""
    monkeypatch.setattr(_json, "_quick", None)


# -- JSON lines ----------------------------------------------------------------------------------


def test_a_line_is_a_document(write: Write) -> None:
    """Each line is a document with its number, and blank lines count but say nothing."""
    assert [(1, A), (3, B), (4, C)] == read(write(lines(A) + "\n" + lines(B, C)))


def test_windows_writes_lines_too(write: Write) -> None:
    """A byte order mark at the start and CRLF at the ends of lines are no part of a document."""
    content = b"\xef\xbb\xbf" + lines(A, B).replace("\n", "\r\n").encode()
    assert [(1, A), (2, B)] == read(write(content))


def test_files_with_marks_joined_together(write: Write) -> None:
    """A byte order mark at the start of a later line is none of its text either."""
    assert [(1, A), (2, B)] == read(write(lines(A).encode() + b"\xef\xbb\xbf" + lines(B).encode()))


def test_a_broken_line_is_a_fault_and_the_rest_goes_on(write: Write) -> None:
    """A line that is no JSON gives a fault with its number and its column."""
    one, fault, three = read(write(lines(A) + '{"b": 2 "c"}\n' + lines(C)))
    assert ((1, A), (3, C)) == (one, three)
    assert (2, "no JSON: Expecting ',' delimiter at column 9") == fault


def test_a_broken_first_line_is_a_fault_like_any_other(write: Write) -> None:
    """What kind of file it is does not hang on its first line being whole."""
    fault, two = read(write('{"a": "cut o\n' + lines(B)))
    assert (2, B) == two
    assert 1 == fault[0]


def test_a_half_written_last_line_is_a_fault_that_says_so(write: Write) -> None:
    """The last line of a file that is still written may end anywhere."""
    one, (line, what) = read(write(lines(A) + '{"b": [1, 2'))
    assert (1, A) == one
    assert 2 == line
    assert "the file ends within this line" in what


def test_a_last_line_without_an_end_is_a_document(write: Write) -> None:
    """The last line needs no line feed."""
    assert [(1, A), (2, B)] == read(write(lines(A, B).rstrip("\n")))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("42", "a number"), ('"log"', "a text"), ("null", "null"), ("true", "true or false")],
)
def test_a_line_that_is_no_object_is_a_fault(write: Write, text: str, kind: str) -> None:
    """JSON that is no object and no list is no document."""
    one, fault, three = read(write(lines(A) + text + "\n" + lines(C)))
    assert ((1, A), (3, C)) == (one, three)
    assert (2, f"a document is a JSON object or a list, not {kind}") == fault


def test_bytes_that_are_no_utf_8_are_a_fault(write: Write) -> None:
    """A line in another encoding is a fault, and the rest goes on."""
    one, fault, three = read(write(lines(A).encode() + b'{"b": "caf\xe9"}\n' + lines(C).encode()))
    assert ((1, A), (3, C)) == (one, three)
    assert (2, "not UTF-8: byte 0xe9 at column 11") == fault


def test_a_file_in_utf_16_is_one_fault(write: Write) -> None:
    """What a Windows shell writes by default is named once, with what to do about it."""
    assert [(0, "is text in UTF-16; save it as UTF-8")] == read(write(lines(A).encode("utf-16")))


@pytest.mark.parametrize("content", [b"", b"\n \r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_a_fault(write: Write, content: bytes) -> None:
    """A file with nothing in it is not passed over in silence."""
    assert [(0, "is empty")] == read(write(content))


def test_a_file_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    """A file that cannot be opened is a fault, and so is a folder."""
    assert [(0, "cannot be read: No such file or directory")] == read(tmp_path / "none")
    assert [(0, "cannot be read: Is a directory")] == read(tmp_path)


def test_a_line_that_does_not_fit_is_a_fault(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond what may be held in memory is left out, and the rest goes on."""
    monkeypatch.setattr(_files, "MAX_DOCUMENT", 1 << 20)
    one, fault, three = read(write(lines(A, {"long": "x" * 3_000_000}, C)))
    assert ((1, A), (3, C)) == (one, three)
    assert (2, "a line of more than 1 MB") == fault


# -- documents that span lines, and lists of documents -------------------------------------------


@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
def test_a_file_that_is_one_document(write: Write, indent: int | None) -> None:
    """One object is one document, indented or not."""
    document = {"messages": [SAID], "more": {"b": [1, 2]}}
    assert [(1, document)] == read(write(json.dumps(document, indent=indent)))


def test_indented_documents_one_after_the_other(write: Write) -> None:
    """Several indented objects in a file are a document each, with the line each begins on."""
    content = json.dumps(A, indent=2) + "\n\n" + json.dumps(B, indent=2) + "\n"
    assert [(1, A), (5, B)] == read(write(content))


@pytest.mark.parametrize("indent", [None, 2])
def test_each_element_of_a_list_is_a_document(write: Write, indent: int | None) -> None:
    """A file that is one list of documents gives its elements."""
    assert [A, B, C] == [
        document for _, document in read(write(json.dumps([A, B, C], indent=indent)))
    ]


def test_a_list_with_an_element_a_line_has_their_lines(write: Write) -> None:
    """Elements of a list that spans lines have the lines they begin on."""
    content = f"\n[\n{json.dumps(A)},\n{json.dumps(B)}\n]\n"
    assert [(3, A), (4, B)] == read(write(content))


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("said", [SAID, {"type": "human", "data": {}}])
def test_a_list_of_messages_is_one_document(
    write: Write, said: dict[str, Any], indent: int | None
) -> None:
    """A list whose first element has a role or a type is a document: the messages of a run."""
    assert [(1, [said, B])] == read(write(json.dumps([said, B], indent=indent)))


def test_a_list_of_documents_with_a_type_is_none(write: Write) -> None:
    """A type does not make a message of an element that has messages itself."""
    document = {"type": "chat", "messages": [SAID]}
    assert [(1, document), (1, document)] == read(write(json.dumps([document, document])))


def test_a_line_may_hold_a_list_of_either_kind(write: Write) -> None:
    """On a line of its own a list is what it is as a file."""
    assert [(1, [SAID]), (2, A), (2, B), (3, [SAID]), (3, [SAID])] == read(
        write(lines([SAID], [A, B], [[SAID], [SAID]]))
    )


def test_lists_that_hold_no_document_are_a_fault(write: Write) -> None:
    """A list of numbers gives a fault an element, and lists without an end give one."""
    assert [(1, "a document is a JSON object or a list, not a number")] == read(write("[1]"))
    assert [(1, "lists in lists, and no document in them")] == read(write("[" * 90 + "]" * 90))


def long_list() -> list[dict[str, Any]]:
    return [{"n": number, "text": f'é " \\ ] }} {number}' * 9} for number in range(200)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("chunk", [1, 7, 64, 100_000])
def test_a_list_longer_than_memory_is_read_in_pieces(
    write: Write, monkeypatch: pytest.MonkeyPatch, indent: int | None, chunk: int
) -> None:
    """Wherever the pieces of a big list end, its elements are the same."""
    monkeypatch.setattr(_files, "_HEAD", 10)
    monkeypatch.setattr(_values, "CHUNK", chunk)
    content = json.dumps(long_list(), indent=indent, ensure_ascii=False)
    assert long_list() == [document for _, document in read(write(content))]


def test_only_a_piece_of_a_long_list_is_held(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the first elements of a list does not read the file to its end."""
    monkeypatch.setattr(_files, "_HEAD", 10)
    monkeypatch.setattr(_values, "CHUNK", 1000)
    found = iter(Documents(write(json.dumps(long_list()) + "no JSON")))
    assert (1, long_list()[0]) == next(found)


def test_a_list_that_breaks_ends_there(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a broken element nothing of a list can be trusted, and the fault says so."""
    content = f"[\n{json.dumps(A)},\n{{broken}},\n{json.dumps(B)}" + " " * 100 + "\n]"
    one, (line, what) = read(write(content))
    assert (2, A) == one
    assert 3 == line
    assert what.startswith("no JSON: Expecting property name")
    assert what.endswith("at line 3; the rest of the file is not read")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'[\n{"a": 1},\n{"b"', "no JSON: Expecting ':' delimiter at line 3"),
        (b'[\n{"a": 1},\n', "the list is cut off: no ] at the end of the file"),
        (b'[\n{"a": 1}\n] {"b": 2}', "something follows the end of the list"),
        (b'[\n{"a": 1},\n{"b": "\xe9"}]', "not UTF-8: byte 0xe9"),
        (b'[\n{"a": 1},\n' + b"9" * 5000 + b"]", "no JSON that can be read: Exceeds the limit"),
    ],
)
def test_what_is_good_of_a_broken_list_is_read(write: Write, content: bytes, what: str) -> None:
    """The elements before the fault are there, whatever the fault is."""
    one, (_, said) = read(write(content))
    assert (2, A) == one
    if "Exceeds" in what and sys.version_info < (3, 10, 7):
        return
    assert said.startswith(what)


@pytest.mark.parametrize("end", ['{"b"', "", "]x"])
def test_messages_before_the_end_of_a_broken_list_are_read(write: Write, end: str) -> None:
    """Of a list of messages that breaks, what is good of it is a document nevertheless."""
    document, (_, what) = read(write(f"[\n{json.dumps(SAID)},\n{json.dumps(B)},\n{end}"))
    assert (1, [SAID, B]) == document
    assert what.endswith("the rest of the file is not read")


def test_messages_that_do_not_fit_are_a_fault(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of messages is held up to a bound, and what is beyond it is a fault."""
    monkeypatch.setattr(_files, "MAX_DOCUMENT", 1 << 20)
    (line, messages), (_, what) = read(write("[\n" + ",\n".join([json.dumps(SAID)] * 90_000) + "]"))
    assert 1 == line
    assert 20_000 < len(messages) < 90_000
    assert what.startswith("a list of messages of more than 1 MB")


def test_a_document_that_does_not_fit_is_a_fault(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document beyond what may be held in memory is a fault, not the end of the process."""
    monkeypatch.setattr(_values, "MAX_DOCUMENT", 1 << 20)
    content = '{\n"a": "' + "x" * 5_000_000
    assert [
        (1, "no JSON, or a document of more than 1 MB; the rest of the file is not read")
    ] == read(write(content))


# -- packed, and from the input ------------------------------------------------------------------


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    """A gzip file is read as what is in it, whatever its name is."""
    for name in ("log.jsonl.gz", "log.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(lines(A, B).encode()))
        assert [(1, A), (2, B)] == read(tmp_path / name)


def test_a_packed_file_that_is_cut_off_is_a_fault(tmp_path: Path) -> None:
    """What can be unpacked of a broken file is read, then it is a fault."""
    packed = gzip.compress(lines(*[{"n": str(n)} for n in range(20_000)]).encode())
    (tmp_path / "log.gz").write_bytes(packed[: len(packed) // 2])
    *documents, (line, what) = read(tmp_path / "log.gz")
    assert len(documents) > 100
    assert line >= len(documents)
    assert what.startswith("the compressed data is broken")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_standard_input_is_read(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    """`-` is the standard input, packed or not, and faults call it by its name."""
    content = pack((lines(A) + "broken\n").encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    documents = Documents("-")
    one, fault = documents
    assert (1, A) == one
    assert isinstance(fault, Fault)
    assert ("<stdin>", 2) == (documents.path, fault.line)


# -- ranges --------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(["", '{"a": 1}', '{"b": "longer than others"}', "broken"]), min_size=1
    ),
    st.integers(1, 90),
    st.booleans(),
)
def test_ranges_hold_each_line_once(texts: list[str], size: int, ends: bool) -> None:
    """Read range by range, with lines counted on, a file gives what it gives as a whole."""
    content = "\n".join(texts) + "\n" * ends
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log")
        path.write_bytes(content.encode())
        whole = [found for found in Documents(path) if found != Fault(str(path), 0, "is empty")]
        parts = ranges(path, size)
        found, above = [], 0
        for part in parts:
            documents = Documents(path, part)
            for each in documents:
                if isinstance(each, Fault):
                    found.append(Fault(each.path, each.line + above, each.what))
                else:
                    found.append((each[0] + above, each[1]))
            above += documents.lines
    if parts:
        assert whole == found
        assert 0 == parts[0].start
        assert len(content) == parts[-1].stop
        assert all(one.stop == two.start for one, two in itertools.pairwise(parts))
    else:
        assert [] == whole


def test_ranges_are_about_as_long_as_was_asked(write: Write) -> None:
    """Each range but the last is as long as was asked, give or take a line."""
    path = write(lines(*[A] * 1000))
    sizes = [part.stop - part.start for part in ranges(path, 1000)]
    assert all(980 < size < 1020 for size in sizes[:-1])


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(lines(A, B).encode()),
        json.dumps([A, B], indent=1).encode(),
        json.dumps(A, indent=1).encode(),
        lines(A).encode("utf-16"),
        b"",
    ],
    # Named, for the packed one holds the second it was made in.
    ids=["packed", "a list", "an object", "utf-16", "empty"],
)
def test_some_files_cannot_be_cut(write: Write, content: bytes) -> None:
    """A packed file, one whose documents span lines and an empty one have no ranges."""
    assert [] == ranges(write(content), 1)


def test_the_input_cannot_be_cut() -> None:
    """The standard input has no ranges."""
    assert [] == ranges("-", 1)


def test_a_range_has_a_size(write: Write) -> None:
    """A size below one byte is an error that says what to give."""
    with pytest.raises(ValueError, match="1 or more, not 0"):
        ranges(write(lines(A)), 0)


def test_a_range_may_begin_after_a_mark(write: Write) -> None:
    """The first range of a file with a byte order mark begins with it."""
    path = write(b"\xef\xbb\xbf" + lines(A, B).encode())
    assert [(1, A), (2, B)] == list(Documents(path, Range(0, path.stat().st_size)))


# -- JSON, with orjson and without it ------------------------------------------------------------


@pytest.fixture(params=["as installed", "without orjson"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the parser that is installed, and with that of the standard library."""
    if request.param == "without orjson":
        without_orjson(monkeypatch)
    return


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": 123456789012345678901}', {"a": 123456789012345678901}),
        ('{"a": 18446744073709551616}', {"a": 2**64}),
        ('{"a": -9223372036854775809}', {"a": -(2**63) - 1}),
        ('{"a": 1e400}', {"a": math.inf}),
        ('{"a": [Infinity, -Infinity]}', {"a": [math.inf, -math.inf]}),
        ('{"a": "\\ud83d"}', {"a": "\ud83d"}),
        ('{"a": 0.1}', {"a": 0.1}),
        ('{"a": "12345678901234567890"}', {"a": "12345678901234567890"}),
    ],
)
def test_what_parsers_differ_in_is_decided(text: str, value: Any) -> None:
    """Equal names, long integers, infinity and halves of pairs give the same with either parser."""
    parsed = parse(text.encode())
    assert value == parsed
    assert type(value["a"]) is type(parsed["a"])


@pytest.mark.usefixtures("either")
def test_not_a_number_is_read() -> None:
    """`NaN`, which Python's own writer writes, is read with either parser."""
    assert math.isnan(parse(b'{"a": NaN}')["a"])


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    "text", [b"", b"{", b"{'a': 1}", b'{"a": 1,}', b'{"a": "\x01"}', b"[1] 2", b'"\xff"', b"01"]
)
def test_what_is_no_json_is_none_for_either_parser(text: bytes) -> None:
    """What one parser refuses the other refuses too."""
    with pytest.raises(BrokenJson):
        parse(text)


@pytest.mark.usefixtures("either")
def test_what_is_nested_without_end_is_refused_or_read() -> None:
    """Lists in lists beyond what a parser can follow are refused, not the end of the process."""
    with pytest.raises(BrokenJson, match="nested too deeply"):
        parse(b"[" * 200_000 + b"]" * 200_000)


@given(json_values())
def test_either_parser_reads_the_same(value: Any) -> None:
    """Whatever Python writes as JSON, both parsers read alike."""
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        with pytest.MonkeyPatch.context() as patch:
            quick = repr(parse(text))
            without_orjson(patch)
            assert quick == repr(parse(text))
