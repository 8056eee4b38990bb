"""The Hugging Face Hub, as far as readers use it: its API, and a CDN with signed addresses."""

from __future__ import annotations

import email.utils
import hashlib
import json
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from support.stores.gcs import ranged
from support.stores.server import HttpServer, Request, Response

_REPO = r"(?:(datasets|spaces|models)/)?([^/]+/[^/]+)"
_INFO = re.compile(rf"/api/{_REPO}(?:/revision/([^/]+))?")
_TREE = re.compile(rf"/api/{_REPO}/tree/([^/]+)(?:/(.*))?")
_PATHS = re.compile(rf"/api/{_REPO}/paths-info/([^/]+)")
_RESOLVE = re.compile(rf"/{_REPO}/resolve/([^/]+)/(.+)")


@dataclass
class Repo:
    """A repository.

    Attributes:
        commits: the files of each commit, by path.
        branches: the commit of each branch.
        private: a token is needed to see the repository.
        gated: a token is needed to read the files.
    """

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    private: bool = False
    gated: bool = False


class CdnServer(HttpServer):
    """The server of the bytes of large files, at addresses that the Hub signs.

    Attributes:
        uses: requests that one address serves before it has expired; None = no limit.
        lacks_headers: answers have neither an ETag nor a time.
    """

    def __init__(self, **options) -> None:
        self.uses: int | None = None
        self.lacks_headers = False
        self.blobs: dict[str, bytes] = {}
        self._signed = 0
        self._valid_from = 1
        self._used: Counter[int] = Counter()
        super().__init__(**options)

    def sign(self, digest: str) -> str:
        """Return an address of a blob, with a query that must reach the CDN unchanged."""
        with self._lock:
            self._signed += 1
            return f"{self.url}/blobs/{digest}?Signature=a%2Fb%3D~-{self._signed}&Key-Pair-Id=K"

    def expire(self) -> None:
        """Let all addresses that were signed so far expire."""
        with self._lock:
            self._valid_from = self._signed + 1

    def respond(self, request: Request) -> Response:
        signed = re.fullmatch(
            r"/blobs/(\w+)\?Signature=a%2Fb%3D~-(\d+)&Key-Pair-Id=K", request.target
        )
        if signed is None or "authorization" in request.headers:
            return Response(400, b"<Error><Code>InvalidArgument</Code></Error>")
        digest, number = signed[1], int(signed[2])
        with self._lock:
            self._used[number] += 1
            expired = self.uses is not None and self._used[number] > self.uses
            expired = expired or number < self._valid_from
        if expired:
            return Response(403, b"<Error><Code>AccessDenied</Code></Error>")
        headers = {"ETag": f'"{digest}"', "Last-Modified": email.utils.formatdate(0, usegmt=True)}
        headers = {"Accept-Ranges": "bytes"} if self.lacks_headers else headers
        return _answer(request, self.blobs[digest], headers)


class HubServer(HttpServer):
    """The Hub.

    Attributes:
        cdn: the server of the bytes of large files.
        repos: repositories by type and id, such as ("datasets", "org/name").
        tokens: tokens that may read all repositories.
        page_size: largest number of entries of one page of a listing.
        small_bytes: smaller files are in git, and the Hub itself answers with their bytes.
        ignores_ranges: the Hub answers with whole small files.
    """

    def __init__(self, **options) -> None:
        self.cdn = CdnServer(**options)
        self.repos: dict[tuple[str, str], Repo] = {}
        self.tokens = {"hf_secret"}
        self.page_size = 1000
        self.small_bytes = 0
        self.ignores_ranges = False
        self._repos_lock = threading.Lock()
        super().__init__(**options)

    def commit(
        self,
        name: str,
        files: dict[str, bytes | None],
        *,
        branch: str = "main",
        kind: str = "datasets",
    ) -> str:
        """Add a commit to a branch; None deletes a file. Return the commit."""
        with self._repos_lock:
            repo = self.repos.setdefault((kind, name), Repo())
            old = repo.commits.get(repo.branches.get(branch, ""), {})
            new = {**old, **files}
            number = f"{kind} {name} {len(repo.commits)}"
            sha = hashlib.sha1(number.encode()).hexdigest()
            repo.commits[sha] = {path: data for path, data in new.items() if data is not None}
            repo.branches[branch] = sha
        return sha

    @property
    def options(self) -> dict:
        """Return the storage_options of clients."""
        return {"endpoint": self.url, "token": False}

    @property
    def counts(self) -> dict[str, int]:
        """Count the requests by kind: info, tree, paths, resolve, and bytes of the CDN."""
        found: Counter[str] = Counter()
        for request in self.requests:
            kind = next(
                (
                    k
                    for k, route in _ROUTES.items()
                    if route.fullmatch(urlsplit(request.target).path)
                ),
                "?",
            )
            found[kind] += 1
        found["cdn"] = len(self.cdn.requests)
        return {kind: number for kind, number in found.items() if number}

    def reset(self) -> None:
        super().reset()
        self.cdn.reset()

    def close(self) -> None:
        super().close()
        self.cdn.close()

    def respond(self, request: Request) -> Response:
        path = urlsplit(request.target).path
        if match := _RESOLVE.fullmatch(path):
            return self._resolve(request, *match.groups())
        if match := _TREE.fullmatch(path):
            return self._tree(request, *match.groups())
        if match := _PATHS.fullmatch(path):
            return self._paths(request, *match.groups())
        if match := _INFO.fullmatch(path):
            return self._info(request, *match.groups())
        return Response(404)

    def _find(
        self, request: Request, kind: str | None, name: str, revision: str | None
    ) -> tuple[Repo, str, dict[str, bytes]] | Response:
        """Return the repository, the commit and the files of a request, or the error."""
        repo = self.repos.get((kind or "models", name))
        known = request.headers.get("authorization", "").removeprefix("Bearer ") in self.tokens
        if repo is None or (repo.private and not known):
            status = 404 if known else 401
            return _error(status, "RepoNotFound", "Repository not found")
        revision = unquote(revision or "main")
        sha = repo.branches.get(revision, revision)
        if sha not in repo.commits:
            return _error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return repo, sha, repo.commits[sha]

    def _info(self, request: Request, kind: str, name: str, revision: str | None) -> Response:
        found = self._find(request, kind, name, revision)
        if isinstance(found, Response):
            return found
        repo, sha, _ = found
        about = {"_id": "0", "id": name, "author": name.partition("/")[0], "sha": sha, "tags": []}
        more = {"private": repo.private, "disabled": False, "gated": False, "siblings": []}
        return _json(200, {**about, **more, "downloads": 0, "likes": 0})

    def _tree(
        self, request: Request, kind: str, name: str, revision: str, directory: str | None
    ) -> Response:
        found = self._find(request, kind, name, revision)
        if isinstance(found, Response):
            return found
        files = found[2]
        prefix = f"{unquote(directory)}/" if directory else ""
        below = {path[len(prefix) :]: path for path in files if path.startswith(prefix)}
        if prefix and not below:
            return _error(404, "EntryNotFound", f"{directory} does not exist")
        recursive = request.query.get("recursive", "").lower() == "true"
        entries: dict[str, dict] = {}
        for short, path in below.items():
            names = short.split("/")
            for depth in range(1, len(names)):
                folder = prefix + "/".join(names[:depth])
                entries[folder] = {"type": "directory", "oid": "0", "size": 0, "path": folder}
            if recursive or len(names) == 1:
                entries[path] = self._entry(path, files[path])
        if not recursive:
            entries = {p: e for p, e in entries.items() if "/" not in p[len(prefix) :]}
        cursor = request.query.get("cursor", "")
        rest = [path for path in sorted(entries) if path > cursor]
        page = rest[: self.page_size]
        headers = {"Content-Type": "application/json"}
        if len(rest) > len(page):
            query = f"recursive={recursive}&cursor={quote(page[-1], safe='')}"
            url = f"{self.url}{urlsplit(request.target).path}?{query}"
            headers["Link"] = f'<{url}>; rel="next"'
        return Response(200, json.dumps([entries[path] for path in page]).encode(), headers)

    def _paths(self, request: Request, kind: str, name: str, revision: str) -> Response:
        found = self._find(request, kind, name, revision)
        if isinstance(found, Response):
            return found
        files = found[2]
        if "json" in request.headers.get("content-type", ""):
            paths = json.loads(request.body)["paths"]
        else:
            paths = [v for k, v in parse_qsl(request.body.decode()) if k == "paths"]
        entries = []
        for path in paths:
            if path in files:
                entries.append(self._entry(path, files[path]))
            elif any(each.startswith(f"{path}/") for each in files):
                entries.append({"type": "directory", "oid": "0", "size": 0, "path": path})
        return _json(200, entries)

    def _entry(self, path: str, data: bytes) -> dict:
        entry: dict = {"type": "file", "oid": _blob(data), "size": len(data), "path": path}
        if not self._is_small(data):
            entry["lfs"] = {"oid": _sha256(data), "size": len(data), "pointerSize": 134}
        return entry

    def _is_small(self, data: bytes) -> bool:
        return len(data) < self.small_bytes

    def _resolve(
        self, request: Request, kind: str | None, name: str, revision: str, path: str
    ) -> Response:
        found = self._find(request, kind, name, revision)
        if isinstance(found, Response):
            return found
        repo, sha, files = found
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if repo.gated and token not in self.tokens:
            return _error(403 if token else 401, "GatedRepo", "Access to it is restricted")
        data = files.get(unquote(path))
        if data is None:
            return _error(404, "EntryNotFound", "Entry not found")
        headers = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if self._is_small(data):
            written = email.utils.formatdate(0, usegmt=True)
            headers |= {"ETag": f'"{_blob(data)}"', "Last-Modified": written}
            if self.ignores_ranges:
                return Response(200, data, headers)
            return _answer(request, data, headers)
        digest = _sha256(data)
        self.cdn.blobs[digest] = data
        headers |= {
            "Location": self.cdn.sign(digest),
            "X-Linked-Size": str(len(data)),
            "X-Linked-ETag": f'"{digest}"',
        }
        return Response(302, b"", headers)


_ROUTES = {"resolve": _RESOLVE, "tree": _TREE, "paths": _PATHS, "info": _INFO}


def _answer(request: Request, data: bytes, headers: dict[str, str]) -> Response:
    if request.range is None:
        return Response(200, data, headers)
    return ranged(request.range, data, headers)


@lru_cache
def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()


@lru_cache
def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _error(status: int, code: str, message: str) -> Response:
    return Response(status, b"", {"X-Error-Code": code, "X-Error-Message": message})


def _json(status: int, value: object) -> Response:
    return Response(status, json.dumps(value).encode(), {"Content-Type": "application/json"})
