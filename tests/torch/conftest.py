# SPDX-License-Identifier: Apache-2.0
"""One thread, deterministic kernels, and a cache of this run's own. REMORA_ALL_CASES=1 runs the slow tests, too.

Where REMORA_TEST_DEVICE is not the CPU, everything that a test makes lies there, unless the test says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import checking
import pytest
import torch

checking.use_device()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: runs with REMORA_ALL_CASES=1 only")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("REMORA_ALL_CASES"):
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]


@pytest.fixture(autouse=True, scope="session")
def deterministic(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything below is compared bit by bit."""
    os.environ.setdefault("REMORA_CACHE", str(tmp_path_factory.mktemp("cache")))
    torch.set_num_threads(1)
    on_gpu = checking.DEVICE.type == "cuda"  # where some kernels have no deterministic form
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=on_gpu)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test captures anew, with the same weights each time."""
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
