"""Named prompts: what each family of embedding models wants around questions, propositions and passages.

A template holds ``{text}`` once; what stands before and after it is put before and after every text.
A model that was trained with such prompts loses much without them, and vectors made with different
prompts do not belong in one vector space, so the templates are recorded with it.

Sources: the model cards of BAAI/bge-m3, BAAI/bge-*-en-v1.5, intfloat/e5-* and multilingual-e5-*-instruct,
Qwen/Qwen3-Embedding-*, nvidia/NV-Embed-v2 and GritLM/GritLM-7B; the instructions of the last two are those
that the EviReform paper reports (Listing 1). NV-Embed-v2 has there another instruction for questions that
are matched to extracted statements instead of passages ("Given a question, retrieve relevant triplet facts
that match this question."); the propositions here are sentences, so the passage instruction serves for both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evireform.errors import UsageError

_SLOT = "{text}"
_INSTRUCTION = "Given a question, retrieve passages that answer the question."
_WEB_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Text put before and after what is embedded."""

    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}{_SLOT}{self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The three templates of a family of models."""

    question: Template = Template()
    proposition: Template = Template()
    passage: Template = Template()

    def recorded(self) -> Mapping[str, str]:
        """Templates that change the text, as the vector space records them: none for ``plain``."""
        templates = {"question": self.question, "proposition": self.proposition, "passage": self.passage}
        return {kind: str(template) for kind, template in templates.items() if template != Template()}


def _asymmetric(question: Template, text: Template = Template()) -> Preset:
    return Preset(question=question, proposition=text, passage=text)


PRESETS: dict[str, Preset] = {
    "plain": Preset(),
    "bge-m3": Preset(),
    "minilm": Preset(),
    "bge-en": _asymmetric(Template(before="Represent this sentence for searching relevant passages: ")),
    "e5": _asymmetric(Template(before="query: "), Template(before="passage: ")),
    "e5-instruct": _asymmetric(Template(before=f"Instruct: {_WEB_INSTRUCTION}\nQuery: ")),
    "qwen3-embedding": _asymmetric(Template(before=f"Instruct: {_WEB_INSTRUCTION}\nQuery:")),
    "nv-embed-v2": _asymmetric(
        Template(before=f"Instruct: {_INSTRUCTION}\nQuery: ", after="</s>"), Template(after="</s>")
    ),
    "gritlm-7b": _asymmetric(
        Template(before=f"<|user|>\n{_INSTRUCTION}\n<|embed|>\n"), Template(before="<|embed|>\n")
    ),
}
"""Name to templates. ``</s>`` is the end-of-sequence token of the tokenizer of NV-Embed-v2."""

_GUESSES: tuple[tuple[str, str], ...] = (
    (r"bge-m3", "bge-m3"),
    (r"bge-(small|base|large)-en", "bge-en"),
    (r"qwen3-embedding", "qwen3-embedding"),
    (r"nv-embed", "nv-embed-v2"),
    (r"gritlm", "gritlm-7b"),
    (r"\be5\b.*instruct", "e5-instruct"),
    (r"\be5\b", "e5"),
    (r"minilm", "minilm"),
)


def preset_for(model: str, *, name: str = "") -> Preset:
    """The preset of this name, or without a name the one that the model's name suggests, else ``plain``.

    Args:
        model: A hub name or folder, of which the last part is read.
        name: A key of `PRESETS`; empty guesses.

    Raises:
        UsageError: no preset has this name.

    >>> preset_for("intfloat/e5-large-v2").recorded()["question"]
    'query: {text}'
    >>> preset_for("BAAI/bge-m3").recorded()
    {}
    """
    if name:
        if name not in PRESETS:
            raise UsageError(f"no embedding preset is called {name!r}; there are {', '.join(PRESETS)}")
        return PRESETS[name]
    last = re.split(r"[/\\]", model.rstrip("/\\").casefold().replace("_", "-"))[-1]
    return next(
        (PRESETS[preset] for pattern, preset in _GUESSES if re.search(pattern, last)), PRESETS["plain"]
    )
