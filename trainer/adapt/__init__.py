"""Adapting the base model to a user's own chats: `python -m trainer.adapt`.

`chats.py` does all steps: pairs of the logs, training, comparison, index of replies. `adaptation.py` is the training
run, a hook of `trainer.training`; `start.py` prepares the model, `cross_validation.py` chooses for a few pairs, and
`interpolation.py` has the weights between start and result. `comparison.py` and `replies.py` follow the training.
"""
