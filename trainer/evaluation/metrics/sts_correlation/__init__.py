"""Pearson and Spearman correlation with gold similarity, whole and by group."""
