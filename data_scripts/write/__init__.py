"""Writes pairs and other datasets as Parquet: splits, shards, report, card, Hub."""
