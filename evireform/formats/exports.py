"""A corpus as a folder of files: a manifest, tables as JSON lines, vectors as ``.npy``.

Equal corpora give equal bytes. Rows stand in the order of their keys and name each other by keys; there are
no ids and no times. JSON is written in one way: names sorted, no spaces, UTF-8, no fraction that is zero.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from evireform.canonical import MAX_ENTITY_CHARACTERS, canonical
from evireform.errors import InputError
from evireform.formats.text import json_problem, json_type, key_problem, parse_object, printable, text_problem
from evireform.records import Passage, PassageState, Titles

FORMAT = "evireform corpus"
VERSION = 1

MANIFEST = "manifest.json"
PASSAGES = "passages.jsonl"
PROPOSITIONS = "propositions.jsonl"
MENTIONS = "mentions.jsonl"
ENTITIES = "entities.jsonl"
DECISIONS = "decisions.jsonl"
TABLES = (PASSAGES, PROPOSITIONS, MENTIONS, ENTITIES, DECISIONS)
VECTORS = {"proposition": "proposition_vectors.npy", "passage": "passage_vectors.npy"}
_ITEMS = {"proposition": PROPOSITIONS, "passage": PASSAGES}
NAMES = frozenset((MANIFEST, *TABLES, *VECTORS.values()))
"""Every file that an export may have."""

LONGEST_LINE = 512 * 1024 * 1024
"""Bytes of a line beyond which it is not read."""

MOST_DIMENSIONS = 16_000
"""Dimensions that a vector may have, as PostgreSQL keeps it."""

LENGTH_TOLERANCE = 1e-3
"""How far from 1 the length of a vector may be: twice what rounding to 16 bits does to one of length 1."""

_BLOCK = 1 << 20
_SHA256 = re.compile("[0-9a-f]{64}")
_SHOWN = 100
"""Characters of a name that is wrong, in a message."""

Kind = Literal["proposition", "passage"]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFile:
    """A file of an export: its size, its rows (lines, or vectors), and the SHA-256 of its bytes."""

    size: int
    rows: int
    sha256: str


_NOTHING = ExportedFile(size=0, rows=0, sha256="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedSpace:
    """A vector space of an export; ``vectors`` tells whether they are in it."""

    kind: Kind
    model: str
    dimensions: int
    prompts: Mapping[str, str]
    vectors: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an export holds, and what made it."""

    name: str
    titles: Titles
    extractor: str
    spaces: tuple[ExportedSpace, ...]
    files: Mapping[str, ExportedFile]

    def space(self, kind: Kind) -> ExportedSpace | None:
        """The space of a kind."""
        return next((space for space in self.spaces if space.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageLine:
    """A passage as an export has it."""

    passage: Passage
    state: PassageState
    reason: str
    content_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PropositionLine:
    """A proposition of a passage, by its place among them from 0."""

    passage_key: str
    ordinal: int
    text: str
    span: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionLine:
    """A surface form in a proposition, and the canonical form of the entity that it stands for."""

    passage_key: str
    ordinal: int
    form: str
    canonical: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLine:
    """An entity, with the number of propositions that name it."""

    canonical: str
    display: str
    degree: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLine:
    """What an operator decided: one canonical form stands for another, in one passage or (empty) in all."""

    canonical: str
    passage_key: str
    target: str


Row = TypeVar("Row")
Line = PassageLine | PropositionLine | MentionLine | EntityLine | DecisionLine


# Writing


def canonical_json(value: Any) -> str:
    """JSON text that is the same for equal values.

    >>> canonical_json({"b": 1.0, "a": [0.5, 1e23, "é"]})
    '{"a":[0.5,100000000000000000000000,"é"],"b":1}'
    """
    return json.dumps(
        _whole(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def _whole(value: Any) -> Any:
    """Numbers without a fraction as integers: PostgreSQL keeps numbers exactly and gives them back so."""
    if isinstance(value, float):
        # The shortest decimal that stands for the number, as JSON writes it, and not the binary one.
        return int(Decimal(repr(value))) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


class Writing:
    """The files of an export, open for writing in a folder of their own. Use it as a context manager.

    Args:
        folder: An empty folder.
        shapes: Kind of vectors to the shape ``(n, d)`` that its file will have.
    """

    def __init__(self, folder: Path, shapes: Mapping[Kind, tuple[int, int]]) -> None:
        self._folder = folder
        self._shapes = shapes
        self._stack = ExitStack()
        self._files: dict[str, _Summed] = {}

    def __enter__(self) -> Writing:
        names = (*TABLES, *(VECTORS[kind] for kind in self._shapes))
        for name in names:
            stream = self._stack.enter_context((self._folder / name).open("xb"))
            self._files[name] = _Summed(stream)
        for kind, shape in self._shapes.items():
            header = {"descr": "<f2", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(self._files[VECTORS[kind]], header)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def line(self, line: Line) -> None:
        """Append a row to the table that it belongs to."""
        name, fields = _written(line)
        file = self._files[name]
        file.write(canonical_json(fields).encode() + b"\n")
        file.rows += 1

    def vectors(self, kind: Kind, rows: NDArray[np.float16]) -> None:
        """Append vectors, shape ``(n, d)``."""
        file = self._files[VECTORS[kind]]
        file.write(np.ascontiguousarray(rows, dtype="<f2").tobytes())
        file.rows += len(rows)

    def leave_out(self, kind: Kind) -> None:
        """Take the vectors of a kind back."""
        self._files.pop(VECTORS[kind])
        (self._folder / VECTORS[kind]).unlink()

    def finish(
        self, *, name: str, titles: Titles, extractor: str, spaces: Sequence[ExportedSpace]
    ) -> Manifest:
        """Write the manifest, which says that the export is whole."""
        manifest = Manifest(
            name=name,
            titles=titles,
            extractor=extractor,
            spaces=tuple(spaces),
            files={name: file.sum() for name, file in sorted(self._files.items())},
        )
        body = {
            "corpus": {"name": name, "titles": titles, "extractor": extractor},
            "files": {
                name: {"size": file.size, "rows": file.rows, "sha256": file.sha256}
                for name, file in manifest.files.items()
            },
            "format": FORMAT,
            "spaces": [
                {
                    "kind": space.kind,
                    "model": space.model,
                    "dimensions": space.dimensions,
                    "prompts": space.prompts,
                    "vectors": space.vectors,
                }
                for space in spaces
            ],
            "version": VERSION,
        }
        signed = {**body, "sha256": _digest(body)}
        text = json.dumps(signed, ensure_ascii=False, sort_keys=True, indent=2)
        (self._folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
        return manifest


class _Summed:
    """A file that is written once, from its beginning to its end, with its size and its hash."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._hash = hashlib.sha256()
        self.size = 0
        self.rows = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._stream.write(data)

    def sum(self) -> ExportedFile:
        return ExportedFile(size=self.size, rows=self.rows, sha256=self._hash.hexdigest())


def _written(line: Line) -> tuple[str, dict[str, Any]]:
    match line:
        case PassageLine():
            passage = line.passage
            return PASSAGES, {
                "key": passage.key,
                "title": passage.title,
                "text": passage.text,
                "metadata": passage.metadata,
                "state": line.state,
                "reason": line.reason,
                "content_hash": line.content_hash.hex(),
            }
        case PropositionLine():
            return PROPOSITIONS, {
                "passage_key": line.passage_key,
                "ordinal": line.ordinal,
                "text": line.text,
                "span": line.span,
            }
        case MentionLine():
            return MENTIONS, {
                "passage_key": line.passage_key,
                "ordinal": line.ordinal,
                "form": line.form,
                "canonical": line.canonical,
            }
        case EntityLine():
            return ENTITIES, {"canonical": line.canonical, "display": line.display, "degree": line.degree}
        case DecisionLine():
            return DECISIONS, {
                "canonical": line.canonical,
                "passage_key": line.passage_key,
                "target": line.target,
            }


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(body).encode()).hexdigest()


# Reading


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an export.

    Raises:
        InputError: the folder holds none, it is damaged, or a newer evireform wrote it.
    """
    path = folder / MANIFEST
    shown = printable(path)
    try:
        with _opened(path) as stream:
            given = parse_object(stream.read().decode("utf-8"))
        if problem := json_problem(given):
            raise ValueError(f"it {problem}")
    except ValueError as error:
        raise damaged(folder, MANIFEST, str(error)) from error
    if given.get("format") != FORMAT:
        raise InputError(f"{shown} is not that of an exported corpus", path=path)
    version = given.get("version")
    if type(version) is not int or version < 1:
        raise damaged(folder, MANIFEST, "version must be a whole number from 1 on")
    if version > VERSION:
        raise InputError(
            f"{shown} was written by a newer evireform (version {version} of the format; this one knows "
            f"{VERSION}): upgrade the package",
            path=path,
        )
    body = {name: value for name, value in given.items() if name != "sha256"}
    if given.get("sha256") != _digest(body):
        raise damaged(folder, MANIFEST, "its checksum is wrong")
    try:
        return _manifest(body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(folder, MANIFEST, str(error)) from error


def _manifest(body: Mapping[str, Any]) -> Manifest:
    corpus = body["corpus"]
    manifest = Manifest(
        name=_text(corpus, "name"),
        titles=_choice(corpus, "titles", Titles),
        extractor=_text(corpus, "extractor"),
        spaces=tuple(_space(space) for space in body["spaces"]),
        files={
            name: ExportedFile(
                size=_count(file, "size", most=2**63),
                rows=_count(file, "rows"),
                sha256=_text(file, "sha256"),
            )
            for name, file in body["files"].items()
        },
    )
    kinds = [space.kind for space in manifest.spaces]
    if len(set(kinds)) < len(kinds):
        raise ValueError("there are two vector spaces of a kind")
    if manifest.files.get(PASSAGES, _NOTHING).rows and manifest.space("proposition") is None:
        raise ValueError("it names no vector space of its propositions")
    expected = {*TABLES, *(VECTORS[space.kind] for space in manifest.spaces if space.vectors)}
    if manifest.files.keys() != expected:
        odd = sorted(manifest.files.keys() ^ expected)[0]
        raise ValueError(f"it names other files than an export has, such as {printable(odd[:_SHOWN])}")
    for space in manifest.spaces:
        items = manifest.files[_ITEMS[space.kind]].rows
        if space.vectors and manifest.files[VECTORS[space.kind]].rows != items:
            raise ValueError(f"it has another number of {space.kind} vectors than the {items:,} of the rows")
    return manifest


def _space(given: Any) -> ExportedSpace:
    prompts = given["prompts"]
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ValueError("prompts must be texts by name")
    if type(given["vectors"]) is not bool:
        raise ValueError("vectors must be true or false")
    if not 1 <= _count(given, "dimensions") <= MOST_DIMENSIONS:
        raise ValueError(f"dimensions must be a whole number from 1 to {MOST_DIMENSIONS:,}")
    return ExportedSpace(
        kind=_choice(given, "kind", Kind),
        model=_text(given, "model"),
        dimensions=_count(given, "dimensions"),
        prompts=prompts,
        vectors=given["vectors"],
    )


def check_files(folder: Path, manifest: Manifest, *, progress: Progress | None = None) -> None:
    """Compare every file of an export with what its manifest says: size, checksum, and lines of a table.

    Args:
        folder: The export.
        manifest: Its manifest.
        progress: Called with the number of bytes read since the last call.

    Raises:
        InputError: a file is missing, none, or not as it was written.
    """
    for name, expected in manifest.files.items():
        path = folder / name
        digest, size, lines = hashlib.sha256(), 0, 0
        with _opened(path) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
                size += len(block)
                lines += block.count(b"\n")
                if progress:
                    progress(len(block))
        if size != expected.size:
            raise damaged(folder, name, f"it has {size:,} bytes and was written with {expected.size:,}")
        if digest.hexdigest() != expected.sha256:
            raise damaged(folder, name, "its checksum is wrong")
        if name in TABLES and lines != expected.rows:
            raise damaged(folder, name, f"it has {lines:,} rows and was written with {expected.rows:,}")


def read_passage_lines(folder: Path) -> Iterator[PassageLine]:
    """The passages of an export. Raises InputError where a line is none."""
    return _lines(folder / PASSAGES, _passage_line)


def read_proposition_lines(folder: Path) -> Iterator[PropositionLine]:
    """The propositions of an export. Raises InputError where a line is none."""
    return _lines(folder / PROPOSITIONS, _proposition_line)


def read_mention_lines(folder: Path) -> Iterator[MentionLine]:
    """The mentions of an export. Raises InputError where a line is none."""
    return _lines(folder / MENTIONS, _mention_line)


def read_entity_lines(folder: Path) -> Iterator[EntityLine]:
    """The entities of an export. Raises InputError where a line is none."""
    return _lines(folder / ENTITIES, _entity_line)


def read_decision_lines(folder: Path) -> Iterator[DecisionLine]:
    """The decisions of an export. Raises InputError where a line is none."""
    return _lines(folder / DECISIONS, _decision_line)


def open_vectors(folder: Path, manifest: Manifest, kind: Kind) -> NDArray[np.float16] | None:
    """The vectors of a kind as rows of an array on disk, shape ``(n, d)``; None where the export has none.

    Raises:
        InputError: the file does not hold what the manifest says.
    """
    space = manifest.space(kind)
    if space is None or not space.vectors:
        return None
    path = folder / VECTORS[kind]
    shape = (manifest.files[VECTORS[kind]].rows, space.dimensions)
    cell = np.dtype("<f2")
    with _opened(path) as stream:
        try:
            found = _array_header(stream)
        except Exception as error:  # whatever numpy's parser makes of bytes that are no header
            raise damaged(folder, path.name, "it does not begin as a .npy file of version 1.0") from error
        start, size = stream.tell(), os.fstat(stream.fileno()).st_size
        if found != (shape, False, cell) or size != start + shape[0] * shape[1] * cell.itemsize:
            raise InputError(f"{printable(path)} does not hold {shape[0]:,} vectors of {shape[1]}", path=path)
        if not shape[0]:  # nothing to map
            return np.empty(shape, dtype=cell)
        return np.memmap(stream, dtype=cell, mode="r", offset=start, shape=shape)


def _array_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of an array as its file says, up to its first byte."""
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("another version of the format")
    return np.lib.format.read_array_header_1_0(stream)


def vectors_problem(vectors: NDArray[np.floating]) -> str:
    """Why these cannot be what an encoder made, shape ``(n, d)``; empty when they can.

    Every encoder gives vectors of length 1, for whatever text.
    """
    lengths = np.linalg.norm(vectors.astype(np.float32), axis=1)
    if not np.isfinite(lengths).all():
        return "it holds what is no number"
    odd = lengths[np.abs(lengths - 1) > LENGTH_TOLERANCE]
    return f"it holds a vector of length {odd[0]:.3g} in place of 1" if len(odd) else ""


def damaged(folder: Path, name: str, problem: str) -> InputError:
    """The error about a file whose rows are none that an export has."""
    path = folder / name
    return InputError(f"{printable(path)} is damaged: {problem}", path=path)


def is_regular(path: Path) -> bool:
    """Whether this is a file of its folder itself: no link to another place, no folder, no pipe."""
    return path.is_file() and not path.is_symlink()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A regular file, to be read."""
    try:
        if not is_regular(path):
            raise InputError(f"{printable(path)} is missing: an export is whole or none", path=path)
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"{printable(path)} cannot be read: {error.strerror}", path=path) from error


def _lines(path: Path, read: Callable[[Mapping[str, Any]], Row]) -> Iterator[Row]:
    number = 0
    with _opened(path) as stream:
        while line := stream.readline(LONGEST_LINE):
            number += 1
            try:
                yield read(parse_object(line.decode("utf-8")))
            except ValueError as error:
                raise InputError(
                    f"{printable(path)} line {number} is damaged: {error}", path=path, line_number=number
                ) from error


def _passage_line(fields: Mapping[str, Any]) -> PassageLine:
    key, metadata = _key(fields, "key"), fields.get("metadata")
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata must be an object, not {json_type(metadata)}")  # noqa: TRY004
    if problem := json_problem(metadata):
        raise ValueError(f"metadata {problem}")
    content_hash = _text(fields, "content_hash")
    if not _SHA256.fullmatch(content_hash):
        raise ValueError("content_hash is none")
    text = _text(fields, "text")
    if not text.strip():
        raise ValueError("text is empty")
    return PassageLine(
        passage=Passage(key=key, title=_text(fields, "title"), text=text, metadata=metadata),
        state=_choice(fields, "state", PassageState),
        reason=_text(fields, "reason"),
        content_hash=bytes.fromhex(content_hash),
    )


def _proposition_line(fields: Mapping[str, Any]) -> PropositionLine:
    given = fields.get("span")
    span = None
    if given is not None:
        if not isinstance(given, list) or len(given) != 2 or any(type(place) is not int for place in given):
            raise ValueError("span must be two whole numbers or null")
        span = (given[0], given[1])
        if not 0 <= span[0] < span[1]:
            raise ValueError("span is none")
    text = _text(fields, "text")
    if not text.strip():
        raise ValueError("text is empty")
    return PropositionLine(
        passage_key=_key(fields, "passage_key"), ordinal=_count(fields, "ordinal"), text=text, span=span
    )


def _mention_line(fields: Mapping[str, Any]) -> MentionLine:
    return MentionLine(
        passage_key=_key(fields, "passage_key"),
        ordinal=_count(fields, "ordinal"),
        form=_name(fields, "form"),
        canonical=_name(fields, "canonical"),
    )


def _entity_line(fields: Mapping[str, Any]) -> EntityLine:
    return EntityLine(
        canonical=_name(fields, "canonical"),
        display=_name(fields, "display"),
        degree=_count(fields, "degree"),
    )


def _decision_line(fields: Mapping[str, Any]) -> DecisionLine:
    passage_key = _text(fields, "passage_key")
    line = DecisionLine(
        canonical=_name(fields, "canonical"),
        passage_key=_key(fields, "passage_key") if passage_key else "",
        target=_name(fields, "target"),
    )
    if line.target == line.canonical:
        raise ValueError("a name stands for itself")
    if odd := [name for name in (line.canonical, line.target) if canonical(name) != name]:
        raise ValueError(f"{odd[0]!r} is not in canonical form")
    return line


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {json_type(value)}")  # noqa: TRY004
    if problem := text_problem(value):
        raise ValueError(f"{name} {problem}")
    return value


def _key(fields: Mapping[str, Any], name: str) -> str:
    value = _text(fields, name)
    if problem := key_problem(value):
        raise ValueError(f"{name} {problem}")
    return value


def _name(fields: Mapping[str, Any], name: str) -> str:
    value = _text(fields, name)
    if not value or len(value) > MAX_ENTITY_CHARACTERS:
        raise ValueError(f"{name} must have 1 to {MAX_ENTITY_CHARACTERS} characters")
    return value


def _count(fields: Mapping[str, Any], name: str, *, most: int = 2**31) -> int:
    value = fields.get(name)
    if type(value) is not int or not 0 <= value < most:
        raise ValueError(f"{name} must be a whole number from 0 on, not {json_type(value)}")
    return value


def _choice(fields: Mapping[str, Any], name: str, choices: Any) -> Any:
    value = fields.get(name)
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}")
    return value
