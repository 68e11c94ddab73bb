"""Which passages of a ranking belong to the final set: those about what the question or the evidence names.

Recall@5 / Chain@5 of the full method on 2Wiki / MuSiQue / the MuSiQue slice with these rules at weight 0.3
(bge-small int8, titles on, 400 / 334 / 100 questions)::

    no judge                          95.7, 89.8 / 71.7, 44.6 / 85.0, 68.0
    a topic that the question names,
    or that is a bridge               96.9, 93.5 / 72.4, 46.4 / 86.1, 70.0
"""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.rules.extraction import topic_name
from evireform.language.rules.question import words
from evireform.language.rules.reformulation import bridges
from evireform.language.rules.selection import named_passages
from evireform.records import ObservedPassage


def choose_set(
    question: str, observed: Sequence[ObservedPassage], passages: Sequence[ObservedPassage], *, limit: int
) -> tuple[int, ...]:
    """Positions of the passages whose topic the question names, or is a bridge of the evidence, in order.

    A bridge is an entity that the evidence names and the question does not (see `reformulation.bridges`):
    a passage about one continues a route that the evidence began, however little of the signal it has.
    """
    titles = {position: passage.title for position, passage in enumerate(passages)}
    named = named_passages(words(question), titles)
    reached = {words(bridge.entity) for bridge in bridges(question, observed)}
    about = (
        position
        for position, passage in enumerate(passages)
        if position in named or words(topic_name(passage.title)) in reached
    )
    return tuple(about)[:limit]
