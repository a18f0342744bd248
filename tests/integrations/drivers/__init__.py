"""One driver a framework: how the contract's cases are played in it.

A module here imports its framework at its top and lists its drivers in `DRIVERS`. It is found by
`_driver.drivers`; where its framework is not installed, its cases are skipped with that reason.
"""
