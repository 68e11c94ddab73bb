"""Generations: a corpus extracted anew beside the old one, compared with it, and switched into its place.

A **shadow** is a corpus of its own, under a name of its own, that is to replace another: that one serves,
under the name that searches and writers know. `making` builds a shadow from the passages of what serves,
`standing` says what it still lacks, `comparing` asks both the same questions, `switching` swaps the names.
"""

from __future__ import annotations

from evireform.generations.making import estimate, name_of_shadow, start
from evireform.generations.standing import Difference, Standing, pair, standing
from evireform.generations.switching import drop, switch

__all__ = [
    "Difference",
    "Standing",
    "drop",
    "estimate",
    "name_of_shadow",
    "pair",
    "standing",
    "start",
    "switch",
]
