"""What of a text is not its message: salutations, signatures, quotations, names, notices of programs."""
