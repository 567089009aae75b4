"""The rules that remove a text, counted, and the cleaning and masking of what stays."""
