"""Reads files into records, messages and comments; loads datasets by folder or from the Hub."""
