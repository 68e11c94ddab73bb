"""2WikiMultiHopQA as published (Ho et al., 2020, COLING): the fields of HotpotQA, and evidence."""

from __future__ import annotations

from pathlib import Path

from evireform.formats.datasets import hotpotqa
from evireform.formats.datasets.dataset import Dataset, Format
from evireform.formats.datasets.paragraphs import read_entries
from evireform.formats.datasets.reading import first_record


def find(folder: Path) -> list[Path]:
    """The files of a folder that look like 2WikiMultiHopQA."""
    return [
        path
        for path in sorted(folder.glob("*.json"))
        if (first := first_record(path)) and {"_id", "context", "question", "evidences"} <= first.keys()
    ]


def read(path: Path) -> Dataset:
    """The questions and paragraphs of one file.

    Raises:
        InputError: the file cannot be read, or a record is wrong; record and field are named.
    """
    return read_entries(path, lambda: hotpotqa.entries(path, separator=" "), format_name=FORMAT.name)


FORMAT = Format(name="2wikimultihopqa", about="train.json, dev.json or test.json", find=find, read=read)
