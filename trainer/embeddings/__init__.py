"""Word vectors by gensim, the papers' baselines."""
