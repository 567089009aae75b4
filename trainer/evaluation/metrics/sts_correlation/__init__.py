"""Pearson and Spearman correlation with gold similarity, in total and by group."""
