"""Object stores on loopback, for tests and benchmarks."""

from stores.azure import AzureServer
from stores.gcs import GcsServer
from stores.server import Fault, Request, Response

__all__ = ["AzureServer", "Fault", "GcsServer", "Request", "Response"]
