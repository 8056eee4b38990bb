"""A hook of MkDocs: guides come first in the search, notes for contributors last."""

from __future__ import annotations

from typing import Any

_BOOSTS = {
    "index.md": 2,
    "install.md": 2,
    "concepts.md": 2,
    "troubleshooting.md": 2,
    "guides/": 2,
    "notes/": 0.3,
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Set how much a page counts in the search, by the place of its file."""
    for start, boost in _BOOSTS.items():
        if page.file.src_uri.startswith(start):
            page.meta["search"] = {"boost": boost}
    return markdown
