"""The guard over transcripts that exist already: what it would have replayed, noted, ended."""
