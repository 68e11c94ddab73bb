"""Propositions and entities of a passage: its sentences, made to stand alone, and the names in them.

Works on a parsed spaCy ``Doc``; nothing here loads a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evireform.canonical import canonical
from evireform.records import ExtractedProposition

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

LONGEST_PROPOSITION = 500

_SENTENCE_END = re.compile(r"[.!?…:;。！？][\"'”’)\]»]*$")
_BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_ENTITY_LABELS = frozenset(
    ("PERSON", "ORG", "GPE", "LOC", "FAC", "WORK_OF_ART", "EVENT", "PRODUCT", "LAW", "NORP", "LANGUAGE")
)
_PERSONAL = frozenset(("he", "she", "his", "her"))
_POSSESSIVE = frozenset(("his", "her", "its", "their"))
_PRONOUNS = _PERSONAL | {"it", "its", "they", "their"}
_SUBJECTS = frozenset(("nsubj", "nsubjpass"))
_LEADING = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)
_POSSESSIVE_END = re.compile(r"['’]s?$")
_CONNECTORS = frozenset(("of", "de", "la", "von", "van", "der", "the", "del", "di", "da", "du", "le", "and"))


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a passage: its token range in the ``Doc``, its surface form and spaCy's label, if any."""

    start: int
    end: int
    text: str
    label: str


def topic_name(title: str) -> str:
    """The name that a title gives to what its passage is about: ``Ed Wood (film)`` is about ``Ed Wood``."""
    return _BRACKETS.sub("", title).strip() or title.strip()


def propositions(doc: Doc, title: str) -> list[tuple[str, list[str], tuple[int, int]]]:
    spans = sentence_spans(doc)
    names = names_of(doc)
    topic = topic_name(title) or _first_subject(doc, spans, names)
    full = _full_names(names, topic)
    kinds = _kinds(doc, spans)
    out = []
    focus = topic
    focus_person = None
    for k, (a, b) in enumerate(spans):
        span = doc[a:b]
        text, start, end = _trimmed(span)
        if not any(c.isalnum() for c in text):
            continue
        inside = [n for n in names if a <= n.start < b]
        entities = [full.get(n.text, n.text) for n in inside]
        referent = ""
        target = _leading_reference(span, kinds)
        if target is not None:
            tok, kind = target
            referent = focus if kind == "pronoun" else topic
            if referent:
                s, e = (tok.idx, tok.idx + len(tok.text)) if kind == "pronoun" else (doc[a].idx, tok.idx + len(tok.text))
                name = referent + ("'s" if kind == "pronoun" and tok.lower_ in _POSSESSIVE else "")
                text = (text[: s - start] + name + text[e - start :])
                entities.insert(0, referent)
        else:
            subj = _subject(span)
            if subj is not None:
                for n in inside:
                    if n.start <= subj.i < n.end:
                        focus = full.get(n.text, n.text)
                        break
                else:
                    pass
        if topic and topic.casefold() in span.text.casefold():
            entities.insert(0, topic)
        out.append((text, entities, (start, end), referent))
    return out


def sentence_spans(doc: Doc) -> list[tuple[int, int]]:
    """Token ranges of the sentences, with the parser's false breaks mended."""
    spans: list[tuple[int, int]] = []
    for sentence in doc.sents:
        start, end = sentence.start, sentence.end
        if spans and not _is_break(doc, spans[-1], start):
            previous = spans[-1]
            if doc[end - 1].idx - doc[previous[0]].idx <= LONGEST_PROPOSITION:
                spans[-1] = (previous[0], end)
                continue
        spans.append((start, end))
    return spans


def _is_break(doc: Doc, previous: tuple[int, int], start: int) -> bool:
    before = doc[previous[0] : previous[1]].text.rstrip()
    gap = doc[previous[1] - 1].text_with_ws + doc[start].text
    if "\n" in gap:
        return True
    first = next((c for c in doc[start].text if c.isalnum()), "")
    return bool(_SENTENCE_END.search(before)) and bool(first) and not first.islower()


def _trimmed(span: Span) -> tuple[str, int, int]:
    text = span.text
    lead = len(text) - len(text.lstrip())
    start = span.start_char + lead
    text = text.strip()
    return text, start, start + len(text)


def names_of(doc: Doc) -> list[Name]:
    """Names in order: what the entity recogniser finds, and runs of proper nouns that it misses."""
    taken = [False] * len(doc)
    names: list[Name] = []

    def add(start: int, end: int, label: str) -> None:
        while start < end and (doc[start].lower_ in ("the", "a", "an") or doc[start].is_punct or doc[start].is_space):
            start += 1
        while end > start and (doc[end - 1].lower_ in ("'s", "’s", "'", "’") or doc[end - 1].is_punct or doc[end - 1].is_space):
            end -= 1
        if start < end:
            text = " ".join(doc[start:end].text.split())
            if sum(c.isalpha() for c in text) >= 2 and canonical(text):
                names.append(Name(start, end, text, label))

    for ent in doc.ents:
        if ent.label_ in _ENTITY_LABELS:
            for i in range(ent.start, ent.end):
                taken[i] = True
            add(ent.start, ent.end, ent.label_)
        elif ent.label_ in ("DATE", "TIME", "CARDINAL", "ORDINAL", "QUANTITY", "MONEY", "PERCENT"):
            for i in range(ent.start, ent.end):
                taken[i] = True
    i = 0
    while i < len(doc):
        if doc[i].pos_ == "PROPN" and not taken[i]:
            j = i
            while j < len(doc) and doc[j].pos_ == "PROPN" and not taken[j] and doc[j].sent.start == doc[i].sent.start:
                j += 1
            if doc[i].text[:1].isupper():
                add(i, j, "")
            i = j
        else:
            i += 1
    names.sort(key=lambda n: n.start)
    return names


def _full_names(names: list[Name], topic: str) -> dict[str, str]:
    """Short forms of the people of a passage: ``Burton`` after ``Tim Burton`` is the same person."""
    full: dict[str, str] = {}
    longer = [topic] if len(topic.split()) > 1 else []
    longer += [n.text for n in names if n.label == "PERSON" and len(n.text.split()) > 1]
    for n in names:
        if n.label in ("PERSON", "", "ORG", "GPE") and " " not in n.text:
            for l in longer:
                if l.split()[-1] == n.text:
                    full[n.text] = l
                    break
    return full


def _subject(span: Span) -> Token | None:
    for tok in span:
        if tok.dep_ in _SUBJECTS and tok.head.dep_ in ("ROOT",):
            return tok
    return None


def _first_subject(doc: Doc, spans: list[tuple[int, int]], names: list[Name]) -> str:
    if not spans:
        return ""
    subj = _subject(doc[spans[0][0] : spans[0][1]])
    for n in names:
        if subj is not None and n.start <= subj.i < n.end:
            return n.text
    return ""


def _kinds(doc: Doc, spans: list[tuple[int, int]]) -> set[str]:
    """What the first sentence says that the topic is: nouns that ``The <noun>`` may refer to later."""
    if not spans:
        return set()
    out: set[str] = set()
    for tok in doc[spans[0][0] : spans[0][1]]:
        if tok.dep_ == "attr" and tok.pos_ == "NOUN":
            out.add(tok.lower_)
            out.update(c.lower_ for c in tok.subtree if c.dep_ == "conj" and c.pos_ == "NOUN" and c.head == tok)
    if "film" in out:
        out.add("movie")
    return out


def _leading_reference(span: Span, kinds: set[str]) -> tuple[Token, str] | None:
    first = span[0]
    if first.lower_ == "the" and len(span) > 2 and span[1].lower_ in kinds and span[2].pos_ not in ("NOUN", "PROPN"):
        return span[1], "description"
    if first.lower_ in _POSSESSIVE and first.dep_ == "poss":
        return first, "pronoun"
    subj = _subject(span)
    if subj is not None and subj.lower_ in ("he", "she", "it", "they") and subj.i - span.start <= 12:
        return subj, "pronoun"
    return None
