"""Vector spaces of a corpus: embed it again beside what serves, switch, drop, index, measure.

`filling` makes the vectors that a space lacks, `switching` builds spaces of another model and makes them the
active ones, `indexing` builds indexes and measures what they find.
"""

from __future__ import annotations

from evireform.spaces.filling import Progress, fill
from evireform.spaces.indexing import index, reports
from evireform.spaces.switching import build, drop, switch

__all__ = ["Progress", "build", "drop", "fill", "index", "reports", "switch"]
