"""Computes, filters, splits and writes datasets of pairs, with DuckDB or Spark."""
