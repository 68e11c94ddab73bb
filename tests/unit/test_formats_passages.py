"""`evireform.formats.passages`: every line goes in, or is refused on its own with a reason and a place."""

from __future__ import annotations

import codecs
import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from evireform.errors import InputError
from evireform.formats import text as text_module
from evireform.formats.passages import read_passages
from evireform.records import Passage, Rejected

BEFORE = b'{"id": "before", "text": "First neighbour."}'
AFTER = b'{"id": "after", "text": "Second neighbour."}'


def read_bytes(folder: Path, content: bytes, name: str = "corpus.jsonl") -> list[Passage | Rejected]:
    path = folder / name
    path.write_bytes(content)
    return list(read_passages([path]))


def read_between(folder: Path, line: bytes) -> Passage | Rejected:
    """What becomes of a line between two good ones, which go in whatever it is."""
    first, middle, last = read_bytes(folder, b"\n".join([BEFORE, line, AFTER]))
    assert first == Passage(key="before", text="First neighbour.")
    assert last == Passage(key="after", text="Second neighbour.")
    return middle


# JSONL


def test_jsonl_fields_and_metadata(tmp_path: Path) -> None:
    line = b'{"id": "a", "title": "T", "text": "Body.", "year": 1903, "tags": ["x", {"y": null}]}'
    assert read_bytes(tmp_path, line) == [
        Passage(key="a", title="T", text="Body.", metadata={"year": 1903, "tags": ["x", {"y": None}]})
    ]


def test_a_missing_title_is_empty(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b'{"id": "a", "title": null, "text": "B."}') == [Passage(key="a", text="B.")]


def test_a_whole_number_is_an_id(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b'{"id": 7, "text": "B."}') == [Passage(key="7", text="B.")]


def test_blank_lines_and_windows_line_ends_are_no_passages(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, BEFORE + b"\r\n\r\n  \r\n" + AFTER + b"\r\n\r\n")
    assert [row.key for row in rows if isinstance(row, Passage)] == ["before", "after"]
    assert len(rows) == 2


def test_an_empty_file_holds_no_passages(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b"") == []


@pytest.mark.parametrize(
    ("line", "reason", "key"),
    [
        (b'{"id": "x", "text"', "malformed JSON: Expecting ':' delimiter at column 19", ""),
        (b'["x", "y"]', "a JSON object is expected, not a list", ""),
        (b"null", "a JSON object is expected, not null", ""),
        (b'{"id": "x", "text": "B.", "n": NaN}', "malformed JSON: NaN is not a JSON number", ""),
        (b'{"id": "x", "text": "B.", "n": 1e999}', "metadata holds a number that is too large", "x"),
        (b'{"text": "B."}', "id is missing", ""),
        (b'{"id": null, "text": "B."}', "id is missing", ""),
        (b'{"id": "", "text": "B."}', "id is empty", ""),
        (b'{"id": " \\t", "text": "B."}', "id is empty", " \\t"),
        (b'{"id": true, "text": "B."}', "id must be text or a whole number, not true or false", ""),
        (b'{"id": 1.5, "text": "B."}', "id must be text or a whole number, not a number", ""),
        (b'{"id": ["x"], "text": "B."}', "id must be text or a whole number, not a list", ""),
        (b'{"id": "x"}', "text is missing", "x"),
        (b'{"id": "x", "text": 5}', "text must be text, not a number", "x"),
        (b'{"id": "x", "text": "B.", "title": 5}', "title must be text, not a number", "x"),
    ],
)
def test_a_wrong_line_is_refused_with_its_reason(tmp_path: Path, line: bytes, reason: str, key: str) -> None:
    refused = read_between(tmp_path, line)
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.line_number, refused.passage_key) == (reason, 2, key)
    assert refused.path == str(tmp_path / "corpus.jsonl")


def test_json_nested_without_end_is_refused(tmp_path: Path) -> None:
    refused = read_between(
        tmp_path, b'{"id": "x", "text": "B.", "m": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    )
    assert isinstance(refused, Rejected)
    assert "nested" in refused.reason


def test_deep_metadata_is_refused(tmp_path: Path) -> None:
    refused = read_between(tmp_path, b'{"id": "x", "text": "B.", "m": ' + b"[" * 60 + b"]" * 60 + b"}")
    assert isinstance(refused, Rejected)
    assert refused.reason == "metadata is nested more than 50 levels deep"


def test_an_id_of_512_bytes_is_accepted_and_a_longer_one_refused(tmp_path: Path) -> None:
    longest = "é" * 256
    assert isinstance(read_between(tmp_path, json.dumps({"id": longest, "text": "B."}).encode()), Passage)
    refused = read_between(tmp_path, json.dumps({"id": longest + "x", "text": "B."}).encode())
    assert isinstance(refused, Rejected)
    assert refused.reason == "id has 513 bytes, more than 512"


# Duplicates


def test_a_second_use_of_an_id_is_refused_with_the_first_line(tmp_path: Path) -> None:
    refused = read_bytes(tmp_path, BEFORE + b"\n" + AFTER + b"\n" + BEFORE)[2]
    assert refused == Rejected(
        reason="duplicate id: already given on line 1",
        path=str(tmp_path / "corpus.jsonl"),
        line_number=3,
        passage_key="before",
    )


def test_a_number_and_its_digits_are_one_id(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b'{"id": 7, "text": "A."}\n{"id": "7", "text": "B."}')
    assert [type(row) for row in rows] == [Passage, Rejected]


def test_a_refused_line_does_not_take_its_id(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b'{"id": "a", "text": ""}\n{"id": "a", "text": "B."}')
    assert [type(row) for row in rows] == [Rejected, Passage]


def test_an_id_is_unique_across_sources(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_bytes(AFTER + b"\n" + BEFORE)
    two.write_bytes(BEFORE)
    refused = list(read_passages([one, two]))[2]
    assert isinstance(refused, Rejected)
    assert refused.reason == f"duplicate id: already given on line 2 by {one}"


# T11


def test_t11_nul_is_refused(tmp_path: Path) -> None:
    refused = read_between(tmp_path, b'{"id": "x", "text": "a\\u0000b"}')
    assert isinstance(refused, Rejected)
    assert refused.reason == "text holds a NUL character"


def test_t11_a_raw_nul_byte_is_refused(tmp_path: Path) -> None:
    refused = read_between(tmp_path, b'{"id": "x", "text": "a\0b"}')
    assert isinstance(refused, Rejected)
    assert refused.reason.startswith("malformed JSON")


@pytest.mark.parametrize("field", ["id", "title"])
def test_t11_nul_in_another_field_is_refused(tmp_path: Path, field: str) -> None:
    refused = read_between(tmp_path, json.dumps({"id": "x", "text": "B.", field: "a\0"}).encode())
    assert isinstance(refused, Rejected)
    assert refused.reason == f"{field} holds a NUL character"
    assert "\0" not in refused.passage_key


@pytest.mark.parametrize("metadata", ["a\0", ["a\0"], {"a\0": 1}, {"b": {"c": "a\0"}}])
def test_t11_nul_in_metadata_is_refused(tmp_path: Path, metadata: object) -> None:
    refused = read_between(tmp_path, json.dumps({"id": "x", "text": "B.", "m": metadata}).encode())
    assert isinstance(refused, Rejected)
    assert refused.reason == "metadata holds a NUL character"


def test_t11_a_lone_surrogate_is_refused(tmp_path: Path) -> None:
    refused = read_between(tmp_path, b'{"id": "x", "text": "a \\ud83d b"}')
    assert isinstance(refused, Rejected)
    assert refused.reason == "text holds a lone surrogate, which is half of a character"


def test_t11_a_lone_surrogate_in_the_id_is_reported_printably(tmp_path: Path) -> None:
    refused = read_between(tmp_path, b'{"id": "x\\ud83d", "text": "B."}')
    assert isinstance(refused, Rejected)
    assert refused.passage_key == "x\\ud83d"


def test_t11_a_pair_of_surrogates_is_a_character(tmp_path: Path) -> None:
    assert read_between(tmp_path, b'{"id": "x", "text": "\\ud83d\\ude00"}') == Passage(key="x", text="😀")


def test_t11_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, codecs.BOM_UTF8 + BEFORE)[0] == Passage(key="before", text="First neighbour.")


def test_t11_a_byte_order_mark_between_joined_files_is_dropped(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, BEFORE + b"\n" + codecs.BOM_UTF8 + AFTER)
    assert all(isinstance(row, Passage) for row in rows)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.csv", "東京.txt"])
def test_t11_utf16_with_a_byte_order_mark_is_decoded(tmp_path: Path, encoding: str, name: str) -> None:
    contents = {
        ".jsonl": '{"id": "a", "text": "東京 😀"}\n',
        ".csv": "id,text\na,東京 😀\n",
        ".txt": "東京 😀",
    }
    [row] = read_bytes(tmp_path, contents[Path(name).suffix].encode(encoding), name)
    assert isinstance(row, Passage)
    assert row.text == "東京 😀"


def test_t11_big_endian_utf16_is_decoded(tmp_path: Path) -> None:
    content = codecs.BOM_UTF16_BE + '{"id": "a", "text": "Łódź"}'.encode("utf-16-be")
    assert read_bytes(tmp_path, content) == [Passage(key="a", text="Łódź")]


def test_t11_utf16_that_breaks_off_loses_only_its_last_line(tmp_path: Path) -> None:
    content = (BEFORE + b"\n" + AFTER).decode().encode("utf-16")
    first, last = read_bytes(tmp_path, content[:-1])
    assert isinstance(first, Passage)
    assert isinstance(last, Rejected)
    assert "not valid in the encoding" in last.reason


def test_t11_utf16_without_a_byte_order_mark_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="UTF-16 without a byte order mark"):
        read_bytes(tmp_path, (BEFORE + b"\n" + AFTER).decode().encode("utf-16-le"))


@pytest.mark.parametrize("bad", [b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80"])
def test_t11_invalid_utf8_spoils_only_its_line(tmp_path: Path, bad: bytes) -> None:
    refused = read_between(tmp_path, b'{"id": "x", "text": "' + bad + b'"}')
    assert isinstance(refused, Rejected)
    assert "not valid in the encoding of the file" in refused.reason
    assert refused.line_number == 2


@pytest.mark.parametrize(
    "text",
    [
        "שלום עולם",
        "\u202bمرحبا\u202c",
        "👨\u200d👩\u200d👧",
        "x",
        "Łódź",
        "e\u0301",
        "a\u2028b\u0085c",
        "\ufffd",
    ],
)
def test_t11_unusual_text_goes_in_unchanged(tmp_path: Path, text: str) -> None:
    line = json.dumps({"id": "x", "text": text}, ensure_ascii=False).encode()
    assert read_between(tmp_path, line) == Passage(key="x", text=text)


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000\u00a0"])
def test_t11_empty_text_is_refused(tmp_path: Path, text: str) -> None:
    refused = read_between(tmp_path, json.dumps({"id": "x", "text": text}).encode())
    assert isinstance(refused, Rejected)
    assert (refused.reason, refused.passage_key) == ("text is empty", "x")


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.csv", "a.txt"])
def test_t11_five_megabytes_on_one_line_go_in(tmp_path: Path, name: str) -> None:
    text = "word " * 1_000_000 + "end"
    contents = {".jsonl": json.dumps({"id": "a", "text": text}), ".csv": f"id,text\na,{text}", ".txt": text}
    [row] = read_bytes(tmp_path, contents[Path(name).suffix].encode(), name)
    assert isinstance(row, Passage)
    assert row.text == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_t11_a_line_without_end_spoils_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(text_module, "MAX_LINE_CHARACTERS", 100)
    content = b"\n".join([BEFORE, b"x" * 300, AFTER]).decode().encode(encoding)
    first, refused, last = read_bytes(tmp_path, content)
    assert isinstance(refused, Rejected)
    assert refused.reason.startswith("the line is longer than")
    assert refused.line_number == 2
    assert isinstance(first, Passage)
    assert isinstance(last, Passage)


# CSV


def test_csv_columns_and_metadata(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b'id,title,text,year\r\na,T,"One, ""two""\nthree.",1903\r\n', "c.csv")
    assert rows == [Passage(key="a", title="T", text='One, "two"\nthree.', metadata={"year": "1903"})]


def test_csv_reports_the_line_on_which_a_row_begins(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b'id,text\n\na,"one\ntwo"\nb,\nc\nd,ok\n', "c.csv")
    assert [(row.line_number, row.reason) for row in rows if isinstance(row, Rejected)] == [
        (5, "text is empty"),
        (6, "the row has 1 fields, the header has 2"),
    ]
    assert [row.key for row in rows if isinstance(row, Passage)] == ["a", "d"]


def test_csv_with_a_byte_order_mark_finds_its_columns(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, codecs.BOM_UTF8 + b"id,text\na,B.\n", "c.csv") == [
        Passage(key="a", text="B.")
    ]


def test_a_malformed_csv_row_spoils_only_itself(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b'id,text\na,"one" two\nb,fine\n', "c.csv")
    assert [type(row) for row in rows] == [Rejected, Passage]
    assert isinstance(rows[0], Rejected)
    assert rows[0].line_number == 2
    assert rows[0].reason.startswith("malformed CSV")


def test_t11_invalid_bytes_in_a_csv_row_spoil_only_it(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b"id,text\na,caf\xe9\nb,nul\0\nc,fine\n", "c.csv")
    assert [row.reason for row in rows if isinstance(row, Rejected)] == [
        "text holds bytes that are not valid in the encoding of the file: convert it to UTF-8",
        "text holds a NUL character",
    ]
    assert isinstance(rows[2], Passage)


def test_an_unclosed_quote_is_reported_where_it_opens(tmp_path: Path) -> None:
    rows = read_bytes(tmp_path, b'id,text\na,fine\nb,"never closed\nc,lost\n', "c.csv")
    assert [type(row) for row in rows] == [Passage, Rejected]
    assert isinstance(rows[1], Rejected)
    assert rows[1].line_number == 3


@pytest.mark.parametrize("header", [b"key,text", b"id,body", b"id,text,text"])
def test_a_csv_header_must_name_its_columns(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(InputError, match="must name the columns id and text") as caught:
        read_bytes(tmp_path, header + b"\na,b,c\n", "c.csv")
    assert caught.value.line_number == 1


# Text files and folders


def test_a_text_file_is_one_passage_named_after_the_file(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b"\n# One\r\ntwo \n", "notes.txt") == [
        Passage(key="notes.txt", title="notes", text="# One\ntwo")
    ]


def test_the_heading_that_opens_a_markdown_file_is_its_title(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b"\n## The city ##\n\nBody.\n", "a.md") == [
        Passage(key="a.md", title="The city", text="Body.")
    ]


def test_a_later_heading_gives_the_title_and_stays(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b"Body.\n\n# Late\n\nMore.", "a.md") == [
        Passage(key="a.md", title="Late", text="Body.\n\n# Late\n\nMore.")
    ]


def test_a_comment_in_fenced_code_is_no_heading(tmp_path: Path) -> None:
    [row] = read_bytes(tmp_path, b"```sh\n# comment\n```\n# Real\n", "a.md")
    assert isinstance(row, Passage)
    assert row.title == "Real"


def test_a_markdown_file_without_heading_is_titled_by_its_name(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b"#nothing\nBody.", "a.md") == [
        Passage(key="a.md", title="a", text="#nothing\nBody.")
    ]


def test_an_empty_text_file_is_refused(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, b" \n", "a.txt") == [
        Rejected(reason="text is empty", path=str(tmp_path / "a.txt"), passage_key="a.txt")
    ]


def test_a_folder_gives_its_text_files_by_relative_path_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a/b/c.TXT", "picture.png", ".hidden.txt", ".git/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"Text of {name}.")
    rows = list(read_passages([tmp_path]))
    assert [row.key for row in rows if isinstance(row, Passage)] == ["a/b/c.TXT", "a/z.md", "b.txt"]


def test_t11_one_bad_file_of_a_folder_leaves_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    (tmp_path / "b.txt").write_bytes(bytes(range(32)) * 9)
    (tmp_path / "c.txt").write_text("fine")
    first, second, third = read_passages([tmp_path])
    assert isinstance(first, Rejected)
    assert isinstance(second, Rejected)
    assert "is binary" in second.reason
    assert third == Passage(key="c.txt", title="c", text="fine")


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes only on POSIX")
def test_t11_a_file_name_that_is_no_text_is_refused_printably(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("fine")
    except OSError:
        pytest.skip("this file system takes only names in UTF-8")
    [refused] = read_passages([tmp_path])
    assert isinstance(refused, Rejected)
    assert refused.passage_key == "caf\\udce9.txt"
    assert refused.path.isprintable()


def test_a_folder_without_text_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(BEFORE)
    with pytest.raises(InputError, match=r"holds no \.txt or \.md file"):
        list(read_passages([tmp_path]))


# Sources


def test_a_missing_source_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_bytes(BEFORE)
    with pytest.raises(InputError, match="does not exist") as caught:
        read_passages([good, tmp_path / "missing.jsonl"])
    assert caught.value.path == str(tmp_path / "missing.jsonl")


def test_a_binary_source_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(bytes(range(256)) * 8)
    with pytest.raises(InputError, match="is binary"):
        read_passages([tmp_path / "x.jsonl"])


@pytest.mark.parametrize(
    ("name", "advice"), [("a.pdf", "give .jsonl, .csv"), ("a.json", "one object per line")]
)
def test_an_unknown_kind_is_an_error_with_advice(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).write_text("[]")
    with pytest.raises(InputError, match=advice):
        read_passages([tmp_path / name])


def test_standard_input_is_jsonl_and_stays_open() -> None:
    stream = io.BufferedReader(io.BytesIO(BEFORE + b"\nnonsense\n" + AFTER))
    rows = list(read_passages(["-"], standard_input=stream))
    assert [type(row) for row in rows] == [Passage, Rejected, Passage]
    assert isinstance(rows[1], Rejected)
    assert (rows[1].path, rows[1].line_number) == ("standard input", 2)
    assert not stream.closed


def test_whatever_is_wrong_in_standard_input_has_the_same_place() -> None:
    stream = io.BufferedReader(io.BytesIO(BEFORE + b"\nnonsense\n" + BEFORE + b"\n"))
    rejected = [row for row in read_passages(["-"], standard_input=stream) if isinstance(row, Rejected)]
    assert [(row.path, row.line_number) for row in rejected] == [("standard input", 2), ("standard input", 3)]


def test_sources_follow_each_other_in_the_order_given(tmp_path: Path) -> None:
    (tmp_path / "z.txt").write_text("one")
    (tmp_path / "c.csv").write_text("id,text\na,two\n")
    rows = list(read_passages([tmp_path / "z.txt", tmp_path / "c.csv"]))
    assert [row.text for row in rows if isinstance(row, Passage)] == ["one", "two"]


def test_a_long_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("w") as stream:
        for number in range(2_000):
            stream.write(json.dumps({"id": number, "text": "x" * 5_000}) + "\n")
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_passages([path])) == 2_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 5


def test_passages_come_while_the_source_is_still_open() -> None:
    class Slow(io.RawIOBase):
        """Gives one line, and fails the test when asked for more."""

        def __init__(self) -> None:
            self.pieces: Iterator[bytes] = iter([BEFORE + b"\n" + AFTER])

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            piece = next(self.pieces)
            buffer[: len(piece)] = piece
            return len(piece)

    rows = read_passages(["-"], standard_input=io.BufferedReader(Slow()))
    assert isinstance(next(rows), Passage)
