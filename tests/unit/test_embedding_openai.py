"""The encoder over an OpenAI-compatible endpoint, against a scripted server over real HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from evireform.embedding.openai import OpenAIEncoder
from evireform.errors import ModelCallFailed, ModelUnavailable
from evireform.settings import EmbeddingSettings
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

Build = Callable[..., OpenAIEncoder]

TEXTS = ["the river Nile", "the city of London", "a river in London"]


@pytest.fixture
def server() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI(dimensions=64) as running:
        yield running


@pytest.fixture
def build(server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def encoder(**settings: Any) -> OpenAIEncoder:
        settings = {"model": "embedder", "base_url": server.base_url} | settings
        return OpenAIEncoder(EmbeddingSettings(backend="openai", **settings))

    return encoder


def items(*vectors: Any) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": row, "embedding": vector} for row, vector in enumerate(vectors)]


def test_vectors_are_the_servers_normalised(server: ScriptedOpenAI, build: Build) -> None:
    server.on("embed", items([3.0, 4.0], [0, -2], [1e-30, 0.0]))
    vectors = build().encode_propositions(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, [[0.6, 0.8], [0.0, -1.0], [1.0, 0.0]], atol=1e-7)


def test_texts_are_sent_in_batches_in_order(server: ScriptedOpenAI, build: Build) -> None:
    texts = [f"text number {number}" for number in range(300)]
    vectors = build().encode_passages(texts)
    assert [len(request.body["input"]) for request in server.requests] == [128, 128, 44]
    np.testing.assert_allclose(vectors, server.encoder.encode_passages(texts), atol=1e-6)


def test_long_texts_make_smaller_batches(server: ScriptedOpenAI, build: Build) -> None:
    build().encode_passages(["x" * 20_000] * 30)
    assert [len(request.body["input"]) for request in server.requests] == [20, 10]


def test_vectors_are_put_in_the_order_of_their_indices(server: ScriptedOpenAI, build: Build) -> None:
    server.on("embed", list(reversed(items([1.0, 0.0], [0.0, 1.0]))))
    np.testing.assert_array_equal(build().encode_propositions(TEXTS[:2]), [[1.0, 0.0], [0.0, 1.0]])


def test_the_dimensions_are_discovered_once(server: ScriptedOpenAI, build: Build) -> None:
    encoder = build()
    assert server.requests == []
    assert encoder.dimensions == 64
    assert encoder.dimensions == 64
    assert len(server.requests) == 1


def test_the_dimensions_are_known_after_encoding(server: ScriptedOpenAI, build: Build) -> None:
    encoder = build()
    encoder.encode_propositions(TEXTS)
    assert encoder.dimensions == 64
    assert len(server.requests) == 1


def test_dimensions_that_are_asked_for_are_sent(server: ScriptedOpenAI, build: Build) -> None:
    server.on("embed", items([1.0, 0.0]))
    encoder = build(dimensions=2)
    assert encoder.dimensions == 2
    encoder.encode_questions(["Who?"])
    assert server.requests[0].body["dimensions"] == 2


def test_no_texts_give_no_rows(build: Build) -> None:
    assert build().encode_propositions([]).shape == (0, 64)


def test_prompts_are_put_around_the_texts(server: ScriptedOpenAI, build: Build) -> None:
    encoder = build(model="intfloat/e5-base-v2")
    encoder.encode_questions(["Who?"])
    encoder.encode_passages(["A text."])
    assert [request.body["input"] for request in server.requests] == [["query: Who?"], ["passage: A text."]]
    assert encoder.prompts["question"] == "query: {text}"


def test_t11_every_text_is_sent_as_text(server: ScriptedOpenAI, build: Build) -> None:
    vectors = build().encode_propositions(["", "a\0b", "\ud800", "東京"])
    assert server.requests[0].body["input"] == [" ", "a\0b", "\ufffd", "東京"]
    assert vectors.shape == (4, 64)


def test_t11_a_text_that_is_too_long_is_cut_and_reported(server: ScriptedOpenAI, build: Build) -> None:
    encoder = build()
    texts = ["short", "x" * 5_000_000]
    encoder.encode_passages(texts)
    assert len(server.requests[0].body["input"][1]) == 24_000
    assert encoder.truncated(texts) == [1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (items([1.0, 0.0]), "2 texts were sent and 1 vectors came back"),
        (items([1.0, 0.0], [0.0, 1.0], [1.0, 1.0]), "2 texts were sent and 3 vectors came back"),
        (None, "2 texts were sent and no vectors came back"),
        ([items([1.0, 0.0])[0]] * 2, "the indices of its vectors are not those of the texts"),
        (items([1.0, 0.0], [1.0, 0.0, 0.0]), "vector 1 has 3 dimensions instead of 2"),
        (items([1.0, 0.0], [float("nan"), 0.0]), "vector 1 is not a list of finite numbers"),
        (items([1.0, 0.0], [float("inf"), 0.0]), "vector 1 is not a list of finite numbers"),
        (items([1.0, 0.0], [None, 0.0]), "vector 1 is not a list of finite numbers"),
        (items([1.0, 0.0], [10**400, 0]), "int too large"),
        (items([1.0, 0.0], "AAAA"), "vector 1 is not a list of finite numbers"),
        (items([1.0, 0.0], None), "vector 1 is not a list of finite numbers"),
        (items([1.0, 0.0], [0.0, 0.0]), "a vector is zero everywhere"),
        (["text", "text"], "the indices of its vectors are not those of the texts"),
    ],
)
def test_an_unusable_answer_is_a_failed_call(
    server: ScriptedOpenAI, build: Build, data: Any, reason: str
) -> None:
    server.on("embed", Reply(content=data))
    with pytest.raises(ModelCallFailed, match=reason):
        build().encode_propositions(TEXTS[:2])


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"7", b"<html>", b"{", b'{"data": {"0": 1}}'])
def test_an_answer_outside_the_protocol_is_a_failed_call(
    server: ScriptedOpenAI, build: Build, body: bytes
) -> None:
    server.on("embed", Reply(raw=body))
    with pytest.raises(ModelCallFailed, match="no usable answer"):
        build().encode_propositions(TEXTS[:2])


def test_a_model_that_changes_its_dimensions_is_a_failed_call(server: ScriptedOpenAI, build: Build) -> None:
    server.on("embed", items([1.0, 0.0]), items([1.0, 0.0, 0.0]))
    encoder = build()
    encoder.encode_propositions(TEXTS[:1])
    with pytest.raises(ModelCallFailed, match="3 dimensions instead of 2"):
        encoder.encode_propositions(TEXTS[:1])


def test_other_dimensions_than_asked_for_are_a_failed_call(server: ScriptedOpenAI, build: Build) -> None:
    server.on("embed", items([1.0, 0.0, 0.0]))
    with pytest.raises(ModelCallFailed, match="3 dimensions instead of 2"):
        build(dimensions=2).encode_propositions(TEXTS[:1])


def test_a_passing_failure_is_repeated(server: ScriptedOpenAI, build: Build) -> None:
    def answer(request: Request) -> Any:
        busy = Reply(status=429, content="busy", headers={"Retry-After-Ms": "1"})
        return busy if len(server.requests) < 3 else server.embeddings(request)

    server.on("embed", answer)
    assert build().encode_propositions(TEXTS).shape == (3, 64)
    assert len(server.requests) == 3


def test_a_refusal_names_the_model_and_the_reason(server: ScriptedOpenAI, build: Build) -> None:
    server.on("embed", Reply(status=404, content="no such model"))
    with pytest.raises(ModelCallFailed, match=r"'embedder'.*no such model"):
        build().encode_propositions(TEXTS)


def test_without_a_key_the_backend_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        OpenAIEncoder(EmbeddingSettings(backend="openai"))


def test_openai_base_url_counts(
    server: ScriptedOpenAI, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    assert build(base_url="").dimensions == 64
