"""Converts dumps of Reddit to comments, and joins each reply to the comment that it answers."""
