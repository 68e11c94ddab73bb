"""Measures of rankings: Recall@K, Chain@K, Hit@K against gold passages. Of answers: token F1, exact match.

``G`` is the set of gold passages of a question, ``R_K`` that of the first ``K`` passages of its ranking.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CUTOFFS = (1, 5, 10, 20)
"""The K at which rankings are measured; 5 is the primary one."""

SPECIAL_ANSWERS = frozenset(("yes", "no", "noanswer"))
"""Answers that are right or wrong as a whole."""

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def recall_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Share of the gold passages among the first K: ``|G ∩ R_K| / |G|``.

    Args:
        ranking: Passage keys, best first, each once; may be empty.
        gold: Passage keys, at least one.
        k: Depth K, at least 1.

    Raises:
        ValueError: ``gold`` is empty, ``k`` is below 1, or the ranking names a passage twice.

    >>> recall_at(["a", "x", "b"], {"a", "b"}, 2)
    0.5
    """
    found, wanted = _found(ranking, gold, k)
    return found / wanted


def chain_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Whether the first K hold every gold passage: 1 if ``G ⊆ R_K``, else 0.

    Args:
        ranking: Passage keys, best first, each once; may be empty.
        gold: Passage keys, at least one.
        k: Depth K, at least 1.

    Raises:
        ValueError: ``gold`` is empty, ``k`` is below 1, or the ranking names a passage twice.

    >>> chain_at(["a", "x", "b"], {"a", "b"}, 2), chain_at(["a", "x", "b"], {"a", "b"}, 3)
    (0.0, 1.0)
    """
    found, wanted = _found(ranking, gold, k)
    return float(found == wanted)


def hit_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Whether the first K hold any gold passage: 1 if ``G ∩ R_K ≠ ∅``, else 0.

    Args:
        ranking: Passage keys, best first, each once; may be empty.
        gold: Passage keys, at least one.
        k: Depth K, at least 1.

    Raises:
        ValueError: ``gold`` is empty, ``k`` is below 1, or the ranking names a passage twice.

    >>> hit_at(["x", "a"], {"a", "b"}, 1), hit_at(["x", "a"], {"a", "b"}, 2)
    (0.0, 1.0)
    """
    found, _ = _found(ranking, gold, k)
    return float(found > 0)


MEASURES: dict[str, Callable[[Sequence[str], Collection[str], int], float]] = {
    "recall": recall_at,
    "chain": chain_at,
    "hit": hit_at,
}
"""Name of a measure to its function."""


def answer_tokens(text: str) -> list[str]:
    """The words that answers are compared by: lower case, without ASCII punctuation and English articles.

    The normalisation of SQuAD (Rajpurkar et al. 2016), in its order: punctuation goes before the articles do.

    >>> answer_tokens("The U.S. Navy's  flagship")
    ['us', 'navys', 'flagship']
    """
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def answer_f1(answer: str, references: Sequence[str]) -> float:
    """Overlap of an answer's tokens with those of the reference that it meets best.

    ``2pr / (p + r)`` with ``c`` the size of the common multiset, ``p = c / |answer|`` and
    ``r = c / |reference|``; 0 where ``c = 0``. Where either is one of `SPECIAL_ANSWERS` and they differ, 0
    (Yang et al. 2018, HotpotQA).

    Args:
        answer: What was answered; ``unknown`` is an answer like any other.
        references: Right answers, at least one.

    Raises:
        ValueError: there is no reference.

    >>> answer_f1("Larvik in Norway", ["Larvik"])
    0.5
    >>> answer_f1("yes it is", ["yes"])
    0.0
    """
    return max(_token_f1(answer_tokens(answer), answer_tokens(one)) for one in _given(references))


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Whether an answer has the tokens of a reference, in their order: 1 or 0.

    Args:
        answer: What was answered.
        references: Right answers, at least one.

    Raises:
        ValueError: there is no reference.

    >>> exact_match("the Baltic sea.", ["Baltic Sea"])
    1.0
    """
    return float(any(answer_tokens(answer) == answer_tokens(one) for one in _given(references)))


ANSWER_MEASURES: dict[str, Callable[[str, Sequence[str]], float]] = {"f1": answer_f1, "em": exact_match}
"""Name of a measure of answers to its function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measures of one method on one set of questions.

    Attributes:
        questions: Keys of the judged questions, in the order of the values.
        values: ``recall@5``, ``f1`` and so on to one value in [0, 1] per judged question, shape ``(n,)``.
        unjudged: Questions without gold passages, or without reference answers, which have no value.
    """

    questions: tuple[str, ...]
    values: Mapping[str, NDArray[np.float64]]
    unjudged: int

    @property
    def means(self) -> dict[str, float]:
        """Mean over the judged questions, by measure."""
        return {name: float(values.mean()) for name, values in self.values.items()}


def measure(
    rankings: Mapping[str, Sequence[str]],
    gold: Mapping[str, Collection[str]],
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> Measured:
    """Every measure at every cutoff for every judged question.

    A judged question with an empty ranking, or with none at all, counts 0. A question without gold is not
    judged: it is left out and counted.

    Args:
        rankings: Question key to passage keys, best first.
        gold: Question key to the passages that answer it together, for every question asked.
        cutoffs: Depths K, each at least 1.

    Raises:
        ValueError: no question is judged, a ranking belongs to no question of ``gold``, a ranking names
            a passage twice, or a cutoff is below 1.

    >>> measure({"q1": ["a", "b"]}, {"q1": {"a"}, "q2": {"c"}}, cutoffs=[1]).means
    {'recall@1': 0.5, 'chain@1': 0.5, 'hit@1': 0.5}
    """
    unknown = [question for question in rankings if question not in gold]
    if unknown:
        raise ValueError(f"rankings hold question {unknown[0]!r}, which gold does not")
    judged = tuple(question for question, passages in gold.items() if passages)
    if not judged:
        raise ValueError("gold must name a passage for at least one question")
    values = {
        f"{name}@{k}": np.array(
            [function(rankings.get(question, ()), gold[question], k) for question in judged],
            dtype=np.float64,
        )
        for name, function in MEASURES.items()
        for k in cutoffs
    }
    return Measured(questions=judged, values=values, unjudged=len(gold) - len(judged))


def means(values: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each measure over the questions that have it.

    Args:
        values: Measures of each question; one that is not judged has none.

    >>> means([{"recall@5": 1.0}, {"recall@5": 0.5}, {}])
    {'recall@5': 0.75}
    """
    columns: dict[str, list[float]] = {}
    for of_question in values:
        for name, value in of_question.items():
            columns.setdefault(name, []).append(value)
    return {name: float(np.mean(column)) for name, column in columns.items()}


def grouped_means(
    values: Mapping[str, Mapping[str, float]], labels: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Means by group of questions, such as those of a number of hops, and ``questions``, how many those are.

    Args:
        values: Measures by question; a question without any is in no group.
        labels: Question to its group; a question that is not named is in none.

    >>> grouped_means({"q1": {"hit@1": 1.0}, "q2": {"hit@1": 0.0}}, {"q1": "2", "q2": "3"})["3"]
    {'questions': 1, 'hit@1': 0.0}
    """
    groups: dict[str, list[Mapping[str, float]]] = {}
    for question, of_question in values.items():
        if question in labels and of_question:
            groups.setdefault(labels[question], []).append(of_question)
    return {label: {"questions": len(groups[label]), **means(groups[label])} for label in sorted(groups)}


def measure_answers(answers: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> Measured:
    """Every measure of answers for every judged question.

    A judged question without an answer counts 0. A question without references is not judged: it is left
    out and counted.

    Args:
        answers: Question key to what was answered.
        references: Question key to its right answers, for every question asked.

    Raises:
        ValueError: no question is judged, or an answer belongs to no question of ``references``.

    >>> measure_answers({"q1": "Oslo"}, {"q1": ["Oslo"], "q2": ["Bergen"], "q3": []}).means
    {'f1': 0.5, 'em': 0.5}
    """
    strange = [question for question in answers if question not in references]
    if strange:
        raise ValueError(f"answers hold question {strange[0]!r}, which references do not")
    judged = tuple(question for question, right in references.items() if right)
    if not judged:
        raise ValueError("references must hold an answer for at least one question")
    values = {
        name: np.array(
            [
                function(answers[question], references[question]) if question in answers else 0.0
                for question in judged
            ],
            dtype=np.float64,
        )
        for name, function in ANSWER_MEASURES.items()
    }
    return Measured(questions=judged, values=values, unjudged=len(references) - len(judged))


def _given(references: Sequence[str]) -> Sequence[str]:
    if not references:
        raise ValueError("references must hold at least one answer")
    return references


def _token_f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    if answer != reference and SPECIAL_ANSWERS & {" ".join(answer), " ".join(reference)}:
        return 0.0
    common = (Counter(answer) & Counter(reference)).total()
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def _found(ranking: Sequence[str], gold: Collection[str], k: int) -> tuple[int, int]:
    """Gold passages among the first K, and gold passages in all."""
    wanted = set(gold)
    if not wanted:
        raise ValueError("gold must hold at least one passage")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    first = ranking[:k]
    retrieved = set(first)
    if len(retrieved) < len(first):
        raise ValueError("the ranking names a passage twice")
    return len(wanted & retrieved), len(wanted)
