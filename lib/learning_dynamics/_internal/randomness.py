"""PyTorch's global generator, for what takes no other: seeded for a while and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def global_seed(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed the global generators of the CPU and of `device` inside a `with` block, and put them back afterwards."""
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
