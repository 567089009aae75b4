"""Joins comments and messages to pairs, on one of several engines: replies, turns and threads."""
