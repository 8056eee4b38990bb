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
    "least",
    "most_in_flight",
    "rounds",
]


def least(count: Callable[[], int], enough: int) -> int:
    """The least of three counts of connections, or the first that is no more than enough.

    On a busy machine obstore may begin a request before its pool has seen the end of an answer,
    and opens one more.
    """
    counts = []
    while len(counts) < 3 and min(counts, default=enough + 1) > enough:
        counts.append(count())
    return min(counts)
