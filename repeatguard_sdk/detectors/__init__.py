"""The detectors: pure functions over a view of the ledger, one file each."""
