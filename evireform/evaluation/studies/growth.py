"""Growth: the same questions while passages that answer none of them are added."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evireform.errors import UsageError
from evireform.evaluation.indexing import ingest_all
from evireform.evaluation.plan import Findings, Index, Plan, Setup, Summary
from evireform.evaluation.records import Plot, Series
from evireform.formats.datasets import Dataset
from evireform.records import IngestionSummary, Passage, Question

GROUPS = 5

_MEASURES = ("recall@1", "recall@5", "recall@10", "recall@20", "chain@5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The group of each passage, from 0, in the order in which they come, and how they were grouped."""

    group_of: dict[str, int]
    sources: tuple[str, ...]
    note: str


def methods(_: Setup) -> list[str]:
    return ["full", "base", "dense"]


def grouped(dataset: Dataset) -> Groups:
    """Five consecutive groups of passages.

    Where the files say which question brought a passage, questions make the groups and each brings its own
    passages; else passages do, in the order of the file. ``sources`` holds a fingerprint of the passages up
    to and with each group.
    """
    rows = [row for row in dataset.passages() if isinstance(row, Passage)]
    if dataset.brings:
        keys = [question.key for question in dataset.questions]
        first_of: dict[str, int] = {}
        for place, key in enumerate(keys):
            for passage in dataset.brings.get(key, ()):
                first_of.setdefault(passage, place * GROUPS // len(keys))
        group_of = {row.key: first_of.get(row.key, GROUPS - 1) for row in rows}
        note = "questions in five consecutive groups, each bringing its own passages"
    else:
        group_of = {row.key: place * GROUPS // len(rows) for place, row in enumerate(rows)}
        note = (
            "passages in five groups in the order of the file, which does not say which question brought one"
        )
    hashes = [hashlib.sha256() for _ in range(GROUPS)]
    for row in rows:
        content = repr((row.key, row.title, row.text)).encode("utf-8", "surrogatepass")
        for one in hashes[group_of[row.key] :]:
            one.update(content)
    return Groups(group_of=group_of, sources=tuple(one.hexdigest() for one in hashes), note=note)


def of_first_group(questions: Sequence[Question], groups: Groups) -> tuple[Question, ...]:
    """The questions whose gold passages are all in the first group."""
    return tuple(
        question
        for question in questions
        if question.gold and all(groups.group_of.get(key) == 0 for key in question.gold)
    )


def indexes(setup: Setup) -> Iterator[Index]:
    """One corpus, in five states; it shrinks to the first one where an earlier run had grown it.

    Raises:
        UsageError: no question has all its gold passages in the first group.
    """
    groups = grouped(setup.dataset)
    questions = of_first_group(setup.questions, groups)
    if not questions:
        raise UsageError("no question has all its gold passages in the first fifth of the passages")
    for stage in range(GROUPS):
        yield Index(
            label=f"{stage + 1} of {GROUPS}",
            corpus_name=f"{setup.corpus_name}-growth",
            encoder=setup.encoder,
            questions=questions,
            prepare=lambda last=stage: _grow(setup, groups, last),  # type: ignore[misc]
            source=groups.sources[stage],
        )


def _grow(setup: Setup, groups: Groups, last: int) -> IngestionSummary:
    """Bring the corpus to the groups up to ``last``."""
    return ingest_all(
        setup, f"{setup.corpus_name}-growth", setup.encoder,
        only=lambda key: groups.group_of.get(key, GROUPS) <= last, alone=True,
        stage=f"ingest {last + 1} of {GROUPS}",
    )  # fmt: skip


def summarise(findings: Findings) -> Summary:
    sizes = tuple(condition.passages for condition in findings.conditions)
    asked = findings.results[0].questions
    groups = grouped(findings.setup.dataset)
    plots = tuple(
        Plot(
            title=f"{method} as the index grows",
            kind="lines",
            x_label="passages in the index",
            y_label="share of questions or gold passages",
            series=tuple(
                Series(
                    label=measure,
                    x=sizes,
                    y=tuple(findings.result(method, c.label).means[measure] for c in findings.conditions),
                )
                for measure in _MEASURES
            ),
        )
        for method in methods(findings.setup)
    )
    return Summary(
        plots=plots,
        notes=(
            f"groups: {groups.note}",
            f"always the same {asked} questions, whose gold passages are all in the first group",
        ),
    )


PLAN = Plan(
    title="The same questions while the index grows",
    methods=methods,
    summarise=summarise,
    indexes=indexes,
)
