"""Bytes to records: files, Reddit dumps, tables, chat exports, datasets of the Hub."""
