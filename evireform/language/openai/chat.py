"""One question to a chat model over the OpenAI protocol: what the server understands, retries and pace."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from httpx2 import (
    ConnectError,
    ConnectTimeout,
    HTTPError,
    ProxyError,
    ReadTimeout,
    Response,
    SyncByteStream,
    UnsupportedProtocol,
)
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from evireform.errors import ModelUnavailable, UsageError
from evireform.language.openai.breaker import Breaker, HeldBack
from evireform.language.openai.pace import Pace
from evireform.language.prompts import Prompt
from evireform.records import ModelCall
from evireform.settings import LanguageSettings
from evireform.wellformed import well_formed

Message = Mapping[str, str]

MAX_RETRY_AFTER_S = 120.0
"""Longest wait that a server may ask for; a call that should wait longer fails at once."""

SHOWN_CHARACTERS = 20_000
"""Characters of a message that are shown while it arrives."""

MAX_BODY_BYTES = 32_000_000
"""Longest body that is read of a server's answer."""

_ABOUT_FORMAT = re.compile(r"response_format|json_schema|json_object")
_ABOUT_STREAMS = re.compile(r"\bstream")
_ABSENT = "the server's answer holds no message"
_ERROR_CHARACTERS = 500
_NO_CONNECTION = (ConnectError, ConnectTimeout, ProxyError, UnsupportedProtocol)
_REFUSALS = {
    401: "refuses the API key (OPENAI_API_KEY, language.base_url)",
    403: "forbids the call (OPENAI_API_KEY, language.base_url)",
    404: "has no such address or model (language.base_url, language.model)",
}
_MAX_COUNT = 2**31 - 1
_TRANSIENT_STATUSES = frozenset({408, 409, 429})
_BACK_OFF = wait_exponential(multiplier=0.5, max=30.0) + wait_random(0.0, 0.5)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server understands: how it is asked for JSON, whether it takes a temperature, and whether it
    streams with its token counts."""

    json_format: Literal["json_schema", "json_object", "text"] = "json_schema"
    temperature: bool = True
    streaming: bool = True

    def parameters(self) -> dict[str, Any]:
        """What is sent beside the messages, for the ledger."""
        temperature = {"temperature": 0} if self.temperature else {}
        return temperature | {"response_format": self.json_format}

    def simpler(self, complaint: str) -> Dialect | None:
        """What to try after a 400 with this text; ``None`` when nothing simpler is left.

        A server may quote the whole request, so one that speaks of the format means the format.
        """
        about_format = _ABOUT_FORMAT.search(complaint) is not None
        if self.temperature and "temperature" in complaint and not about_format:
            return replace(self, temperature=False)
        if self.streaming and _ABOUT_STREAMS.search(complaint) and not about_format:
            return replace(self, streaming=False)
        if self.json_format == "json_schema":
            return replace(self, json_format="json_object")
        if self.json_format == "json_object":
            return replace(self, json_format="text")
        return None


_understood: dict[tuple[str, str], Dialect] = {}
"""Server and model to the dialect that worked last, for the life of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """A model's message, and the record of the call. ``call.error`` says why the message is empty.

    ``truncated`` says that the message, also an empty one, ends where the server allowed no more tokens;
    ``absent`` that the server answered without a message, so that it is worth asking again; ``in_vain`` that
    the server takes no call at present, whatever it holds.
    """

    content: str
    call: ModelCall
    truncated: bool = False
    absent: bool = False
    in_vain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """What matters of a server's answer. The openai library does not check it, so anything may be None."""

    content: object = None
    refusal: object = None
    finish_reason: object = None
    usage: object = None


class Chat:
    """A model on a server. `ask` may be called from many threads.

    Raises:
        ModelUnavailable: there is no API key.
    """

    def __init__(self, settings: LanguageSettings) -> None:
        from openai import DefaultHttpxClient, OpenAI, OpenAIError

        self.model = settings.model
        self._timeout_s = settings.timeout_s
        self._attempts = settings.attempts
        self._pace = Pace(settings.concurrency, settings.tokens_per_minute)
        self._breaker = Breaker()
        try:
            self._client = OpenAI(
                base_url=settings.base_url or None,
                timeout=settings.timeout_s,
                max_retries=0,
                http_client=DefaultHttpxClient(
                    timeout=settings.timeout_s, event_hooks={"response": [self._bound]}
                ),
            )
        except OpenAIError as error:
            raise ModelUnavailable(
                "the openai language backend has no API key: set OPENAI_API_KEY "
                "(to any value for a server that asks for none), or use the backend 'rules'"
            ) from error
        except Exception as error:  # httpx and its proxies raise their own kinds, which may quote secrets
            raise UsageError(
                "`language.base_url` (or OPENAI_BASE_URL), or a proxy of the environment, cannot be used: "
                f"{type(error).__name__}"
            ) from error
        self._server = (str(self._client.base_url), self.model)

    @property
    def server(self) -> str:
        """Base URL, without the name and the password that it may hold."""
        return str(self._client.base_url.copy_with(userinfo=b""))

    def ask(
        self,
        prompt: Prompt,
        messages: Sequence[Message],
        schema: Mapping[str, Any],
        *,
        expected_tokens: int = 0,
        on_text: Callable[[str], None] | None = None,
    ) -> ChatReply:
        """One answer at temperature 0. Never raises for what the server or the model does.

        A 400 may be about the JSON format: plainer ones are tried then, and what worked is remembered for
        the server. So is a schema that the server took and did not keep to. 408, 409, 429, 5xx, timeouts and
        lost connections are repeated after exponential back-off with jitter, or after what the server asks
        for in ``Retry-After``, which every other call to it waits for too. While the server is known to take
        no call (see `Breaker`), none is sent: the reply says why, after no attempt.

        Args:
            prompt: The prompt that the first message holds, for the ledger.
            messages: The conversation.
            schema: JSON schema of the answer.
            expected_tokens: About what the call will take, question and answer, for the pace.
            on_text: Called with the message so far as it arrives, and with an empty text whenever an
                attempt begins; with the whole message at once where the server cannot stream and count.
        """
        from openai import APIStatusError, OpenAIError

        attempts = 0
        sent = Dialect()
        started = time.perf_counter()

        def send(dialect: Dialect) -> _Message:
            nonlocal attempts, sent, started
            self._breaker.check()
            with self._pace.turn(expected_tokens) as turn:
                self._breaker.check()
                attempts, sent, started = attempts + 1, dialect, time.perf_counter()
                try:
                    message = self._send(messages, dialect, prompt.purpose, schema, on_text)
                except (OpenAIError, HTTPError, ConnectionError, ValueError, RecursionError) as failure:
                    if isinstance(failure, APIStatusError):
                        turn.tokens = 0
                    self._breaker.missed(refused=bool(self._refusal(failure)))
                    raise
                self._breaker.answered()
                counts = (_count(message.usage, name) for name in ("prompt_tokens", "completion_tokens"))
                turn.tokens = sum(count or 0 for count in counts) or turn.tokens
                return message

        message, content, error, in_vain = _Message(), "", "", False
        try:
            message = self._answered(send)
        except _CallersFault as fault:
            raise fault.error from None
        except (OpenAIError, HTTPError, ConnectionError, ValueError, RecursionError) as failure:
            # the last two: a body that is no JSON, or too deep
            if error := self._refusal(failure):
                certain = getattr(failure, "status_code", None) in (401, 404)
                in_vain = self._breaker.gave_up(_line(self._discreet(error)), certain=certain)
            else:
                error = f"{type(failure).__name__}: {failure}"
        except HeldBack as held_back:
            error, in_vain = str(held_back), True
        else:
            content, error = _content(message)
            self._learn(sent, message, streamed=on_text is not None)
        latency_s = time.perf_counter() - started
        truncated = message.finish_reason == "length"
        call = replace(
            self.call(prompt, messages),
            parameters=sent.parameters(),
            tokens_in=_count(message.usage, "prompt_tokens"),
            tokens_out=_count(message.usage, "completion_tokens"),
            tokens_cached=_cached(message.usage),
            latency_s=latency_s,
            attempts=attempts,
            error=_line(self._discreet(error)),
        )
        if not attempts:
            call = replace(self.call(prompt, messages), error=call.error)
        return ChatReply(
            content=content, call=call, truncated=truncated, absent=error == _ABSENT, in_vain=in_vain
        )

    def call(self, prompt: Prompt, messages: Sequence[Message]) -> ModelCall:
        """The record of a call that was not made."""
        return ModelCall(
            purpose=prompt.purpose,
            model=self.model,
            prompt_version=prompt.version,
            prompt_hash=hashlib.sha256(
                json.dumps(list(map(dict, messages)), sort_keys=True).encode()
            ).hexdigest(),
            tokens_in=0,
            tokens_out=0,
            attempts=0,
        )

    def _bound(self, response: Response) -> None:
        """Bound the body of a response in time and length: a server may send a byte a second for ever."""
        if isinstance(response.stream, SyncByteStream):
            response.stream = _BoundedStream(response.stream, time.monotonic() + self._timeout_s)

    def _discreet(self, text: str) -> str:
        """An error without the key and the password of the server, which it may quote."""
        for secret in (self._client.api_key, self._client.base_url.userinfo.decode(errors="replace")):
            text = text.replace(secret, "…") if secret else text
        return text

    def _refusal(self, error: Exception) -> str:
        """What is wrong with the server or its settings; empty where the call may be to blame."""
        from openai import APIStatusError

        server = str(self._client.base_url.copy_with(userinfo=b"", query=None)).rstrip("/")
        if isinstance(error, _NO_CONNECTION) or isinstance(error.__cause__, _NO_CONNECTION):
            return f"{server} does not answer (language.base_url)"
        if isinstance(error, APIStatusError) and error.status_code in _REFUSALS:
            said = error.body.get("message") if isinstance(error.body, Mapping) else error.message
            return f"{server} {_REFUSALS[error.status_code]}: HTTP {error.status_code}, {said}"
        return ""

    def _answered(self, send: Callable[[Dialect], _Message]) -> _Message:
        """The server's answer in the richest dialect that it takes."""
        from openai import BadRequestError, UnprocessableEntityError

        dialect = known = _understood.get(self._server, Dialect())
        first: Exception | None = None
        while True:
            try:
                message = self._retrying()(send, dialect)
            except (BadRequestError, UnprocessableEntityError) as error:
                first = first or error
                plainer = dialect.simpler(error.param if isinstance(error.param, str) else str(error))
                if plainer is None:
                    raise first from None
                dialect = plainer
            else:
                if dialect != known:
                    _understood[self._server] = dialect
                return message

    def _learn(self, dialect: Dialect, message: _Message, *, streamed: bool) -> None:
        """Remember that a server ignores what it accepted: a schema, or the wish for counts in a stream."""
        learnt = dialect
        if streamed and message.usage is None:
            learnt = replace(learnt, streaming=False)
        content = _content(message)[0] if message.finish_reason == "stop" else ""
        if dialect.json_format == "json_schema" and content and not _is_json(content):
            learnt = replace(learnt, json_format="json_object")
        if learnt != dialect:
            _understood[self._server] = learnt

    def _retrying(self) -> Retrying:
        return Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=self._wait_s,
            retry=retry_if_exception(_is_transient),
            reraise=True,
        )

    def _wait_s(self, state: RetryCallState) -> float:
        asked = _retry_after_s(state.outcome.exception() if state.outcome else None)
        if asked is None:
            return _BACK_OFF(state)
        self._pace.pause(asked)
        return asked

    def _send(
        self,
        messages: Sequence[Message],
        dialect: Dialect,
        name: str,
        schema: Mapping[str, Any],
        on_text: Callable[[str], None] | None,
    ) -> _Message:
        request: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if dialect.temperature:
            request["temperature"] = 0
        if dialect.json_format == "json_object":
            request["response_format"] = {"type": "json_object"}
        elif dialect.json_format == "json_schema":
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            }
        create = self._client.chat.completions.create
        if on_text is None:
            return _whole(create(**request))
        show = _passing_on(on_text)
        show("")
        if dialect.streaming:
            with create(**request, stream=True, stream_options={"include_usage": True}) as chunks:
                return _streamed(chunks, show)
        message = _whole(create(**request))
        if isinstance(message.content, str):
            show(message.content[:SHOWN_CHARACTERS])
        return message


class _CallersFault(Exception):
    """What the caller's own function raised while a message arrived: no fault of the server."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _passing_on(on_text: Callable[[str], None]) -> Callable[[str], None]:
    def show(text: str) -> None:
        try:
            on_text(text)
        except Exception as error:
            raise _CallersFault(error) from error

    return show


class _BoundedStream(SyncByteStream):
    """The body of a response, read no longer than until a deadline and no further than `MAX_BODY_BYTES`."""

    def __init__(self, body: SyncByteStream, deadline_s: float) -> None:
        self._body = body
        self._deadline_s = deadline_s

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._body:
            size += len(part)
            if size > MAX_BODY_BYTES:
                raise ConnectionError(f"the answer is longer than {MAX_BODY_BYTES:,} bytes")
            if time.monotonic() > self._deadline_s:
                raise ReadTimeout("the answer did not end in time")
            yield part

    def close(self) -> None:
        self._body.close()


def _whole(response: object) -> _Message:
    choice = _first(response)
    message = getattr(choice, "message", None)
    return _Message(
        content=getattr(message, "content", None),
        refusal=getattr(message, "refusal", None),
        finish_reason=getattr(choice, "finish_reason", None),
        usage=getattr(response, "usage", None),
    )


def _streamed(chunks: Iterable[object], on_text: Callable[[str], None]) -> _Message:
    """A message that arrives in pieces.

    Raises:
        ConnectionError: it began and did not end.
    """
    pieces: dict[str, list[str]] = {"content": [], "refusal": []}
    shown = ""
    finish_reason = usage = None
    for chunk in chunks:
        choice = _first(chunk)
        usage = getattr(chunk, "usage", None) or usage
        finish_reason = getattr(choice, "finish_reason", None) or finish_reason
        for name, so_far in pieces.items():
            piece = getattr(getattr(choice, "delta", None), name, None)
            if isinstance(piece, str) and piece:
                so_far.append(piece)
                if name == "content" and len(shown) < SHOWN_CHARACTERS:
                    shown = (shown + piece)[:SHOWN_CHARACTERS]
                    on_text(shown)
    if finish_reason is None and any(pieces.values()):
        raise ConnectionError("the stream ended in the middle of the message")
    content, refusal = ("".join(so_far) for so_far in pieces.values())
    return _Message(content=content, refusal=refusal, finish_reason=finish_reason, usage=usage)


def _first(response: object) -> object:
    choices = getattr(response, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def _content(message: _Message) -> tuple[str, str]:
    """The text of a message, or why it has none."""
    if message.refusal:
        return "", f"the model refused: {message.refusal}"
    if message.finish_reason == "content_filter":
        return "", "the server's content filter withheld the answer"
    if isinstance(message.content, str) and message.content.strip():
        return message.content, ""
    if message.finish_reason == "length":
        return "", "the server allowed no tokens for the answer (finish reason: length)"
    return "", _ABSENT


def _is_json(content: str) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _count(usage: object, *path: str) -> int | None:
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)
    return usage if type(usage) is int and 0 <= usage <= _MAX_COUNT else None


def _cached(usage: object) -> int | None:
    """Tokens of the question that the server had in its cache: OpenAI's name for them, or DeepSeek's."""
    tokens = _count(usage, "prompt_tokens_details", "cached_tokens")
    return _count(usage, "prompt_cache_hit_tokens") if tokens is None else tokens


def _line(text: str) -> str:
    """An error as one short line of characters that every table can hold."""
    return " ".join(well_formed(text[:_ERROR_CHARACTERS]).replace("\0", " ").split())


def _is_transient(error: BaseException) -> bool:
    from openai import APIConnectionError, APIError, APIStatusError

    if isinstance(error, APIStatusError):
        passing = error.status_code in _TRANSIENT_STATUSES or error.status_code >= 500
        exhausted = error.code == "insufficient_quota"
        return passing and not exhausted and (_retry_after_s(error) or 0.0) <= MAX_RETRY_AFTER_S
    if type(error) is APIError:  # an error event in a stream: its status said that all was well
        return error.code != "insufficient_quota"
    return isinstance(error, APIConnectionError | ConnectionError | json.JSONDecodeError)


def _retry_after_s(error: BaseException | None) -> float | None:
    """Seconds that the server asks to wait: ``Retry-After-Ms``, or ``Retry-After`` as seconds or a date."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            asked_s = float(headers.get(name, "")) / per_second
        except ValueError:
            continue
        if not math.isnan(asked_s):
            return max(0.0, asked_s)
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
