"""evireform: multi-hop passage retrieval in PostgreSQL.

>>> import evireform
>>> with evireform.connect() as db:  # doctest: +SKIP
...     corpus = db.corpus("wiki", create=True)
...     corpus.ingest([evireform.Passage(key="1", title="Oslo", text="Oslo is the capital of Norway.")])
...     corpus.search("What is the capital of Norway?", k=5).passages

A name is loaded when it is first used, so that importing the package loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from evireform.version import __version__

if TYPE_CHECKING:
    from evireform.database import Corpus, Database, connect
    from evireform.errors import EvireformError
    from evireform.records import Answer, Extraction, Passage, Question, Ranking
    from evireform.settings import (
        AnswerSettings,
        EmbeddingSettings,
        LanguageSettings,
        SearchSettings,
        Settings,
        WorkerSettings,
    )

__all__ = [
    "Answer",
    "AnswerSettings",
    "Corpus",
    "Database",
    "EmbeddingSettings",
    "EvireformError",
    "Extraction",
    "LanguageSettings",
    "Passage",
    "Question",
    "Ranking",
    "SearchSettings",
    "Settings",
    "WorkerSettings",
    "__version__",
    "connect",
]

_HOMES = {
    "database": ("Corpus", "Database", "connect"),
    "errors": ("EvireformError",),
    "records": ("Answer", "Extraction", "Passage", "Question", "Ranking"),
    "settings": (
        "AnswerSettings",
        "EmbeddingSettings",
        "LanguageSettings",
        "SearchSettings",
        "Settings",
        "WorkerSettings",
    ),
}

if not TYPE_CHECKING:  # type checkers see the imports above, and report names that do not exist

    def __getattr__(name: str) -> Any:
        for module, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"evireform.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
