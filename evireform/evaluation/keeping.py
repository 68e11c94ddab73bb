"""Outcomes as they are made: appended to a file, and taken from it when a study goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evireform.errors import InputError, UsageError
from evireform.evaluation.files import digest, from_json, to_json, write_whole
from evireform.evaluation.records import Outcome
from evireform.records import Question


class Kept:
    """The outcomes of one method under one condition.

    In memory they have neither trace nor pools; those are in the file alone.

    Args:
        path: A file of its own; None keeps nothing for later.
        made_of: What the outcomes depend on: method, settings, models, digest of the corpus.
        questions: The questions that are asked. Left out, and no longer in the file, are outcomes of others,
            those that something else went into, those with a fall-back (which may be better this time; what
            the model did answer is in its ledger), and a last line that an interruption tore.

    Attributes:
        outcomes: Question key to outcome.
    """

    def __init__(self, path: Path | None, made_of: Mapping[str, Any], questions: Sequence[Question]) -> None:
        self._path = path
        self._keys = {question.key: digest([made_of, asdict(question)]) for question in questions}
        self.outcomes: dict[str, Outcome] = {}
        if path is not None and path.is_file():
            self._read(path)

    def missing(self, questions: Sequence[Question]) -> list[Question]:
        """Those without an outcome."""
        return [question for question in questions if question.key not in self.outcomes]

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Keep new outcomes, together.

        Raises:
            UsageError: the file cannot be written.
        """
        for outcome in outcomes:
            self.outcomes[outcome.question] = replace(outcome, trace=None, pools=None)
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.writelines(self._line(outcome) for outcome in outcomes)
        except OSError as error:
            raise UsageError(f"{self._path} cannot be written: {error.strerror}") from error

    def _line(self, outcome: Outcome) -> str:
        return f'{{"key":"{self._keys[outcome.question]}",{to_json(outcome)[1:]}\n'

    def _read(self, path: Path) -> None:
        text = path.read_bytes().decode("utf-8", "replace")
        kept = []
        for line in text.split("\n"):  # alone: a passage key may hold other separators of lines
            try:
                key = json.loads(line)["key"]
                outcome = from_json(Outcome, line, path=path)
            except (InputError, ValueError, KeyError, TypeError):
                continue
            wanted = self._keys.get(outcome.question) == key and not outcome.degraded
            if wanted and outcome.question not in self.outcomes:
                self.outcomes[outcome.question] = replace(outcome, trace=None, pools=None)
                kept.append(f"{line}\n")
        if (whole := "".join(kept)) != text:
            write_whole(path, whole)
