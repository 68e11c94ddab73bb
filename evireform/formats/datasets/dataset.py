"""What every format of an evaluation set is read into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evireform.records import Passage, Question, Rejected

Row = Passage | Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Questions in memory, and passages that are read from the files each time they are asked for.

    Attributes:
        name: What a report calls it: the folder, or the file where a folder holds several sets.
        format: Name of the format that it was read as.
        questions: In the order of the file.
        passages: Opens the files anew and gives passages, or refusals, in their order.
        brings: Question key to the keys of the passages that came with it, in order; empty where the files
            do not say which question brought a passage.
        paths: The files that were read.
        notes: What was left out, and what the measures will feel.
    """

    name: str
    format: str
    questions: tuple[Question, ...]
    passages: Callable[[], Iterator[Row]]
    brings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way in which evaluation sets are published.

    Attributes:
        name: What ``--format`` calls it.
        about: The files that make it, in a phrase.
        find: The sets that a folder holds, as the file that names each: the questions, or the qrels.
        read: The set that such a file names.
        default: Name of the file that is meant where a folder holds several; empty asks for one.
    """

    name: str
    about: str
    find: Callable[[Path], list[Path]]
    read: Callable[[Path], Dataset]
    default: str = ""


def missing_gold(questions: Iterable[Question], keys: Iterable[str], corpus: str) -> tuple[str, ...]:
    """A note on gold passages that the corpus does not hold, where there are any.

    Only the gold is kept in memory, not the keys of the corpus.
    """
    wanted: dict[str, str] = {}
    for question in questions:
        for passage in question.gold:
            wanted.setdefault(passage, question.key)
    for key in keys:
        wanted.pop(key, None)
    if not wanted:
        return ()
    passage, question_key = next(iter(wanted.items()))
    return (
        f"{len(wanted)} gold passages are not in {corpus} and count as missed "
        f"(the first: {passage!r} of question {question_key!r})",
    )
