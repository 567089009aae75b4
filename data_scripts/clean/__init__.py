"""The rules that remove texts; measuring, cleaning, normalizing and masking the others."""
