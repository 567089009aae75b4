"""Mean average precision with the conventions of the SemEval cQA scorer."""
