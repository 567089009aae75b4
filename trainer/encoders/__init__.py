"""Trained sentence encoders behind one protocol: ConvSim models, and any SentenceTransformer."""
