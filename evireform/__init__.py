"""evireform: multi-hop passage retrieval in PostgreSQL.

>>> import evireform
>>> with evireform.connect() as db:  # doctest: +SKIP
...     corpus = db.corpus("wiki", create=True)
...     corpus.ingest([evireform.Passage(key="1", title="Oslo", text="Oslo is the capital of Norway.")])
...     corpus.search("What is the capital of Norway?", k=5).passages
"""

from evireform.database import Corpus, Database, connect
from evireform.errors import EvireformError
from evireform.records import Extraction, Passage, Question, Ranking
from evireform.settings import (
    EmbeddingSettings,
    LanguageSettings,
    SearchSettings,
    Settings,
)
from evireform.version import __version__

__all__ = [
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
    "__version__",
    "connect",
]
