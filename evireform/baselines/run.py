"""A TREC run of any system, read from a file (``run@file=PATH``): to compare with what is in use now."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from evireform.errors import UsageError
from evireform.evaluation.bench import Bench
from evireform.evaluation.method import Ranked
from evireform.formats.runs import read_run
from evireform.records import Question
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The rankings of a file, by falling score; a question that it does not hold has an empty one.

    The keys of questions and passages are those of the evaluation set.
    """

    needs_model: ClassVar[bool] = False
    search: ClassVar[None] = None

    file: str = ""

    def __post_init__(self) -> None:
        if self.file and not Path(self.file).is_file():
            raise UsageError(f"there is no run {self.file!r}: check the path")

    def refuse_strange(self, questions: Sequence[Question]) -> None:
        """Refuse a run of another set.

        Raises:
            UsageError: it holds none of the questions, or no file is named.
            InputError: the file is not a run.
        """
        rankings = read_run(self._path())
        if questions and not any(question.key in rankings for question in questions):
            raise UsageError(
                f"the run {self.file!r} holds none of the questions that are asked: is it of another set?"
            )

    @property
    def settings(self) -> Mapping[str, Any]:
        """The name of the file, and a digest of what is in it."""
        path = self._path()
        return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def models(self, _: Bench) -> Mapping[str, str]:
        return {}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        path = self._path()
        rankings = bench.once(f"run {path}", lambda: read_run(path))
        return [
            Ranked(
                passages=tuple(rankings.get(question.key, ())[: bench.depth]),
                reason="" if question.key in rankings else "the run does not hold the question",
            )
            for question in questions
        ]

    def _path(self) -> Path:
        if not self.file:
            raise UsageError("the method run needs a file: run@file=PATH")
        return Path(self.file)


def method(_: SearchSettings) -> Run:
    return Run()
