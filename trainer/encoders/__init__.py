"""Trained sentence encoders behind one protocol: ConvSim models, any SentenceTransformer, and PV-DBOW."""
