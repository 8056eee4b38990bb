"""A small threaded HTTP/1.1 server that counts, waits and fails as it is told."""

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
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

# Bytes that one send hands to the kernel: between two of them bandwidth and faults take hold.
_PIECE_BYTES = 64 << 10
_DRIP_S = 0.1  # between two bytes


@dataclass
class Request:
    """What a client asked for.

    connection: number of the connection it came over, from 0.
    sent: bytes of the answer's body, up to the piece at which a connection broke.
    target: as it was written: the path and the query.
    came, answered: when it did, and when its answer was ready, in seconds of one clock.
    """

    method: str
    path: str  # decoded
    query: dict[str, str]
    headers: dict[str, str]  # lower-case names
    connection: int
    target: str
    status: int = 0
    sent: int = 0
    came: float = 0.0
    answered: float = math.inf

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
    """What goes wrong with one answer.

    status: instead of the answer; "reset": the connection is reset, "stall": nothing comes any
        more, "drip": it comes byte by byte, "short": the connection ends in good order, each
        after `after` bytes of the body (None = before the head); "long": more bytes than asked
        for; "flip": as many, but the last one is another.
    """

    kind: int | Literal["reset", "stall", "drip", "short", "long", "flip"]
    after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)


class HttpServer:
    """Answers `respond(request)` on an address, a thread for each connection.

    latency_s: seconds from a request to the first byte of its answer.
    bytes_per_s: of one connection; None = as quick as it goes.
    fault: asked for each request; what it returns goes wrong.
    requests: the log, in the order in which requests came.
    connections: that were ever opened.
    most_open: of them at the same time.
    handshakes: of TLS that were completed.
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
        """Forgets the log; open connections stay."""
        with self._lock:
            self.requests = []
            self.connections = 0
            self.handshakes = 0
            self.most_open = self._open()

    @property
    def open(self) -> int:
        """Connections that neither side has closed."""
        with self._lock:
            return self._open()

    def _open(self) -> int:
        # The kernel knows of an end before the connection's thread has come to read it.
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
                number = self.connections
                self.connections += 1
                self._sockets.add(connection)
                self.most_open = max(self.most_open, self._open())
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
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
            while (request := _read(reader, number)) is not None:
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
        """Whether the connection stays open."""
        request.came = time.monotonic()
        with self._lock:
            self.requests.append(request)
        if self.latency_s:
            time.sleep(self.latency_s)
        fault = self.fault(request)
        response = self.respond(request)
        request.answered = time.monotonic()
        if fault is not None and isinstance(fault.kind, int):
            response, fault = Response(fault.kind, b"the store says no", fault.headers), None
        request.status = response.status
        body = memoryview(response.body)
        if fault is not None and fault.kind == "long":
            body = memoryview(bytes(body) + b"more")
        if fault is not None and fault.kind == "flip":
            body, fault = _flipped(body), None
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
        """What comes of a connection whose answer has been sent but for the rest."""
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
    """The longest chain of requests each of which came after the answer to the one before."""
    depth: list[tuple[float, int]] = []  # of each: its answer, and its place in a chain
    for request in sorted(requests, key=lambda each: each.came):
        before = (place for answered, place in depth if answered <= request.came)
        depth.append((request.answered, 1 + max(before, default=0)))
    return max((place for _, place in depth), default=0)


def most_in_flight(requests: Collection[Request]) -> int:
    """Requests that waited for their answers at the same time."""
    return max(sum(r.came <= now.came < r.answered for r in requests) for now in requests)


def _flipped(body: memoryview) -> memoryview:
    other = bytearray(body)
    other[-1] ^= 0xFF
    return memoryview(other)


def _read(reader, connection: int) -> Request | None:
    line = reader.readline()
    if not line.strip():
        return None
    method, target, _ = line.decode().split()
    headers = {}
    while line := reader.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    reader.read(int(headers.get("content-length", 0)))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return Request(method, unquote(parts.path), query, headers, connection, target)


def _head(response: Response, length: int) -> bytes:
    headers = {
        "Date": email.utils.formatdate(usegmt=True),
        "Content-Length": str(length),
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
