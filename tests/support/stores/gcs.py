"""Google Cloud Storage, as far as readers use it: the JSON API and the XML API."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from xml.sax.saxutils import escape

from support.stores.server import HttpServer, Request, Response

_OBJECT = re.compile(r"(?:/download)?/storage/v1/b/([^/]+)/o/(.+)", re.DOTALL)
_LIST = re.compile(r"/storage/v1/b/([^/]+)/o/?")
_BUCKET = re.compile(r"/storage/v1/b/([^/]+)/?")
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class StoredObject:
    name: str
    data: bytes
    generation: int
    written: float  # seconds since the epoch

    @cached_property
    def etag(self) -> str:
        return hashlib.md5(self.data).hexdigest()


class GcsServer(HttpServer):
    """A server with buckets of objects.

    Attributes:
        page_size: largest number of entries of one page of a listing.
    """

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.page_size = 1000
        self._buckets: dict[str, dict[str, StoredObject]] = {}
        self._generations = 0
        self._objects_lock = threading.Lock()

    def put(self, bucket: str, name: str, data: bytes) -> StoredObject:
        with self._objects_lock:
            self._generations += 1
            generation = 1_700_000_000_000_000 + self._generations
            stored = StoredObject(name, data, generation, time.time())
            self._buckets.setdefault(bucket, {})[name] = stored
        return stored

    def delete(self, bucket: str, name: str) -> None:
        with self._objects_lock:
            del self._buckets[bucket][name]

    @property
    def options(self) -> dict:
        """Return the storage_options of clients."""
        return {"endpoint_url": self.url, "token": "anon"}

    def media_requests(self) -> list[Request]:
        """Return the log without listings and metadata."""
        return [
            r
            for r in self.requests
            if r.query.get("alt") == "media"
            or not (r.path.startswith("/storage/") or r.path.count("/") < 2)
        ]

    def respond(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405)
        if match := _OBJECT.fullmatch(request.path):
            media = request.query.get("alt") == "media"
            return self._object(request, *match.groups(), media=media)
        if match := _LIST.fullmatch(request.path):
            return self._list_json(request, match[1])
        if match := _BUCKET.fullmatch(request.path):
            bucket = match[1]
            if bucket not in self._buckets:
                return _missing(bucket)
            return _json(200, {"kind": "storage#bucket", "name": bucket})
        bucket, _, name = request.path.lstrip("/").partition("/")
        if name:
            return self._object(request, bucket, name, media=True)
        return self._list_xml(request, bucket)

    def _object(self, request: Request, bucket: str, name: str, *, media: bool) -> Response:
        found = self._buckets.get(bucket, {}).get(name)
        wanted = request.query.get("generation")
        if found is None or (wanted and int(wanted) != found.generation):
            return _missing(f"{bucket}/{name}")
        if not media:
            return _json(200, _resource(bucket, found))
        if_match = request.headers.get("if-match")
        if if_match is not None and if_match.strip('"') not in (found.etag, "*"):
            return Response(412)
        if_generation = request.query.get("ifGenerationMatch")
        if if_generation and int(if_generation) != found.generation:
            return Response(412)
        headers = {
            "ETag": f'"{found.etag}"',
            "Last-Modified": email.utils.formatdate(found.written, usegmt=True),
            "x-goog-generation": str(found.generation),
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
        }
        if request.range is None:
            return Response(200, found.data, headers)
        return ranged(request.range, found.data, headers)

    def _page(
        self, request: Request, bucket: str, token_name: str, most_name: str
    ) -> tuple[list[StoredObject], list[str], str | None]:
        """Return objects, common prefixes and the token of the next page."""
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        token, most = query.get(token_name, ""), int(query.get(most_name, 1000))
        entries: dict[str, StoredObject | None] = {}
        for name, stored in self._buckets[bucket].items():
            if not name.startswith(prefix):
                continue
            head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if found:
                entries[prefix + head + delimiter] = None
            else:
                entries[name] = stored
        names = [name for name in sorted(entries) if name > token]
        page = names[: min(most, self.page_size)]
        objects = [stored for name in page if (stored := entries[name]) is not None]
        prefixes = [name for name in page if entries[name] is None]
        return objects, prefixes, page[-1] if len(names) > len(page) else None

    def _list_json(self, request: Request, bucket: str) -> Response:
        if bucket not in self._buckets:
            return _missing(bucket)
        objects, prefixes, token = self._page(request, bucket, "pageToken", "maxResults")
        answer: dict = {"kind": "storage#objects"}
        if objects:
            answer["items"] = [_resource(bucket, stored) for stored in objects]
        if prefixes:
            answer["prefixes"] = prefixes
        if token is not None:
            answer["nextPageToken"] = token
        return _json(200, answer)

    def _list_xml(self, request: Request, bucket: str) -> Response:
        if bucket not in self._buckets:
            return Response(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        objects, prefixes, token = self._page(request, bucket, "continuation-token", "max-keys")
        lines = ["<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>"]
        lines += [
            f"<Contents><Key>{escape(stored.name)}</Key><Generation>{stored.generation}"
            f"</Generation><LastModified>{_iso(stored.written)}</LastModified>"
            f'<ETag>"{stored.etag}"</ETag><Size>{len(stored.data)}</Size></Contents>'
            for stored in objects
        ]
        lines += [
            f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in prefixes
        ]
        if token is not None:
            lines.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        lines.append(f"<IsTruncated>{str(token is not None).lower()}</IsTruncated>")
        body = "".join([*lines, "</ListBucketResult>"]).encode()
        return Response(200, body, {"Content-Type": "application/xml"})


def ranged(wanted: str, data: bytes, headers: dict[str, str]) -> Response:
    match = _RANGE.fullmatch(wanted)
    size = len(data)
    if match is None or match.groups() == ("", ""):
        return Response(200, data, headers)
    first, last = match.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    if start >= stop:
        return Response(416, b"", {"Content-Range": f"bytes */{size}"})
    content = {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
    return Response(206, memoryview(data)[start:stop], {**headers, **content})


def _resource(bucket: str, stored: StoredObject) -> dict:
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{stored.name}/{stored.generation}",
        "name": stored.name,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "size": str(len(stored.data)),
        "md5Hash": base64.b64encode(bytes.fromhex(stored.etag)).decode(),
        # The service returns an ETag other than that of the XML API.
        "etag": base64.b64encode(str(stored.generation).encode()).decode(),
        "updated": _iso(stored.written),
        "timeCreated": _iso(stored.written),
        "storageClass": "STANDARD",
    }


def _iso(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


def _json(status: int, value: object) -> Response:
    return Response(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def _missing(what: str) -> Response:
    return _json(404, {"error": {"code": 404, "message": f"No such object: {what}"}})
