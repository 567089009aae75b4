"""The papers' tables and figures, from our runs; the baselines of word vectors that the papers compare with."""
