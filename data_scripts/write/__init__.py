"""Pairs and other datasets to Parquet: splits, shards, report, card, Hub."""
