"""Evaluation sets in their published formats: which one a folder holds, and what is in it.

One file a format. Each says which sets a folder holds (`Format.find`) and reads one (`Format.read`); all give
the same `Dataset`. A new format is one file and one entry of `FORMATS`.
"""

from __future__ import annotations

from pathlib import Path

from evireform.errors import InputError, UsageError
from evireform.formats.datasets import beir, graphrag_bench, hipporag, hotpotqa, musique, own, trec, twowiki
from evireform.formats.datasets.dataset import Dataset, Format
from evireform.formats.text import printable

__all__ = ["FORMATS", "Dataset", "Format", "read_dataset"]

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (own, beir, hipporag, graphrag_bench, trec, hotpotqa, twowiki, musique)
}
"""By name, in the order in which a folder is tried: what file names tell comes before what must be opened."""


def read_dataset(path: str | Path, *, format_name: str = "") -> Dataset:
    """The evaluation set of a folder, or the one that a file names.

    Where a folder holds several sets (train, dev and test), give the file of one of them: the questions, or
    for BEIR and TREC the qrels.

    Args:
        path: Folder or file.
        format_name: A name of `FORMATS`; empty tells it from the files.

    Raises:
        UsageError: no format has this name, or the folder holds several sets.
        InputError: nothing there is of a known format, or a file is wrong; the message says which field of
            which line or record.
    """
    path = Path(path)
    if format_name and format_name not in FORMATS:
        raise UsageError(f"no format is called {format_name!r}; there are {', '.join(FORMATS)}")
    if not path.exists():
        raise InputError(f"{printable(path)} does not exist: check the path", path=path)
    chosen = [FORMATS[format_name]] if format_name else list(FORMATS.values())
    if path.is_file() and format_name:
        return _read(chosen[0], path)
    folder = path if path.is_dir() else path.parent
    for form in chosen:
        found = form.find(folder)
        if path.is_file():
            found = [item for item in found if item == path]
        if found:
            return _read(form, _only(form, found, folder))
    raise InputError(_nothing(path, chosen), path=path)


def _read(form: Format, path: Path) -> Dataset:
    dataset = form.read(path)
    if not dataset.questions:
        raise InputError(f"{printable(path)} holds no question", path=path)
    return dataset


def _only(form: Format, found: list[Path], folder: Path) -> Path:
    if len(found) == 1:
        return found[0]
    for path in found:
        if path.name == form.default:
            return path
    names = ", ".join(printable(path.relative_to(folder)) for path in found)
    raise UsageError(f"{printable(folder)} holds several sets of {form.name}: name the file of one ({names})")


def _nothing(path: Path, tried: list[Format]) -> str:
    for name in ("corpus.jsonl", "questions.jsonl"):
        other = "questions.jsonl" if name == "corpus.jsonl" else "corpus.jsonl"
        if own.FORMAT in tried and (path / other).is_file() and not (path / name).is_file():
            return f"there is no {name} in {printable(path)}: evaluate needs it"
    kinds = "; ".join(f"{form.name} ({form.about})" for form in tried)
    return f"{printable(path)} holds no evaluation set of a format that is read: {kinds}"
