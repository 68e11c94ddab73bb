"""The final set: a judge reads the head of the ranking as a set, and its order is blended with the score's.

The pool is the first ``set_pool`` passages of the ranking. Both orders become percentile ranks (see
`readout.blended`), so that neither scale counts; passages beyond the pool follow as they were. A judge that
says nothing usable leaves the ranking as it is; of one passage there is nothing to choose, and none is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evireform import parallel, readout, seeds
from evireform.language import Language
from evireform.records import Judgement, ObservedPassage, RankedPassage, Ranking, Titles
from evireform.retrieval.clock import Clock
from evireform.retrieval.observation import Observation
from evireform.settings import SearchSettings

SET_SIZE = 5
"""Most passages that the judge lists, whatever ``k`` is: a shorter ranking is the head of a longer one."""


def settle(
    rankings: Sequence[Ranking],
    observations: Sequence[Observation],
    *,
    language: Language,
    titles: Titles,
    settings: SearchSettings,
    clock: Clock,
) -> tuple[list[Ranking], list[Observation]]:
    """Let the judge choose, and cut every ranking to ``k``. With weight 0 nothing is asked or changed.

    Args:
        rankings: As `pipeline.rank` gives them, ``settings.depth`` passages long.
        observations: What led to each of them.
        language: Judges.
        titles: Whether the judge sees titles.
        settings: ``set_weight``, ``set_pool`` and ``k`` count here.
        clock: Told of the stage.

    Returns:
        The rankings, and the observations with the judge's calls.
    """
    if not settings.set_weight:
        return list(rankings), list(observations)
    with clock.stage("judge"):
        judgements = parallel.in_order(
            lambda row: _judge(rankings[row], observations[row], language, titles, settings),
            range(len(rankings)),
            at_once=language.concurrency,
        )
    after = [
        replace(o, calls=o.calls + judgement.calls)
        for o, judgement in zip(observations, judgements, strict=True)
    ]
    settled = [
        replace(
            _settled(ranking, judgement, settings),
            cost=clock.cost(o.calls, questions=len(observations)),
        )
        for ranking, judgement, o in zip(rankings, judgements, after, strict=True)
    ]
    return settled, after


def placed(
    passages: Sequence[RankedPassage], places: Mapping[str, int], settings: SearchSettings
) -> tuple[RankedPassage, ...]:
    """The first ``k`` passages with the pool in blended order; equal values stay in the ranking's order.

    Args:
        passages: The ranking, best first.
        places: Passage key to the place that the judge gave it, from 1; without any the order stays.
        settings: ``set_weight``, ``set_pool`` and ``k`` count here.
    """
    if not places:
        return tuple(passages[: settings.k])
    pool, rest = passages[: settings.set_pool], passages[settings.set_pool :]
    given = [places.get(passage.passage_key, 0) for passage in pool]
    values = readout.blended(np.array(given), weight=settings.set_weight).tolist()
    judged = [
        replace(passage, judged=place or None, blended=value)
        for passage, place, value in zip(pool, given, values, strict=True)
    ]
    order = sorted(range(len(pool)), key=lambda row: (-values[row], row))
    whole = [*(judged[row] for row in order), *rest]
    return tuple(replace(passage, rank=rank) for rank, passage in enumerate(whole[: settings.k], start=1))


def _judge(
    ranking: Ranking, o: Observation, language: Language, titles: Titles, settings: SearchSettings
) -> Judgement:
    pool = [_shown(passage, titles) for passage in ranking.passages[: settings.set_pool]]
    if len(pool) < 2:  # there is nothing to choose
        return Judgement()
    rounds = o.within(settings)
    evidence = rounds[-1].observed if rounds else ()
    return language.judge(ranking.question, evidence, pool, limit=SET_SIZE)


def _shown(passage: RankedPassage, titles: Titles) -> ObservedPassage:
    """A ranked passage as a judge reads it, with the propositions that earned it."""
    return ObservedPassage(
        passage_key=passage.passage_key,
        title=passage.title if titles == "on" else "",
        text=passage.text,
        selected=tuple(earning.text for earning in passage.propositions),
        propositions=tuple((earning.text, earning.entities) for earning in passage.propositions),
    )


def _settled(ranking: Ranking, judgement: Judgement, settings: SearchSettings) -> Ranking:
    pool = ranking.passages[: settings.set_pool]
    if len(pool) < 2:
        return replace(ranking, passages=ranking.passages[: settings.k])
    listed = seeds.valid_positions(judgement.positions, len(pool))[:SET_SIZE]
    places = {pool[position].passage_key: place for place, position in enumerate(listed, start=1)}
    degraded, notes = ranking.degraded, ranking.notes
    if judgement.degraded:
        degraded += (f"final set: {judgement.degraded}",)
    elif not places:
        degraded += ("final set: the judge listed no passage of the pool",)
    if places:
        share = f"{1 - settings.set_weight:g} of the score's order and {settings.set_weight:g} of the judge's"
        notes += (f"final set: the judge listed {len(places)} of {len(pool)} passages; places go by {share}",)
    else:
        notes += ("final set: the order of the scores stays",)
    return replace(
        ranking,
        passages=placed(ranking.passages, places, settings),
        judged=tuple(places),
        degraded=degraded,
        notes=notes,
    )
