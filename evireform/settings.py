"""Settings: frozen, checked when built, passed in. Nothing here reads the environment (the CLI does)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from evireform.budget import parse_budget
from evireform.errors import UsageError
from evireform.filters import Filter, conditions
from evireform.given import shown
from evireform.records import Titles
from evireform.wellformed import well_formed

EmbeddingBackend = Literal["onnx", "sentence-transformers", "openai"]
LanguageBackend = Literal["rules", "openai"]
Unsupported = Literal["keep", "drop", "retry"]
ReformulateMode = Literal["off", "residual", "repeat-question"]

DEFAULT_SCHEMA = "evireform"

MAX_ROUNDS = 3


def _check_range(name: str, value: float, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise UsageError(f"{name} must lie between {low:g} and {high:g}, not {value!r}")


def _check_whole(name: str, value: int, low: int, high: int) -> None:
    if type(value) is not int:
        raise UsageError(f"{name} must be a whole number, not {value!r}")
    _check_range(name, value, low, high)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _is_name(value: object, most: int) -> bool:
    """Whether it is a text of so many bytes that a database can hold."""
    if not isinstance(value, str) or "\0" in value or well_formed(value) != value:
        return False
    return len(value.encode()) <= most


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """Which embedding model turns texts into vectors.

    Attributes:
        backend: ``onnx`` (a folder with an ONNX file and its tokenizer), ``sentence-transformers`` or
            ``openai`` (any server with that protocol).
        model: Name or folder of the model; empty takes the backend's default.
        preset: Named prompts (see `evireform.embedding.prompts`); empty is guessed from the model's name.
        base_url: Server of the ``openai`` backend; empty leaves it to the library.
        dimensions: Asked of a server that can shorten its vectors; 0 takes what comes.
        threads: Threads that encode at once.
        timeout_s: Longest wait for a server.
    """

    backend: EmbeddingBackend = "onnx"
    model: str = ""
    preset: str = ""
    base_url: str = ""
    dimensions: int = 0
    threads: int = 2
    timeout_s: float = 60.0

    def __post_init__(self) -> None:
        _check_choice("embedding backend", self.backend, ("onnx", "sentence-transformers", "openai"))
        _check_whole("dimensions", self.dimensions, 0, 16_000)
        if self.dimensions and self.backend != "openai":
            raise UsageError("`embedding.dimensions` asks a server for them; a local model has its own")
        _check_whole("threads", self.threads, 1, 256)
        _check_range("timeout_s", self.timeout_s, 0.001, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageSettings:
    """Which language backend extracts, selects and reformulates.

    Attributes:
        backend: ``rules`` (no model, offline) or ``openai`` (any server with that protocol).
        model: Model name for the server.
        base_url: Server; empty leaves it to the library (``OPENAI_BASE_URL``).
        timeout_s: Longest wait for one call.
        attempts: Requests per call before a server that is busy, down or silent counts as failed.
        concurrency: Calls in flight at once.
        tokens_per_minute: Most tokens in any minute, question and answer; 0 is without bound.
        window_tokens: Context window; longer observed evidence is cut from the end, and said so.
        unsupported: What happens to an extracted proposition with names or numbers that neither its passage
            nor the title has: ``keep`` it, ``drop`` it, or ``retry``: ask once more and drop what stays so.
            The summary counts them.
        cache: Whether an identical call is answered from the ledger.
        cache_days: Age from which an answer in the ledger has expired; 0 is never.
        budget: The most that one run (one `evireform.database.Database`) may spend: tokens (``200k``,
            ``2M tokens``) or money (``1.50``); empty is without end.
        prices: A price file of your own, looked at before the one of the package; empty: there is none.
    """

    backend: LanguageBackend = "rules"
    model: str = ""
    base_url: str = ""
    timeout_s: float = 120.0
    attempts: int = 4
    concurrency: int = 8
    tokens_per_minute: int = 0
    window_tokens: int = 32_000
    unsupported: Unsupported = "keep"
    cache: bool = True
    cache_days: int = 0
    budget: str = ""
    prices: str = ""

    def __post_init__(self) -> None:
        _check_choice("language backend", self.backend, ("rules", "openai"))
        if self.backend == "openai" and not self.model:
            raise UsageError("the openai language backend needs a model name: set `language.model`")
        _check_range("timeout_s", self.timeout_s, 0.001, 1_000_000)
        _check_whole("attempts", self.attempts, 1, 20)
        _check_whole("concurrency", self.concurrency, 1, 256)
        _check_whole("tokens_per_minute", self.tokens_per_minute, 0, 2**31)
        _check_whole("window_tokens", self.window_tokens, 512, 10_000_000)
        _check_choice("unsupported", self.unsupported, ("keep", "drop", "retry"))
        _check_whole("cache_days", self.cache_days, 0, 36_500)
        if self.budget:
            parse_budget(self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """One configuration of the retrieval pipeline (SPEC section 2); the variants differ only here.

    Attributes:
        k: Passages returned.
        candidates: Propositions that the question's search brings.
        selected: Most propositions that the selector may choose.
        residual_queries: Most residual queries (L).
        hits_per_query: Propositions per residual query (k_r).
        alpha: Share of the direct signal in the propagation step, in [0, 1].
        beta: Share of the question's signal in the mixture, in [0, 1].
        reformulate: ``residual`` asks the reformulator; ``repeat-question`` makes the same number of
            searches with the question; ``off`` makes none.
        propagate: Whether the one step through shared entities is taken (off: ``z = s``).
        exact: Scan every vector instead of using the ANN index.
        ef_search: Breadth of the HNSW search; 0 takes the default of `evireform.store`.
        hub_degree: Entities with more propositions are read by bound only (SPEC section 3); 0 reads all.
        log: Whether the search is written to ``question_log``.
        rounds: Most rounds of residual queries; from the second on a controller reads all evidence so far
            and says what is still missing.
        set_weight: Weight of a judge that chooses the final set, in [0, 1]; 0 asks none.
        set_pool: Passages of the ranking that the judge chooses from.
        where: Conditions on the metadata of passages; a search looks at no passage that does not meet all of
            them. Given with a search (`Corpus.search`), not by the configuration.
    """

    k: int = 5
    candidates: int = 100
    selected: int = 12
    residual_queries: int = 3
    hits_per_query: int = 2
    alpha: float = 0.5
    beta: float = 0.5
    reformulate: ReformulateMode = "residual"
    propagate: bool = True
    exact: bool = False
    ef_search: int = 0
    hub_degree: int = 500
    log: bool = True
    rounds: int = 1
    set_weight: float = 0.0
    set_pool: int = 20
    where: Filter = ()

    def __post_init__(self) -> None:
        _check_whole("k", self.k, 1, 10_000)
        _check_whole("candidates", self.candidates, 1, 10_000)
        _check_whole("selected", self.selected, 1, 1_000)
        _check_whole("residual_queries", self.residual_queries, 0, 100)
        _check_whole("hits_per_query", self.hits_per_query, 1, 1_000)
        _check_range("alpha", self.alpha, 0.0, 1.0)
        _check_range("beta", self.beta, 0.0, 1.0)
        _check_whole("ef_search", self.ef_search, 0, 1_000)
        _check_whole("hub_degree", self.hub_degree, 0, 2**31)
        _check_whole("rounds", self.rounds, 1, MAX_ROUNDS)
        _check_range("set_weight", self.set_weight, 0.0, 1.0)
        _check_whole("set_pool", self.set_pool, 2, 100)
        _check_choice("reformulate", self.reformulate, ("off", "residual", "repeat-question"))
        if conditions(self.where) != self.where:
            raise UsageError("where must be a tuple of conditions")

    @property
    def depth(self) -> int:
        """Passages that are ranked before a final set is chosen and the ranking is cut to ``k``."""
        return max(self.k, self.set_pool) if self.set_weight else self.k

    def variant(self, name: str) -> SearchSettings:
        """These settings with one variant's changes (SPEC section 4).

        Raises:
            UsageError: no variant has this name.
        """
        if name not in VARIANTS:
            raise UsageError(f"no variant is called {name!r}; there are {', '.join(VARIANTS)}")
        return replace(self, **VARIANTS[name])


VARIANTS: dict[str, dict[str, Any]] = {
    "base": {"reformulate": "off", "propagate": False},
    "propagation": {"reformulate": "off"},
    "reformulation": {"propagate": False},
    "full": {},
    "residual-only": {"beta": 0.0},
    "repeat-question": {"reformulate": "repeat-question"},
    "rounds": {"rounds": MAX_ROUNDS},
}
"""Name of a variant to what it changes: those that are settings of the one pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How a question is answered in words.

    Attributes:
        context_tokens: Budget of the passages that the reader sees: whole ones in rank order, until one does
            not fit.
        strict: Answer ``unknown`` where no cited passage contains the answer's names and numbers.
        direct: Ask the model without any passage, for comparison.
    """

    context_tokens: int = 3_000
    strict: bool = False
    direct: bool = False

    def __post_init__(self) -> None:
        _check_whole("context_tokens", self.context_tokens, 1, 10_000_000)
        if self.strict and self.direct:
            raise UsageError("an answer without passages cites none: choose strict or direct, not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusSettings:
    """What a corpus fixes when it is created, because its rows depend on it.

    Attributes:
        titles: Whether titles join the text for extraction, observation and embedding.
    """

    titles: Titles = "on"

    def __post_init__(self) -> None:
        _check_choice("titles", self.titles, ("off", "on"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker drains the queue.

    Attributes:
        batch: Passages that are taken on lease and written together.
        lease_s: How long a passage stays with a worker that is not heard of any more; one that is alive
            extends its leases long before.
        attempts: How often a passage is tried before it has failed.
        poll_s: Longest wait between two looks at an empty queue.
    """

    batch: int = 32
    lease_s: float = 60.0
    attempts: int = 3
    poll_s: float = 5.0

    def __post_init__(self) -> None:
        _check_whole("batch", self.batch, 1, 1_000)
        _check_range("lease_s", self.lease_s, 0.1, 86_400)
        _check_whole("attempts", self.attempts, 1, 1_000)
        _check_range("poll_s", self.poll_s, 0.01, 3_600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that `evireform.connect` can be told.

    Attributes:
        embedding: Which embedding model.
        language: Which language backend.
        search: How searches go.
        answer: How questions are answered.
        schema: Schema of the tables.
        tenant: Name of the tenant whose corpora are meant; empty is the only one that the role belongs to.
        role: Role whose rights every transaction takes; empty is the login role.
        statement_timeout_s: Longest that a statement may run; 0 is without end.
        min_recall: Recall of an index of vectors, as it was measured last, below which ``doctor`` warns.
        pool_size: Connections kept open.
        keep_log: Whether a deletion leaves logged searches that had the passage in hand whole, and what
            models answered in searches, although both may quote it.
    """

    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    language: LanguageSettings = field(default_factory=LanguageSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    answer: AnswerSettings = field(default_factory=AnswerSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    schema: str = DEFAULT_SCHEMA
    tenant: str = ""
    role: str = ""
    statement_timeout_s: float = 60.0
    min_recall: float = 0.95
    pool_size: int = 5
    keep_log: bool = False

    def __post_init__(self) -> None:
        _check_range("statement_timeout_s", self.statement_timeout_s, 0, 2_000_000)
        _check_range("min_recall", self.min_recall, 0.0, 1.0)
        if 0 < self.statement_timeout_s < 0.001:
            raise UsageError("statement_timeout_s must be 0, which is without end, or at least 0.001")
        if not self.schema or not _is_name(self.schema, 63):
            raise UsageError(f"schema must be a name of 1 to 63 bytes, not {shown(self.schema)}")
        if not _is_name(self.tenant, 800) or len(self.tenant) > 200:
            raise UsageError(f"tenant must be a name of up to 200 characters, not {shown(self.tenant)}")
        if not _is_name(self.role, 63) or self.role == "none":
            raise UsageError(f"role must be the name of a database role, not {shown(self.role)}")
        _check_whole("pool_size", self.pool_size, 1, 1_000)
