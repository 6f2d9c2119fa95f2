"""What the tests of the ensemble trainer share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: more threads only wait for each other, and for the other tests' threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
