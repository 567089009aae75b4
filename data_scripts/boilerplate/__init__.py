"""Finds the parts of a text that are not its message: salutations, signatures, quotations, names, notices."""
