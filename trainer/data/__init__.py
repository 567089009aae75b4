"""What a run reads: its datasets, the token cache, positive pairs, word vectors, a teacher's embeddings."""
