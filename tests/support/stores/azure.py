"""Azure Blob Storage with one container, as far as readers use it."""

from __future__ import annotations

import email.utils
import hashlib
import time
from xml.sax.saxutils import escape

from support.stores.gcs import ranged
from support.stores.server import HttpServer, Request, Response

ACCOUNT = "account"
CONTAINER = "container"


class AzureServer(HttpServer):
    """A server at `url`/account, as emulators are: without a host for each account."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.blobs: dict[str, bytes] = {}

    @property
    def endpoint(self) -> str:
        return f"{self.url}/{ACCOUNT}"

    def respond(self, request: Request) -> Response:
        place, _, name = request.path.removeprefix("/").partition(f"{CONTAINER}")
        if place != f"{ACCOUNT}/":
            return Response(404)
        if request.query.get("comp") == "list":
            return self._list(request.query.get("prefix", ""))
        data = self.blobs.get(name.removeprefix("/"))
        if data is None:
            return Response(404)
        etag = _etag(data)
        if request.headers.get("if-match", etag).strip('"') != etag.strip('"'):
            return Response(412)
        headers = {"ETag": etag, "Last-Modified": email.utils.formatdate(usegmt=True)}
        return ranged(request.range or "", data, headers)

    def _list(self, prefix: str) -> Response:
        written = email.utils.formatdate(time.time(), usegmt=True)
        blobs = [
            f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{written}</Last-Modified>"
            f"<Etag>{escape(_etag(data))}</Etag><Content-Length>{len(data)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type><BlobType>BlockBlob</BlobType>"
            "</Properties></Blob>"
            for name, data in sorted(self.blobs.items())
            if name.startswith(prefix)
        ]
        body = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker/>"
        content = '<?xml version="1.0" encoding="utf-8"?>' + body + "</EnumerationResults>"
        return Response(200, content.encode(), {"Content-Type": "application/xml"})


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'
