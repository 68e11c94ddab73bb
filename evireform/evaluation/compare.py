"""Two studies of the same questions: what was changed, what it did, and to which questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from evireform.errors import UsageError
from evireform.evaluation import funnel
from evireform.evaluation.comparing import difference
from evireform.evaluation.files import read_outcomes, read_questions, read_study
from evireform.evaluation.plots import measure_name
from evireform.evaluation.records import PAIRED, Column, MethodResult, Outcome, Study
from evireform.evaluation.report import plain, table
from evireform.records import Question

MEASURES = ("recall@5", "recall@10", "chain@5", "chain@10", "f1", "em")
"""Measures that are compared, where both have them."""

FLIPPED_BY = ("chain@5", "em")
"""A question flips when the first of these that its method has changes."""

LISTED = 20
"""Most flipped questions of a method that the Markdown lists; all of them are in the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A setting, model, version or figure of the index that differs; empty where one has none."""

    what: str
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureChange:
    """Means of a measure and their paired difference, second minus first, with its bootstrap interval."""

    measure: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    better: int
    worse: int
    seed: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldChange:
    """A gold passage that entered or left the first five: where it ended in each study."""

    passage_key: str
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A question whose outcome changed, by key, and what became of its gold passages."""

    question: str
    measure: str
    first: float
    second: float
    gold: tuple[GoldChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodComparison:
    """One method of both studies, under conditions of the same label."""

    method: str
    condition: str
    measures: tuple[MeasureChange, ...]
    flips: tuple[Flip, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two studies. ``only_first`` and ``only_second`` name the methods that the other does not have."""

    first: str
    second: str
    questions: int
    changes: tuple[Change, ...]
    methods: tuple[MethodComparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def compare(first: Path, second: Path) -> Comparison:
    """Compare the studies in two folders, method by method.

    Args:
        first: Folder of a study: what was.
        second: Folder of a study: what is. Differences are second minus first.

    Raises:
        InputError: a folder holds no study, or a malformed one.
        UsageError: the studies asked other questions, or have no method in common.
    """
    studies = read_study(first), read_study(second)
    gold = _same_questions(first, second)
    results = [{(r.condition, r.method): r for r in study.results} for study in studies]
    common = [name for name in results[0] if name in results[1]]
    if not common:
        has = " and ".join(", ".join(sorted({method for _, method in each})) or "none" for each in results)
        raise UsageError(f"the studies have no method in common, so there is nothing to compare: {has}")
    return Comparison(
        first=str(first),
        second=str(second),
        questions=len(gold),
        changes=tuple(_changes(studies[0], studies[1], [(results[0][n], results[1][n]) for n in common])),
        methods=tuple(
            _compared((first, second), (results[0][name], results[1][name]), gold, studies[0].dataset)
            for name in common
        ),
        only_first=tuple(_called(*name) for name in results[0] if name not in results[1]),
        only_second=tuple(_called(*name) for name in results[1] if name not in results[0]),
    )


def markdown(comparison: Comparison) -> str:
    """The comparison as Markdown: changes, differences, and up to 20 flipped questions a method."""
    lines = [
        f"# {plain(comparison.first)} → {plain(comparison.second)}",
        "",
        f"The same {comparison.questions} questions. Differences are points, the second minus the first, "
        "with the 95 % interval of a paired bootstrap.",
        "",
        "## What was changed",
        "",
    ]
    if comparison.changes:
        heads = [Column(name=name, unit="text") for name in ("what", "first", "second")]
        lines += table(heads, [(c.what, c.first or "–", c.second or "–") for c in comparison.changes])
    else:
        lines.append("Nothing that the studies write down.")
    for what, names in (("first", comparison.only_first), ("second", comparison.only_second)):
        if names:
            lines += ["", f"Only the {what} has {plain(', '.join(names))}."]
    lines += ["", "## What it did", ""]
    heads = [
        Column(name="method", unit="text"),
        Column(name="measure", unit="text"),
        Column(name="first", unit="share"),
        Column(name="second", unit="share"),
        *PAIRED,
    ]
    rows = [
        (
            _called(item.condition, item.method), measure_name(m.measure), m.first, m.second, m.difference,
            m.low, m.high, "yes" if m.significant else "no", m.better, m.worse,
        )
        for item in comparison.methods
        for m in item.measures
    ]  # fmt: skip
    lines += table(heads, rows)
    lines += ["", "## Which questions flipped", ""]
    for item in comparison.methods:
        name = plain(_called(item.condition, item.method))
        if not item.flips:
            lines += [f"{name}: none.", ""]
            continue
        won = sum(flip.second > flip.first for flip in item.flips)
        by = measure_name(item.flips[0].measure)
        lines += [f"{name}, by {by}: {won} won, {len(item.flips) - won} lost.", ""]
        heads = [Column(name=n, unit="text") for n in ("question", "", "gold passage", "first", "second")]
        shown = item.flips[:LISTED]
        lines += table(heads, [row for flip in shown for row in _flip_rows(flip)])
        if len(item.flips) > LISTED:
            lines += ["", f"… and {len(item.flips) - LISTED} more, which the JSON lists."]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _flip_rows(flip: Flip) -> Iterator[tuple[str, ...]]:
    verdict = "won" if flip.second > flip.first else "lost"
    for number, change in enumerate(flip.gold):
        head = (flip.question, verdict) if number == 0 else ("", "")
        yield (*head, change.passage_key, change.first, change.second)
    if not flip.gold:
        yield (flip.question, verdict, "", "", "")


def _same_questions(first: Path, second: Path) -> dict[str, tuple[str, ...]]:
    """Question key to gold, the same in both."""
    old, new = ({q.key: q for q in read_questions(folder)} for folder in (first, second))
    for there, here, folder, other in ((old, new, first, second), (new, old, second, first)):
        lacking = [key for key in there if key not in here]
        if lacking:
            raise UsageError(
                f"the studies cannot be compared: {len(lacking)} of {len(there)} questions of {folder} were "
                f"not asked in {other}, such as {lacking[0]!r}"
            )
    for key, question in old.items():
        if problem := _differs(question, new[key]):
            raise UsageError(
                f"the studies cannot be compared: question {key!r} has other {problem} in {second}"
            )
    return {key: question.gold for key, question in old.items()}


def _differs(first: Question, second: Question) -> str:
    if set(first.gold) != set(second.gold):
        return "gold passages"
    return "words" if first.text != second.text else ""


def _changes(
    first: Study, second: Study, results: list[tuple[MethodResult, MethodResult]]
) -> Iterator[Change]:
    """What differs, the index before the settings; what holds for every method is said once."""
    for name in ("dataset", "titles", "command"):
        yield from _diff("", {name: getattr(first, name)}, {name: getattr(second, name)})
    conditions = [{c.label: c for c in study.conditions} for study in (first, second)]
    for label in dict.fromkeys((*conditions[0], *conditions[1])):
        sides = [asdict(found) if (found := each.get(label)) else {} for each in conditions]
        yield from _diff(f"index {label}".strip(), *sides)
    for what in ("models", "versions", "seeds"):
        yield from _diff(what.removesuffix("s"), getattr(first, what), getattr(second, what))
    shared = list(_diff("setting", first.settings, second.settings))
    yield from shared
    said = {change.what.removeprefix("setting ") for change in shared}
    for old, new in results:
        for change in _diff("", old.settings, new.settings):
            if change.what not in said:
                yield Change(
                    what=f"{_called(old.condition, old.method)}: {change.what}",
                    first=change.first,
                    second=change.second,
                )


def _diff(what: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys((*first, *second)):
        old, new = first.get(name), second.get(name)
        if old != new:
            yield Change(
                what=f"{what} {name}".strip(),
                first="" if old is None else str(old),
                second="" if new is None else str(new),
            )


def _compared(
    folders: tuple[Path, Path],
    results: tuple[MethodResult, MethodResult],
    gold: Mapping[str, tuple[str, ...]],
    dataset: str,
) -> MethodComparison:
    old, new = (
        {outcome.question: outcome for outcome in read_outcomes(folder, result)}
        for folder, result in zip(folders, results, strict=True)
    )
    keys = [key for key in gold if key in old and key in new]
    measures = []
    for measure in MEASURES:
        judged = [k for k in keys if measure in old[k].measures and measure in new[k].measures]
        if not judged:
            continue
        found = difference(dataset, measure, ("second", new), ("first", old))
        measures.append(
            MeasureChange(
                measure=measure,
                first=fmean(old[key].measures[measure] for key in judged),
                second=fmean(new[key].measures[measure] for key in judged),
                difference=found.difference,
                low=found.low,
                high=found.high,
                better=found.better,
                worse=found.worse,
                seed=found.seed,
            )
        )
    by = next((name for name in FLIPPED_BY if any(item.measure == name for item in measures)), "")
    return MethodComparison(
        method=results[0].method,
        condition=results[0].condition,
        measures=tuple(measures),
        flips=tuple(
            _flip(by, old[key], new[key], gold[key])
            for key in keys
            if old[key].measures.get(by) != new[key].measures.get(by)
        ),
    )


def _flip(measure: str, old: Outcome, new: Outcome, gold: tuple[str, ...]) -> Flip:
    was, now = (funnel.endings(outcome, gold) for outcome in (old, new))
    return Flip(
        question=old.question,
        measure=measure,
        first=old.measures.get(measure, 0.0),
        second=new.measures.get(measure, 0.0),
        gold=tuple(
            GoldChange(passage_key=a.passage_key, first=a.words, second=b.words)
            for a, b in zip(was, now, strict=True)
            if a.missed != b.missed
        ),
    )


def _called(condition: str, method: str) -> str:
    return f"{condition}: {method}" if condition else method
