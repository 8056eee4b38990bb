"""Object stores on loopback, for tests and benchmarks."""

from stores.gcs import GcsServer
from stores.server import Fault, Request, Response

__all__ = ["Fault", "GcsServer", "Request", "Response"]
