"""Baselines: other ways to rank passages for the same questions, over the same index.

One file a baseline. Its name on the command line is that of the file (``cross_encoder.py`` is
``cross-encoder``), the first line of its docstring says what it is, and its function ``method`` makes it
from the search settings of the run: an `evireform.evaluation.method.Method`, whose fields are its settings.
This file only lists them, so that a list of names costs no import.
"""

from __future__ import annotations

import pkgutil

NAMES = tuple(sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)))
"""Every baseline."""
