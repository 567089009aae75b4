"""What is published: the model folder, its card, Spaces."""
