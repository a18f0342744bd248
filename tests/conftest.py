"""How the tests are run: the same examples each time, unless somebody goes looking for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

# A run that fails must fail again. `HYPOTHESIS_PROFILE=search` draws other examples each time.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
