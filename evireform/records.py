"""The records that layers hand to each other: plain, frozen, and without behaviour of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from evireform.filters import Filter

PassageState = Literal["ready", "empty", "failed"]
Access = Literal["writer", "reader"]
"""What a role may do in a tenant: write, or only search."""

Titles = Literal["off", "on"]

StoppedBy = Literal["", "interrupted", "budget", "server", "switched"]
"""What ends an ingestion early: somebody, the budget for model calls, a model's server that takes none, or
another generation under the name of the corpus."""


def with_title(title: str, text: str, titles: Titles) -> str:
    """Text as a model sees it: ``title: text`` where the corpus uses titles, else the text alone.

    >>> with_title("Oslo", "It is a city.", "on")
    'Oslo: It is a city.'
    >>> with_title("Oslo", "It is a city.", "off")
    'It is a city.'
    """
    return f"{title}: {text}" if titles == "on" and title else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A paragraph of text as its owner names it. ``key`` is unique within a corpus."""

    key: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question of an evaluation set with the passages that answer it together."""

    key: str
    text: str
    gold: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    kind: str = ""
    hops: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedProposition:
    """One self-contained statement with the surface forms of the entities that it names.

    ``span`` is the character range ``[start, end)`` of the passage text (without title) that the
    proposition was taken from, where that is known.
    """

    text: str
    entities: tuple[str, ...] = ()
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One call of a language model, for the ledger. Counts are tokens; ``None`` is unknown.

    ``prompt_hash`` is the hash of the messages, ``parameters`` what else was sent with them. ``cached`` says
    that the answer came from the ledger: such a call costs nothing. ``tokens_cached`` is the part of
    ``tokens_in`` that the server had in its own cache. ``passage_key`` names the passage that it was for,
    ``round_number`` the round of a search. ``bytes_sent`` counts what was sent for the first time, prompt and
    data, and is ``None`` where it was sent before, as in a repair. The ledger sets ``call_id``, and ``cost``
    where the price is known.
    """

    purpose: str
    model: str
    prompt_version: str
    prompt_hash: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    bytes_sent: int | None = None
    latency_s: float = 0.0
    attempts: int = 1
    cached: bool = False
    error: str = ""
    passage_key: str | None = None
    round_number: int = 0
    call_id: int | None = None
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCall:
    """A call that is not made yet: what it would send, and the ``key`` of an answer in the ledger."""

    purpose: str
    model: str
    prompt_version: str
    key: str
    prompt_bytes: int
    data_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What a language backend made of one passage. With ``error`` set the passage has failed.

    ``unsupported`` counts the propositions that are kept although they name what the passage does not,
    ``dropped`` those that are left out for it. ``degraded`` says what had to be forgiven in the answers.
    ``in_vain`` says that ``error`` would meet any other passage now and is no fault of this one, and why: the
    budget is spent, or the server takes no call.
    """

    propositions: tuple[ExtractedProposition, ...] = ()
    error: str = ""
    in_vain: Literal["", "budget", "server"] = ""
    degraded: str = ""
    unsupported: int = 0
    dropped: int = 0
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A proposition that the question's search found.

    ``similarity`` is the inner product with the question, in (0, 1]. ``entities`` holds display names,
    in the order of the names; it is empty for a backend that does not ask for them.
    """

    proposition_id: int
    passage_id: int
    passage_key: str
    ordinal: int
    title: str
    text: str
    similarity: float
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPassage:
    """A passage that owns a selected proposition, whole, as the reformulator reads it.

    ``title`` is empty where the corpus does not use titles. ``selected`` holds the texts of its
    selected propositions, ``propositions`` every proposition with its entities, in passage order.
    """

    passage_key: str
    title: str
    text: str
    selected: tuple[str, ...] = ()
    propositions: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Positions in the list of candidates, as the selector gave them: not yet checked (see `seeds`)."""

    positions: tuple[int, ...] = ()
    degraded: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reformulation:
    """Residual queries as the reformulator gave them: not yet cleaned (see `seeds`)."""

    queries: tuple[str, ...] = ()
    degraded: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What a controller says after a round: enough evidence, or a query for each gap (SPEC section 4)."""

    sufficient: bool = True
    queries: tuple[str, ...] = ()
    degraded: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Positions of the passages that answer the question together, best first: not yet checked."""

    positions: tuple[int, ...] = ()
    degraded: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reader's answer. ``cited`` holds positions in the passages that it read: not yet checked.

    ``left_out`` counts the passages, the last of those given, that it was not shown.
    """

    text: str = ""
    cited: tuple[int, ...] = ()
    left_out: int = 0
    degraded: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTerm:
    """One additive part of a passage's score.

    ``query`` is 0 for the question and 1.. for a residual query; ``seed_id`` the proposition that the
    mass started from; ``entity`` the display name it travelled through, empty for the direct part.
    ``value`` is in score units: the terms of a passage sum to its score.
    """

    query: int
    seed_id: int
    entity: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EarningProposition:
    """A proposition of a ranked passage with its part of the score and its place in the text."""

    proposition_id: int
    ordinal: int
    text: str
    score: float
    span: tuple[int, int] | None
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPassage:
    """One row of a ranking: the passage, its score, and what earned it.

    Where a judge chose the final set, ``judged`` is the place that it gave the passage (1 is the best; None
    where it did not list it), and ``blended`` the value in (0, 1] that the passage is placed by; None for
    both where no judge was heard on it.
    """

    rank: int
    passage_key: str
    score: float
    title: str
    text: str
    metadata: Mapping[str, Any]
    propositions: tuple[EarningProposition, ...]
    trace: tuple[TraceTerm, ...]
    judged: int | None = None
    blended: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualQuery:
    """A residual query with the propositions it brought. Without a positive hit it is not valid.

    ``round_number`` is the round that it was written in: 1 for the reformulator, 2.. for the controller.
    """

    text: str
    hits: tuple[tuple[int, float], ...] = ()
    round_number: int = 1

    @property
    def valid(self) -> bool:
        return bool(self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A proposition with a share of the mixed signal, for reading a trace."""

    proposition_id: int
    passage_key: str
    ordinal: int
    text: str
    mass: float
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Model calls of one purpose in one round of a search; round 0 is outside the rounds."""

    purpose: str
    round_number: int
    calls: int
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a search took: statements and rows of the database, model calls and tokens, seconds by stage.

    Statements, rows and seconds are those of the batch of ``questions`` that were searched together.
    ``spending`` shares the model calls out by round and purpose, in the order in which they came.
    """

    statements: int
    rows: int
    model_calls: int
    tokens_in: int
    tokens_out: int
    stage_s: Mapping[str, float]
    questions: int = 1
    spending: tuple[Spending, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The answer to one question, with everything that led to it.

    ``reason`` says why the ranking is empty; ``degraded`` lists every fall-back, cut and shortage.
    ``judged`` holds the keys that a judge listed for the final set, in its order, whether ranked or not.
    ``log_id`` names the row of ``question_log`` that can replay it, where it was logged. ``where`` is the
    filter: no other passages were looked at.
    """

    question: str
    method: str
    passages: tuple[RankedPassage, ...]
    candidates: tuple[Candidate, ...]
    selected: tuple[int, ...]
    observed: tuple[str, ...]
    residual_queries: tuple[ResidualQuery, ...]
    seeds: tuple[Seed, ...]
    degraded: tuple[str, ...]
    notes: tuple[str, ...]
    reason: str
    cost: Cost
    judged: tuple[str, ...] = ()
    log_id: int | None = None
    where: Filter = ()

    @property
    def trace(self) -> dict[str, tuple[TraceTerm, ...]]:
        """Passage key to the terms that sum to its score."""
        return {passage.passage_key: passage.trace for passage in self.passages}


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedProposition:
    """A proposition that an answer rests on, with its character range in the passage where that is known."""

    text: str
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A passage that the reader cites.

    ``propositions`` holds those that contain the answer; for yes and no, or where none does, the one that
    earned most of the passage's score.
    """

    passage_key: str
    title: str
    propositions: tuple[CitedProposition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A short answer with what it rests on.

    Where ``unknown`` is set, ``text`` is ``unknown`` and ``reason`` says why; ``failed`` is set where the
    reader gave no usable answer, and ``withheld`` is what it answered and strict mode did not let pass.
    ``read`` and ``left_out`` hold the keys of the ranked passages that the reader saw and of the others;
    ``context_tokens`` is the size of the former, counted by ``tokenizer``. ``degraded`` lists every fall-back
    of search and reading. ``ranking`` is None for an answer without passages. ``cost`` is that of search and
    reading together.
    """

    question: str
    text: str
    unknown: bool
    failed: bool
    reason: str
    withheld: str
    citations: tuple[Citation, ...]
    read: tuple[str, ...]
    left_out: tuple[str, ...]
    context_tokens: int
    tokenizer: str
    ranking: Ranking | None
    degraded: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A passage or line that was refused, with the reason, and where it stood in the input."""

    reason: str
    path: str = ""
    line_number: int | None = None
    passage_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionSummary:
    """What an ingestion did, in passages, and every oddity that it met.

    ``propositions`` were written; ``unsupported`` of what the extractor gave name what their passage does not
    and are kept, ``dropped_propositions`` are left out for it. ``stopped`` says why it ended early (empty: it
    did not), ``stopped_by`` of which kind that is; ``not_done`` passages had been read by then, and what may
    come after them had not.

    Of ``model_calls`` the ``cached`` ones were answered from the ledger. Tokens and ``cost`` are those of the
    answers; None where a server did not count them, or the price is not known.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    empty: int = 0
    failed: tuple[Rejected, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()
    propositions: int = 0
    unsupported: int = 0
    dropped_propositions: int = 0
    dropped_entities: int = 0
    truncated: int = 0
    stopped: str = ""
    stopped_by: StoppedBy = ""
    not_done: int = 0
    model_calls: int = 0
    cached: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: Decimal | None = Decimal(0)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueSummary:
    """What became of passages that were to wait for a worker.

    ``queued`` are new in the queue, ``replaced`` took the place of an older text there, ``waiting`` waited
    there as they are already. ``unchanged`` are in the index as they are and ``relabelled`` got a new title
    or new metadata there: neither needs a worker.
    """

    queued: int = 0
    replaced: int = 0
    waiting: int = 0
    unchanged: int = 0
    relabelled: int = 0
    rejected: tuple[Rejected, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """What a worker did in one transaction, in passages, with the reasons of those that failed.

    ``written`` counts the failed ones too. ``returned`` failed, and wait for another attempt; ``lost`` were
    deleted, replaced or taken over while they were extracted, so that what was made of them is not written.
    """

    corpus: str
    written: int = 0
    failed: tuple[Rejected, ...] = ()
    returned: tuple[Rejected, ...] = ()
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSummary:
    """What a worker did until it ended: passages as in `BatchDone`, and what it took.

    ``reason`` says why no further model call could be made; it is empty where the queue was empty or somebody
    stopped the worker. ``refused`` are corpora whose embedding model is another one, each with both names.
    Calls, tokens and ``cost`` are as in `IngestionSummary`.
    """

    written: int = 0
    failed: int = 0
    returned: int = 0
    lost: int = 0
    reason: str = ""
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model_calls: int = 0
    cached: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: Decimal | None = Decimal(0)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """How far the queue of a corpus is.

    ``waiting`` passages are to be had now, ``leased`` ones are with a worker; of both ``tried`` failed before
    and are tried again. ``ready``, ``empty`` and ``failed`` passages are in the index. ``rate`` counts
    passages written per second over the last minute, whoever wrote them; ``left_s`` is the time that the
    queue takes at that rate, None where nothing is written. ``failures`` lists at most a hundred. ``cost``
    is what all model calls of the corpus took so far, None where it is not known.
    """

    name: str
    waiting: int
    leased: int
    tried: int
    ready: int
    empty: int
    failed: int
    rate: float
    left_s: float | None
    failures: tuple[Rejected, ...] = ()
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker as the database knows it. One that is not ``alive`` was not heard of for a minute."""

    worker_id: int
    host: str
    process: int
    started_at: datetime
    unseen_s: float
    alive: bool
    written: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """Model calls of one group: how many, their tokens and their cost.

    ``group`` names it: a corpus, a passage's key, the id of a logged search, a model, a purpose, a day (UTC)
    or a round; empty for the calls that belong to none. ``corpus`` is set for passages and questions,
    ``question`` for the latter. ``cached`` calls were answered from the ledger and cost nothing; ``unpriced``
    ones may have cost money that is not in ``cost``, which is None where no cost is known at all.
    """

    group: str
    corpus: str = ""
    question: str = ""
    calls: int = 0
    cached: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    cost: Decimal | None = None
    unpriced: int = 0
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What the ledger says: one row a group, and the sum of all. ``since`` is empty for all time."""

    by: str
    corpus: str
    since: str
    rows: tuple[CostRow, ...]
    total: CostRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an ingestion would ask of a model, before it does.

    Of the ``passages`` to extract ``answered`` have every answer in the ledger and are free; ``given`` others
    come with a ready-made extraction, ``unchanged`` are in the corpus as they are, ``rejected`` cannot go in.
    ``cost`` is None where the model's price is not known. ``basis`` says what the figures rest on; it is
    empty where no model would be asked.
    """

    model: str
    passages: int
    answered: int
    given: int
    unchanged: int
    rejected: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: Decimal | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Rows that do not follow from what they derive from, or refer to nothing.

    ``check`` says what was compared, ``wrong`` how many rows are, ``examples`` holds some of them in words.
    ``corpus`` is empty for what belongs to none. ``mended`` says that all of them were put right; where they
    were not, ``remedy`` says what to do.
    """

    check: str
    corpus: str
    wrong: int
    examples: tuple[str, ...]
    remedy: str
    mended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What an audit of some corpora found: nothing, where all is true."""

    corpora: tuple[str, ...]
    findings: tuple[Finding, ...]
    seconds: float = 0.0

    @property
    def true(self) -> bool:
        """Whether every row is as it should be by now."""
        return all(finding.mended for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantMember:
    """A database role that belongs to a tenant: a ``writer``, or a ``reader``, who only searches."""

    role: str
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """A tenant: how many corpora it has, who belongs to it, and whether it shares its answers.

    Answers of models are shared among all tenants that do so; nothing else ever is.
    """

    name: str
    corpora: int
    shares_answers: bool
    members: tuple[TenantMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRow:
    """A corpus as the database knows it. ``extractor`` names what made its propositions, where any did.

    ``deletions`` counts what was deleted until now: whoever writes down what he read before compares it.
    """

    corpus_id: int
    tenant_id: int
    name: str
    titles: Titles
    extractor: str = ""
    language: str = ""
    deletions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceRow:
    """A vector space of a corpus. ``indexed`` tells whether it has its ANN index."""

    corpus_id: int
    space_id: int
    kind: Literal["proposition", "passage"]
    model: str
    dimensions: int
    prompts: Mapping[str, str]
    active: bool
    indexed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReport:
    """A vector space with what it holds, and the last measurement of its index.

    Attributes:
        space: The space.
        items: Propositions or passages of the corpus.
        vectors: How many of them have one in the space.
        index_bytes: Size of the index; 0 where searches scan.
        recall: Share of the true 100 nearest that the index finds; None where it was never measured.
        breadth: ``ef_search`` of that measurement.
        measured_at: When it was.
    """

    space: SpaceRow
    items: int
    vectors: int
    index_bytes: int
    recall: float | None = None
    breadth: int | None = None
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What `evireform.spaces.index` did to a space and found.

    ``worst`` is the least recall of a sampled item.
    """

    report: SpaceReport
    action: Literal["built", "rebuilt", "kept", "none"]
    build_s: float
    sampled: int
    worst: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusStatus:
    """What a corpus holds. ``failures`` lists at most a hundred failed passages with their reasons.

    ``waiting`` passages are in its queue, ``leased`` more are with a worker.
    """

    name: str
    titles: Titles
    extractor: str
    ready: int
    empty: int
    failed: int
    propositions: int
    entities: int
    incidence: int
    spaces: tuple[SpaceRow, ...]
    failures: tuple[Rejected, ...]
    waiting: int = 0
    leased: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityForm:
    """A surface form of an entity, and how many propositions mention it."""

    form: str
    mentions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPassage:
    """A passage that names an entity in ``propositions`` of its ``passage_size`` propositions."""

    passage_key: str
    title: str
    propositions: int
    passage_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityNeighbour:
    """An entity that shares ``shared`` propositions with another one. ``degree`` is its own."""

    canonical: str
    display: str
    degree: int
    shared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityDecision:
    """What an operator decided: mentions of ``canonical`` stand for the entity ``target``.

    It holds in the passage ``passage_key``, or everywhere where that is empty. ``decided_by`` is a database
    role.
    """

    canonical: str
    target: str
    passage_key: str
    decided_by: str
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLogEntry:
    """A decision about entities that was made or taken back.

    Without a passage ``merge`` made it and ``split`` took it back; in a passage it is the other way round.
    """

    log_id: int
    action: Literal["merge", "split"]
    canonical: str
    target: str
    passage_key: str
    decided_by: str
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityDetail:
    """An entity with its neighbourhood.

    ``asked`` is the canonical form that was asked for; ``canonical`` another one where that stands for it.
    ``degree`` counts propositions, 0 where none names it and only decisions know it. ``max_weight`` is the
    largest ``n_je / sqrt(|P_j|)`` of its passages. ``passages`` and ``neighbours`` are the first of
    ``passage_count`` and ``neighbour_count``.
    """

    asked: str
    canonical: str
    display: str
    degree: int
    max_weight: float
    forms: tuple[EntityForm, ...]
    passages: tuple[EntityPassage, ...]
    passage_count: int
    neighbours: tuple[EntityNeighbour, ...]
    neighbour_count: int
    decisions: tuple[EntityDecision, ...]
    log: tuple[EntityLogEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPair:
    """Two entities that are probably one: ``other`` is alike in ``spelling``, or has ``initials`` of the
    first.

    Degrees count propositions; ``canonical`` is the one that is named more, or in full.
    """

    canonical: str
    degree: int
    other: str
    other_degree: int
    reason: Literal["spelling", "initials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityDegree:
    """The propositions that name an entity, before and after a change; 0 where there is no such entity."""

    canonical: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMove:
    """Mentions that stood for the entity ``canonical`` now stand for another, in so many propositions."""

    canonical: str
    propositions: int
    passages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """What a decision about entities changed, or with ``dry_run`` would change."""

    dry_run: bool
    log: tuple[EntityLogEntry, ...]
    moves: tuple[EntityMove, ...]
    degrees: tuple[EntityDegree, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """What `init` found and did. ``migrated_from`` is empty when there were no tables."""

    schema: str
    server_version: str
    extension_version: str
    extension_schema: str
    migrated_from: str
    migrated_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that `doctor` looked at; ``remedy`` says how to mend it and is empty where all is well."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
