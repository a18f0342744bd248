"""Which build of the package is tested: the interpreted one, or the compiled one."""

import pytest

from repeatguard_sdk._locking import COMPILED

# A fault is put into the guard by replacing one of its methods, which compiled code does not look up.
interpreted_only = pytest.mark.skipif(
    COMPILED, reason="the methods of a compiled guard cannot be replaced"
)
