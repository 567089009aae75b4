"""Sentence encoders that are already trained: ours, any SentenceTransformer, and PV-DBOW, behind one protocol."""
