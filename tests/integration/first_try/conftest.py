"""Settings of the first programs: small models, which more threads would slow down."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Torch computes on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
