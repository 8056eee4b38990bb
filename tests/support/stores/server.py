"""A small threaded HTTP/1.1 server that counts requests, delays answers and injects faults."""

from __future__ import annotations

import contextlib
import email.utils
import math
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

# Bytes that one send passes to the kernel; bandwidth and faults take effect between two sends.
_PIECE_BYTES = 64 << 10
_DRIP_S = 0.1  # between two bytes


@dataclass
class Request:
    """A request of a client.

    Attributes:
        target: the path and the query, as sent.
        status: status of the answer; 0 = no answer yet.
        sent: bytes of the answer's body, up to the piece at which a connection broke.
        came: time of the request, in seconds of one clock.
        answered: time at which the answer was ready, on the same clock.
        body: body of the request.
    """

    method: str
    path: str  # decoded
    query: dict[str, str]
    headers: dict[str, str]  # lower-case names
    target: str
    status: int = 0
    sent: int = 0
    came: float = 0.0
    answered: float = math.inf
    body: bytes = b""

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Response:
    status: int
    body: bytes | memoryview = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """A fault of one answer.

    Attributes:
        kind: a status to send instead of the answer. "reset": the connection is reset. "stall":
            no further byte comes. "drip": bytes come one by one. "short": the connection ends in
            good order. "long": more bytes than requested come. "flip": the last byte is wrong.
            "zeros": all bytes are 0. "shift": the range begins some bytes earlier, as the head
            says. "page": another body with the status 200, as proxies send it. "unconditional":
            the server ignores which version the request asks for.
        after: bytes of the body after which "reset", "stall", "drip" and "short" begin; None =
            before the head.
        headers: headers to add to the answer.
        body: body of an answer of another status.
    """

    kind: (
        int
        | Literal[
            "reset", "stall", "drip", "short", "long", "flip", "zeros", "shift", "page",
            "unconditional",
        ]
    )  # fmt: skip
    after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"the store says no"


class HttpServer:
    """A server that answers `respond(request)`, with a thread for each connection.

    Attributes:
        latency_s: seconds from a request to the first byte of its answer.
        bytes_per_s: bandwidth of one connection; None = no limit.
        fault: function that returns the Fault of a request, or None.
        requests: the log, in the order in which requests came.
        connections: number of connections opened so far.
        most_open: largest number of connections open at the same time.
        handshakes: number of completed TLS handshakes.
    """

    def __init__(
        self, *, certificate: tuple[str, str] | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.latency_s = 0.0
        self.bytes_per_s: float | None = None
        self.fault: Callable[[Request], Fault | None] = lambda request: None
        self.requests: list[Request] = []
        self.connections = 0
        self.most_open = 0
        self.handshakes = 0
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closing = threading.Event()
        self._context = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
        self._listener = socket.create_server((host, 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._accept, name="store", daemon=True)
        self._thread.start()

    def respond(self, request: Request) -> Response:
        raise NotImplementedError

    def reset(self) -> None:
        """Clear the log; open connections stay open."""
        with self._lock:
            self.requests = []
            self.connections = 0
            self.handshakes = 0
            self.most_open = self._open()

    @property
    def open(self) -> int:
        """Number of connections that neither side has closed."""
        with self._lock:
            return self._open()

    def _open(self) -> int:
        # The kernel knows of a closed connection before the connection's thread reads the end.
        poll = select.poll()
        for connection in self._sockets:
            poll.register(connection, select.POLLRDHUP)
        return len(self._sockets) - len(poll.poll(0))

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self.connections += 1
                self._sockets.add(connection)
                self.most_open = max(self.most_open, self._open())
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._context is not None:
                with self._lock:
                    self._sockets.discard(connection)
                    connection = self._context.wrap_socket(
                        connection, server_side=True, do_handshake_on_connect=False
                    )
                    self._sockets.add(connection)
                connection.do_handshake()
                with self._lock:
                    self.handshakes += 1
            reader = connection.makefile("rb")
            while (request := _read(reader)) is not None:
                if not self._answer(connection, request):
                    break
        except OSError:
            pass
        finally:
            with self._lock:
                self._sockets.discard(connection)
            with contextlib.suppress(OSError):
                connection.close()

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        """Answer a request; return True if the connection stays open."""
        request.came = time.monotonic()
        with self._lock:
            self.requests.append(request)
        if self.latency_s:
            time.sleep(self.latency_s)
        fault = self.fault(request)
        if fault is not None and fault.kind in _OF_REQUESTS:
            response, fault = self.respond(_misread(request, fault.kind)), None
        else:
            response = self.respond(request)
        request.answered = time.monotonic()
        if fault is not None and fault.kind == "page":
            response, fault = Response(200, b"<html>log in, please</html>"), None
        if fault is not None and isinstance(fault.kind, int):
            response, fault = Response(fault.kind, fault.body, fault.headers), None
        request.status = response.status
        body = memoryview(response.body)
        if fault is not None and fault.kind == "long":
            body = memoryview(bytes(body) + b"more")
        if fault is not None and fault.kind in _BODIES:
            body, fault = memoryview(_BODIES[fault.kind](body)), None
        stop = len(body) if fault is None or fault.after is None else fault.after
        if fault is None or fault.after is not None or fault.kind == "long":
            connection.sendall(_head(response, len(body)))
            if request.method != "HEAD":
                self._send(connection, request, body[:stop])
        if fault is None or fault.kind == "long":
            return request.headers.get("connection", "").lower() != "close"
        self._end(connection, fault, body[stop:])
        return False

    def _end(self, connection: socket.socket, fault: Fault, rest: memoryview) -> None:
        """Do the fault to a connection whose answer has been sent except for the rest."""
        if fault.kind == "stall":
            self._closing.wait()
        elif fault.kind == "drip":
            for at in range(len(rest)):
                if self._closing.wait(_DRIP_S):
                    break
                connection.sendall(rest[at : at + 1])
        elif fault.kind == "reset":
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _send(self, connection: socket.socket, request: Request, body: memoryview) -> None:
        for at in range(0, len(body), _PIECE_BYTES):
            piece = body[at : at + _PIECE_BYTES]
            if self.bytes_per_s is not None:
                time.sleep(len(piece) / self.bytes_per_s)
            request.sent += len(piece)  # before: who has it all may look at once
            connection.sendall(piece)


def rounds(requests: Iterable[Request]) -> int:
    """Return the length of the longest chain of requests that each waited for the one before."""
    depth: list[
        tuple[float, int]
    ] = []  # of each request: time of its answer, and its index in a chain
    for request in sorted(requests, key=lambda each: each.came):
        before = (place for answered, place in depth if answered <= request.came)
        depth.append((request.answered, 1 + max(before, default=0)))
    return max((place for _, place in depth), default=0)


def most_in_flight(requests: Collection[Request]) -> int:
    """Return the largest number of requests that waited for answers at the same time."""
    return max(sum(r.came <= now.came < r.answered for r in requests) for now in requests)


def _flipped(body: memoryview) -> bytes:
    return bytes(body[:-1]) + bytes([body[-1] ^ 0xFF])


_BODIES: dict[object, Callable[[memoryview], bytes]] = {
    "flip": _flipped,
    "zeros": lambda body: bytes(len(body)),
}
_OF_REQUESTS = ("shift", "unconditional")
_MOST_SHIFT_BYTES = 8


def _misread(request: Request, kind: object) -> Request:
    """Return a request as a server understands it that shifts ranges, or ignores conditions."""
    headers, query = dict(request.headers), dict(request.query)
    if kind == "unconditional":
        headers.pop("if-match", None)
        query = {k: v for k, v in query.items() if k not in ("generation", "ifGenerationMatch")}
    elif request.range is not None:
        first, last = map(int, request.range.removeprefix("bytes=").split("-"))
        shift = min(first, _MOST_SHIFT_BYTES)
        headers["range"] = f"bytes={first - shift}-{last - shift}"
    return replace(request, headers=headers, query=query)


def _read(reader) -> Request | None:
    line = reader.readline()
    if not line.strip():
        return None
    method, target, _ = line.decode().split()
    headers = {}
    while line := reader.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Request(method, unquote(parts.path), query, headers, target, body=body)


def _head(response: Response, length: int) -> bytes:
    headers = {
        "Date": email.utils.formatdate(usegmt=True),
        "Content-Length": str(length),
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
