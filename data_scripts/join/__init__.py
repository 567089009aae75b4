"""Joins records to pairs: replies, turns and threads, on one of several engines."""
