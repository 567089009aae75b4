"""From chat logs to a model of one's own, in one command: data, training, comparison and an index of replies."""
