"""The data of a run: datasets, token cache, positive pairs, word vectors, embeddings of a teacher."""
