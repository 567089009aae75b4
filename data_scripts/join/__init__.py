"""Records to pairs: replies, turns, threads, on one of several engines."""
