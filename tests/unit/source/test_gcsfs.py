"""gcsfs as fastload sets it up, of every version."""

from __future__ import annotations

import asyncio

from gcsfs.core import GCSFileSystem

from fastload import IO
from fastload.source.stores.fsspec_store import _prepare_gcs


def test_gcsfs_without_client_certificates_gets_a_session():
    """The attribute that tells of client certificates came after gcsfs 2026.6."""

    async def session_of_old():
        loop = asyncio.get_running_loop()
        options = {"asynchronous": True, "loop": loop, "skip_instance_cache": True}
        filesystem = GCSFileSystem(token="anon", **options)
        vars(filesystem).pop("_use_client_cert", None)
        await _prepare_gcs(filesystem, IO(concurrency=3))
        async with filesystem._session as session:
            return session.connector.limit

    assert asyncio.run(session_of_old()) == 3
