"""Answering: a question in, a short answer out, with the passages and propositions that it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evireform.embedding import Encoder
from evireform.errors import DatabaseError
from evireform.filters import Filter
from evireform.language import Language
from evireform.language.tokens import Tokenizer
from evireform.measures import SPECIAL_ANSWERS, answer_tokens
from evireform.records import (
    Answer,
    Citation,
    CitedProposition,
    Cost,
    ModelCall,
    Ranking,
    Reading,
    with_title,
)
from evireform.retrieval import pipeline
from evireform.retrieval.clock import Clock
from evireform.seeds import valid_positions
from evireform.settings import AnswerSettings, SearchSettings
from evireform.store import calls, corpora, filtering, searching
from evireform.store.connection import Store
from evireform.store.searching import ContextPassage
from evireform.support import source, unsupported

UNKNOWN = "unknown"
"""The answer where the passages do not support one."""

OnText = Callable[[str], None]

_SHORT_PASSAGE_TOKENS = 60
_MOST_PASSAGES = 1_000


def depth(settings: AnswerSettings) -> int:
    """How many passages to rank for the context budget: as many as fill it where passages are short.

    >>> depth(AnswerSettings(context_tokens=3_000))
    50
    """
    return max(1, min(settings.context_tokens // _SHORT_PASSAGE_TOKENS, _MOST_PASSAGES))


def answer(
    store: Store,
    corpus_name: str,
    question: str,
    *,
    encoder: Encoder,
    language: Language,
    search: SearchSettings,
    settings: AnswerSettings,
    method: str = "full",
    on_text: OnText | None = None,
) -> Answer:
    """Rank passages, and let the reader answer from them.

    Args:
        store: The database.
        corpus_name: The corpus.
        question: Its text; an empty one is answered ``unknown``.
        encoder: Must be the model of the corpus's active proposition space.
        language: Searches and reads.
        search: Configuration of the search; ``k`` is raised to `depth`.
        settings: Budget and strictness. ``direct`` does not count here: see `answer_directly`.
        method: Name under which the ranking is recorded.
        on_text: As in `from_passages`.

    Raises:
        CorpusNotFound: no corpus has this name.
        VectorSpaceMismatch: the corpus was embedded with another model.
        DatabaseError: the server refused a statement or timed out.
        BudgetSpent: there is no budget left for a model call.
    """
    (ranking,) = pipeline.search(
        store,
        corpus_name,
        [question],
        encoder=encoder,
        language=language,
        settings=replace(search, k=max(search.k, depth(settings))),
        method=method,
    )
    return from_ranking(store, corpus_name, ranking, language=language, settings=settings, on_text=on_text)


def from_ranking(
    store: Store,
    corpus_name: str,
    ranking: Ranking,
    *,
    language: Language,
    settings: AnswerSettings,
    on_text: OnText | None = None,
) -> Answer:
    """The part of `answer` after the search, with what the search took and where it fell short."""
    answered = from_passages(
        store,
        corpus_name,
        ranking.question,
        [passage.passage_key for passage in ranking.passages],
        language=language,
        settings=settings,
        earned={p.passage_key: [earning.text for earning in p.propositions] for p in ranking.passages},
        log_id=ranking.log_id,
        where=ranking.where,
        on_text=on_text,
    )
    return replace(
        answered,
        reason=answered.reason if ranking.passages else ranking.reason,
        ranking=ranking,
        degraded=ranking.degraded + answered.degraded,
        notes=ranking.notes + answered.notes,
        cost=_sum(ranking.cost, answered.cost),
    )


def from_passages(
    store: Store,
    corpus_name: str,
    question: str,
    keys: Sequence[str],
    *,
    language: Language,
    settings: AnswerSettings,
    earned: Mapping[str, Sequence[str]] | None = None,
    log_id: int | None = None,
    where: Filter = (),
    on_text: OnText | None = None,
) -> Answer:
    """Let the reader answer from ranked passages within the budget, and check what it says.

    Where no passage is left for the context, no model is called.

    Args:
        store: The database.
        corpus_name: The corpus.
        question: Its text.
        keys: Passages, best first, each once.
        language: Reads.
        settings: Budget and strictness.
        earned: Passage key to the texts of the propositions that brought it, best first, where that is known.
        log_id: Row of ``question_log`` that the reader's calls are counted to.
        where: Passages that it does not allow any more are left out, as those that were deleted.
        on_text: Called with the answer so far as it is written, and with an empty text whenever the reader
            begins anew. Not called in strict mode, where what is written may be withheld.

    Raises:
        CorpusNotFound, DatabaseError, BudgetSpent: as in `answer`.
    """
    clock = Clock()
    with clock.stage("context"), store.reading() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        allowed = filtering.allowed(tx, corpus.corpus_id, where)
        found = searching.context_passages(tx, corpus.corpus_id, keys, titles=corpus.titles, allowed=allowed)
        clock.tally(tx)
    ranked = [_with_earned(found[key], earned or {}) for key in keys if key in found]
    tokenizer = language.tokenizer
    context, size = within_budget(ranked, tokenizer, settings.context_tokens)
    gone = len(keys) - len(ranked)
    degraded: tuple[str, ...] = ()
    if gone:
        how = "deleted or excluded" if where else "deleted"
        degraded += (f"context: {gone} ranked passages were {how} meanwhile",)
    reading = Reading(text=UNKNOWN)
    if context:
        with clock.stage("read"):
            reading = language.in_corpus(corpus).read(
                question,
                [one.passage for one in context],
                on_text=None if settings.strict else on_text,
            )
        context, reason = context[: len(context) - reading.left_out], ""
        if reading.left_out:
            _, size = within_budget(context, tokenizer, settings.context_tokens)
            reason = "" if context else "no passage fits the window of the reader's model"
    elif ranked:
        reason = f"the first passage is larger than answer.context_tokens ({settings.context_tokens})"
    else:
        reason = "every ranked passage was deleted meanwhile" if keys else "no passage is ranked"
    if reading.degraded:
        degraded += (f"reading: {reading.degraded}",)
    text, reason = _checked(reading, reason)
    cited = [context[row] for row in valid_positions(reading.cited, len(context))] if text != UNKNOWN else []
    said, withheld = text, ""
    if settings.strict and text != UNKNOWN and (objection := _objection(text, cited)):
        text, withheld, reason = UNKNOWN, said, objection
    elif text != UNKNOWN and not cited:
        degraded += ("reading: the answer cites no passage",)
    read = tuple(one.passage.passage_key for one in context)
    return Answer(
        question=question,
        text=text,
        unknown=text == UNKNOWN,
        failed=bool(context) and not reading.text.strip(),
        reason=reason,
        withheld=withheld,
        citations=tuple(_citation(one, said) for one in cited),
        read=read,
        left_out=tuple(key for key in keys if key not in read),
        context_tokens=size,
        tokenizer=tokenizer.name,
        ranking=None,
        degraded=degraded,
        notes=_link(store, reading.calls, log_id) if log_id is not None else (),
        cost=clock.cost(reading.calls, questions=1),
    )


def answer_directly(
    store: Store, corpus_name: str, question: str, *, language: Language, on_text: OnText | None = None
) -> Answer:
    """What the model says without any passage, for comparison. The corpus is where the call is recorded.

    Raises:
        CorpusNotFound: no corpus has this name.
        BudgetSpent: there is no budget left for a model call.
    """
    clock = Clock()
    with clock.stage("open"), store.reading() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        clock.tally(tx)
    reading, reason = Reading(text=UNKNOWN), "the question is empty"
    if question.strip():
        with clock.stage("read"):
            reading, reason = language.in_corpus(corpus).read(question, (), on_text=on_text), ""
    text, reason = _checked(reading, reason)
    return Answer(
        question=question,
        text=text,
        unknown=text == UNKNOWN,
        failed=not reading.text.strip(),
        reason=reason,
        withheld="",
        citations=(),
        read=(),
        left_out=(),
        context_tokens=0,
        tokenizer=language.tokenizer.name,
        ranking=None,
        degraded=(f"reading: {reading.degraded}",) if reading.degraded else (),
        notes=(),
        cost=clock.cost(reading.calls, questions=1),
    )


def within_budget(
    ranked: Sequence[ContextPassage], tokenizer: Tokenizer, budget: int
) -> tuple[list[ContextPassage], int]:
    """Whole passages in rank order until one does not fit, and the tokens that they have.

    A passage counts with its title where the reader sees it; what quotes it in the request does not count.
    """
    taken: list[ContextPassage] = []
    used = 0
    for one in ranked:
        size = tokenizer.count_within(with_title(one.passage.title, one.passage.text, "on"), budget - used)
        if size is None:
            break
        taken.append(one)
        used += size
    return taken, used


def _with_earned(one: ContextPassage, earned: Mapping[str, Sequence[str]]) -> ContextPassage:
    selected = tuple(earned.get(one.passage.passage_key, ()))
    return replace(one, passage=replace(one.passage, selected=selected))


def _checked(reading: Reading, reason: str) -> tuple[str, str]:
    """The reader's answer on one line, `UNKNOWN` in this spelling, and why it is unknown."""
    text = " ".join(reading.text.split())
    if not text:
        return UNKNOWN, reason or "the reader failed"
    if answer_tokens(text) == [UNKNOWN]:
        return UNKNOWN, reason or "the reader found no answer"
    return text, ""


def _objection(text: str, cited: Sequence[ContextPassage]) -> str:
    """Why strict mode withholds an answer; empty where the cited passages contain its names and numbers.

    Yes and no have neither: they need a citation alone.
    """
    if not cited:
        return "strict: the answer cites no passage"
    held = source(*(part for one in cited for part in (one.passage.title, one.passage.text)))
    missing = [] if _is_special(text) else unsupported(text, [text], held)
    return f"strict: no cited passage contains {', '.join(missing)}" if missing else ""


def _citation(one: ContextPassage, text: str) -> Citation:
    """A cited passage with its propositions that contain the answer, or else the one that earned it most."""
    wanted = set(answer_tokens(text))
    propositions = [
        CitedProposition(text=proposition, span=span)
        for (proposition, _), span in zip(one.passage.propositions, one.spans, strict=True)
    ]
    containing = [p for p in propositions if wanted and wanted <= set(answer_tokens(p.text))]
    if not containing or _is_special(text):
        containing = [p for p in propositions if p.text in one.passage.selected[:1]]
    return Citation(passage_key=one.passage.passage_key, title=one.title, propositions=tuple(containing))


def _is_special(text: str) -> bool:
    return " ".join(answer_tokens(text)) in SPECIAL_ANSWERS


def _link(store: Store, made: Sequence[ModelCall], log_id: int) -> tuple[str, ...]:
    """Count the reader's calls to the logged search; a note where the database refuses it."""
    try:
        with store.transaction() as tx:
            calls.link_calls(tx, made, log_id)
    except DatabaseError as error:
        return (f"the reader's calls are not linked to the search: {error}",)
    return ()


def _sum(search: Cost, reading: Cost) -> Cost:
    """Search and reading together."""
    return replace(
        search,
        statements=search.statements + reading.statements,
        rows=search.rows + reading.rows,
        model_calls=search.model_calls + reading.model_calls,
        tokens_in=search.tokens_in + reading.tokens_in,
        tokens_out=search.tokens_out + reading.tokens_out,
        stage_s={**search.stage_s, **reading.stage_s},
        spending=search.spending + reading.spending,
    )
