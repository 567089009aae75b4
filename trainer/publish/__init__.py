"""Publishing on the Hub: the model folder, its card, Spaces."""
