"""What all tests of the library share: how hypothesis searches."""

from __future__ import annotations

from hypothesis import settings

# A run on one thread is as slow as its neighbours make it, and must find the same examples each time.
settings.register_profile("library", max_examples=20, deadline=None, derandomize=True)
settings.load_profile("library")
