"""A small HTTP server that speaks the OpenAI protocol and answers from a script."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

import numpy as np

from evireform.language.prompts import load_all
from tests.doubles.hash_encoder import HashEncoder


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the server sends back.

    Attributes:
        content: The model's message (chat) or the whole ``data`` list (embeddings). Anything but a string
            becomes JSON.
        status: HTTP status; from 400 on, ``content`` is the error message.
        headers: Sent besides the usual ones, for example ``Retry-After``.
        delay_s: Wait before the answer.
        dribble_s: Wait before each byte of its body.
        finish_reason: As the protocol has it, for example ``length`` for a truncated message.
        refusal: Set where the model refuses; ``content`` is then sent as null.
        raw: Sent as it is, in place of a body of the protocol.
        usage: Tokens in and out that a chat is billed, or nonsense in their place; None counts the words.
        cached: Tokens in that the server says it had in its cache.
        no_choice: Whether the answer has a usage and no message.
        drop: Where the connection breaks: ``before`` the answer, or ``within`` its body.
    """

    content: Any = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    dribble_s: float = 0.0
    finish_reason: str = "stop"
    refusal: str | None = None
    raw: bytes | None = None
    usage: tuple[Any, Any] | None = None
    cached: int | None = None
    no_choice: bool = False
    drop: Literal["", "before", "within"] = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request as it arrived. ``purpose`` is the prompt that its first message holds, if any."""

    path: str
    purpose: str
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def messages(self) -> list[dict[str, str]]:
        return self.body["messages"]


Script = Callable[[Request], Any]


class ScriptedOpenAI:
    """The server, running on loopback while its ``with`` block does.

    ``on(purpose, …)`` queues answers for ``extract``, ``select``, ``reformulate`` or ``embed``: a `Reply`,
    a bare message (string or JSON value), or a callable that makes one from the `Request`. The last one
    stays; without any, embeddings come from a `HashEncoder` and a chat is answered 404.

    Attributes:
        requests: Everything that arrived, in order.
        refused_formats: Types of ``response_format`` that the server answers 400 to.
        streaming: How it streams: ``counted`` (with a usage at the end), ``uncounted`` (it ignores the wish
            for one), ``refused`` (400) or ``ignored`` (an ordinary answer).
        tokens_in, tokens_out: What it has billed: words of the messages, words of the answers.
    """

    def __init__(self, *, dimensions: int = 64) -> None:
        self.encoder = HashEncoder(dimensions)
        self.requests: list[Request] = []
        self.refused_formats: set[str] = set()
        self.streaming: Literal["counted", "uncounted", "refused", "ignored"] = "counted"
        self.tokens_in = 0
        self.tokens_out = 0
        self._scripts: dict[str, list[Any]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def on(self, purpose: str, *answers: Any) -> None:
        """Replace the answers of one purpose."""
        self._scripts[purpose] = list(answers)

    def requests_for(self, purpose: str) -> list[Request]:
        return [request for request in self.requests if request.purpose == purpose]

    def answer(self, request: Request) -> tuple[Reply, dict[str, Any]]:
        """Record the request; give the scripted reply and the body that carries it."""
        with self._lock:
            self.requests.append(request)
            script = self._next(request)
        answer = script(request) if callable(script) else script
        reply = answer if isinstance(answer, Reply) else Reply(content=answer)
        if reply.status >= 400:
            return reply, {"error": {"message": reply.content, "type": "scripted", "code": reply.status}}
        if request.purpose == "models":
            return reply, {"object": "list", "data": reply.content}
        tokens_in = _words(request.body.get("messages") or request.body.get("input"))
        tokens_out = _words(reply.content) if request.purpose != "embed" else 0
        if reply.usage is not None:
            tokens_in, tokens_out = reply.usage
        counted = [tokens if isinstance(tokens, int) else 0 for tokens in (tokens_in, tokens_out)]
        with self._lock:
            self.tokens_in += counted[0]
            self.tokens_out += counted[1]
        usage: dict[str, Any] = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": sum(counted),
        }
        if reply.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.cached}
        model = request.body.get("model", "")
        if request.purpose == "embed":
            return reply, {"object": "list", "model": model, "data": reply.content, "usage": usage}
        content = reply.content if isinstance(reply.content, str) else json.dumps(reply.content)
        message = {
            "role": "assistant",
            "content": None if reply.refusal else content,
            "refusal": reply.refusal,
        }
        choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
        return reply, {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [] if reply.no_choice else [choice],
            "usage": usage,
        }

    def _next(self, request: Request) -> Any:
        refused = (request.body.get("response_format") or {}).get("type", "") in self.refused_formats
        if refused:
            return Reply(status=400, content="this response_format type is unavailable now")
        if request.body.get("stream") and self.streaming == "refused":
            return Reply(status=400, content="stream_options are not supported")
        answers = self._scripts.get(request.purpose, [])
        if answers:
            return answers.pop(0) if len(answers) > 1 else answers[0]
        if request.purpose == "models":
            return [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]
        if request.purpose == "embed":
            return self.embeddings(request)
        return Reply(status=404, content=f"no answer is scripted for {request.purpose!r}")

    def embeddings(self, request: Request) -> list[dict[str, Any]]:
        """The ``data`` of an honest answer to an embeddings request."""
        given = request.body["input"]
        vectors = self.encoder.encode_propositions([given] if isinstance(given, str) else given)
        as_base64 = request.body.get("encoding_format") == "base64"
        return [
            {
                "object": "embedding",
                "index": row,
                "embedding": base64.b64encode(vector.astype(np.float32).tobytes()).decode()
                if as_base64
                else vector.tolist(),
            }
            for row, vector in enumerate(vectors)
        ]


def _purpose(path: str, body: dict[str, Any]) -> str:
    if path.endswith("/models"):
        return "models"
    if path.endswith("/embeddings"):
        return "embed"
    first = str(body["messages"][0]["content"])
    return next((prompt.purpose for prompt in load_all() if first.startswith(prompt.text)), "")


def _words(content: Any) -> int:
    return len((content if isinstance(content, str) else json.dumps(content)).split())


def _events(answer: dict[str, Any], *, counted: bool) -> bytes:
    """A chat's answer as the events of a stream, the message in pieces of eight characters."""
    common = {key: answer[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    chunks: list[dict[str, Any]] = []
    for choice in answer["choices"]:
        for name in ("content", "refusal"):
            text = choice["message"][name] or ""
            chunks += [
                {"choices": [{"index": 0, "delta": {name: text[start : start + 8]}, "finish_reason": None}]}
                for start in range(0, len(text), 8)
            ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if counted:
        chunks.append({"choices": [], "usage": answer["usage"]})
    lines = [f"data: {json.dumps(common | chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def _handler(scripted: ScriptedOpenAI) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond({})

        def do_POST(self) -> None:
            self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _respond(self, body: dict[str, Any]) -> None:
            request = Request(
                path=self.path, purpose=_purpose(self.path, body), body=body, headers=dict(self.headers)
            )
            reply, answer = scripted.answer(request)
            time.sleep(reply.delay_s)
            streams = body.get("stream") and reply.status < 400 and scripted.streaming != "ignored"
            payload = json.dumps(answer).encode() if reply.raw is None else reply.raw
            if streams and reply.raw is None:
                payload = _events(answer, counted=scripted.streaming == "counted")
            try:
                if reply.drop == "before":
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self.send_response(reply.status)
                self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
                self.send_header("Content-Length", str(len(payload)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if reply.drop == "within":
                    self.wfile.write(payload[: len(payload) // 2])
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                for start in range(len(payload)) if reply.dribble_s else ():
                    time.sleep(reply.dribble_s)
                    self.wfile.write(payload[start : start + 1])
                    self.wfile.flush()
                if not reply.dribble_s:
                    self.wfile.write(payload)
            except OSError:
                pass  # the client gave up waiting

        def log_message(self, *_: object) -> None:
            pass

    return Handler
