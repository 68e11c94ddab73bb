"""One question to a chat model over the OpenAI protocol: the format it can give, retries, and the ledger."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from evireform.errors import ModelUnavailable
from evireform.language.prompts import Prompt
from evireform.records import ModelCall
from evireform.settings import LanguageSettings

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

Message = Mapping[str, str]

MAX_RETRY_AFTER_S = 120.0
"""Longest wait that a server may ask for; a call that should wait longer fails at once."""

_TRANSIENT_STATUSES = frozenset({408, 409, 429})
_BACK_OFF = wait_exponential(multiplier=0.5, max=30.0) + wait_random(0.0, 0.5)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server understands: how it is asked for JSON, and whether it takes a temperature."""

    json_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    temperature: bool = True

    def simpler(self, complaint: str) -> Dialect | None:
        """What to try after a 400 with this text; ``None`` when nothing simpler is left."""
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        if self.json_format == "json_schema":
            return replace(self, json_format="json_object")
        if self.json_format == "json_object":
            return replace(self, json_format="text")
        return None


_understood: dict[tuple[str, str], Dialect] = {}
"""Server and model to the dialect that worked last, for the life of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's message, and the record of the call. ``call.error`` says why the message is empty."""

    content: str
    call: ModelCall


class Chat:
    """A model on a server. `ask` may be called from many threads.

    Raises:
        ModelUnavailable: there is no API key.
    """

    def __init__(self, settings: LanguageSettings) -> None:
        from openai import OpenAI, OpenAIError

        self._model = settings.model
        self._attempts = settings.attempts
        try:
            self._client = OpenAI(
                base_url=settings.base_url or None, timeout=settings.timeout_s, max_retries=0
            )
        except OpenAIError as error:
            raise ModelUnavailable(
                "the openai language backend has no API key: set OPENAI_API_KEY "
                "(to any value for a server that asks for none), or use the backend 'rules'"
            ) from error

    def ask(self, prompt: Prompt, messages: Sequence[Message], schema: Mapping[str, Any]) -> ChatReply:
        """One answer at temperature 0. Never raises for what the server or the model does.

        A 400 may be about the JSON format: plainer ones are tried then, and what worked is remembered for
        the server. 408, 409, 429, 5xx, timeouts and lost connections are repeated after exponential
        back-off with jitter, or after what the server asks for in ``Retry-After``.

        Args:
            prompt: The prompt that the first message holds, for the ledger.
            messages: The conversation.
            schema: JSON schema of the answer.
        """
        from openai import OpenAIError

        started = time.perf_counter()
        attempts = 0

        def send(dialect: Dialect) -> ChatCompletion:
            nonlocal attempts
            attempts += 1
            return self._send(messages, dialect, prompt.purpose, schema)

        content = error = ""
        usage = None
        try:
            response = self._answered(send)
        except (OpenAIError, ValueError) as failure:  # ValueError: a body that is no JSON
            error = f"{type(failure).__name__}: {failure}"
        else:
            content, error = _message(response)
            usage = getattr(response, "usage", None)
        call = ModelCall(
            purpose=prompt.purpose,
            model=self._model,
            prompt_version=prompt.version,
            prompt_hash=_hash(messages),
            tokens_in=_count(getattr(usage, "prompt_tokens", None)),
            tokens_out=_count(getattr(usage, "completion_tokens", None)),
            latency_s=time.perf_counter() - started,
            attempts=attempts,
            error=error,
        )
        return ChatReply(content=content, call=call)

    def _answered(self, send: Callable[[Dialect], ChatCompletion]) -> ChatCompletion:
        """The server's answer in the richest dialect that it takes."""
        from openai import BadRequestError, UnprocessableEntityError

        server = (str(self._client.base_url), self._model)
        dialect = _understood.get(server, Dialect())
        first: Exception | None = None
        while True:
            try:
                response = self._retrying()(send, dialect)
            except (BadRequestError, UnprocessableEntityError) as error:
                first = first or error
                plainer = dialect.simpler(str(error))
                if plainer is None:
                    raise first from None
                dialect = plainer
            else:
                _understood[server] = dialect
                return response

    def _retrying(self) -> Retrying:
        return Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=_wait_s,
            retry=retry_if_exception(_is_transient),
            reraise=True,
        )

    def _send(
        self, messages: Sequence[Message], dialect: Dialect, name: str, schema: Mapping[str, Any]
    ) -> ChatCompletion:
        request: dict[str, Any] = {"model": self._model, "messages": list(messages)}
        if dialect.temperature:
            request["temperature"] = 0
        if dialect.json_format == "json_object":
            request["response_format"] = {"type": "json_object"}
        elif dialect.json_format == "json_schema":
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            }
        response: ChatCompletion = self._client.chat.completions.create(**request)
        return response


def _message(response: ChatCompletion) -> tuple[str, str]:
    """The text of a response, or why it has none. The library does not check a server's answer."""
    choices: Any = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if isinstance(choices, list) and choices else None
    if message is None:
        return "", "the server's answer holds no message"
    if refusal := getattr(message, "refusal", None):
        return "", f"the model refused: {refusal}"
    content = getattr(message, "content", None)
    if not isinstance(content, str) or not content.strip():
        return "", f"the message is empty (finish reason: {getattr(choices[0], 'finish_reason', None)})"
    return content, ""


def _count(tokens: object) -> int | None:
    return tokens if type(tokens) is int and tokens >= 0 else None


def _hash(messages: Sequence[Message]) -> str:
    return hashlib.sha256(json.dumps(list(map(dict, messages)), sort_keys=True).encode()).hexdigest()


def _is_transient(error: BaseException) -> bool:
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        passing = error.status_code in _TRANSIENT_STATUSES or error.status_code >= 500
        exhausted = error.code == "insufficient_quota"
        return passing and not exhausted and (_retry_after_s(error) or 0.0) <= MAX_RETRY_AFTER_S
    return isinstance(error, APIConnectionError | json.JSONDecodeError)


def _wait_s(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = _retry_after_s(error)
    return _BACK_OFF(state) if asked is None else asked


def _retry_after_s(error: BaseException | None) -> float | None:
    """Seconds that the server asks to wait: ``Retry-After-Ms``, or ``Retry-After`` as seconds or a date."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) / per_second)
        except ValueError:
            continue
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
