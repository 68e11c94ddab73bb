"""What a caller gave to be read: passages from any iterable, which may break in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from evireform.errors import UsageError
from evireform.given import shown
from evireform.records import Passage, Rejected

_WRITE = "write Passage(key=…, text=…)"


@contextmanager
def readable(passages: Iterable[Passage | Rejected]) -> Iterator[Iterator[Passage | Rejected]]:
    """The passages up to the end, or to where their iterable breaks: that is raised when the block ends.

    So everything that was read before is done first.

    Raises:
        UsageError: it is no iterable, or holds something that is no passage.
    """
    if isinstance(passages, str | bytes) or not isinstance(passages, Iterable):
        raise UsageError(f"passages must be a list or another iterable, not {shown(passages)}: {_WRITE}")
    failures: list[Exception] = []

    def read() -> Iterator[Passage | Rejected]:
        try:
            for item in passages:
                if not isinstance(item, Passage | Rejected):
                    raise UsageError(f"passages must be of evireform.Passage, unlike {shown(item)}: {_WRITE}")
                yield item
        except Exception as failure:
            failures.append(failure)

    yield read()
    for failure in failures:
        raise failure
