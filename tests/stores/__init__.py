"""Object stores on loopback, for tests and benchmarks."""

from collections.abc import Callable

from stores.azure import AzureServer
from stores.gcs import GcsServer
from stores.server import Fault, Request, Response, most_in_flight, rounds

__all__ = [
    "AzureServer",
    "Fault",
    "GcsServer",
    "Request",
    "Response",
    "assert_few_connections",
    "most_in_flight",
    "rounds",
]


def assert_few_connections(count: Callable[[], int], enough: int) -> None:
    """One of three counts of connections is no more than enough, and a half for a busy machine.

    There obstore may begin a request before its pool has seen the end of an answer, and opens one
    more. Without a pool they would be as many as the requests, which are many times more.
    """
    counts = []
    while len(counts) < 3 and min(counts, default=2 * enough) > enough:
        counts.append(count())
    assert min(counts) <= enough * 3 // 2, counts
