"""Adapts the base model to a user's own chats: `chats.adapt_to_chats` has the steps.

language                  the language of the log, and whether the base knows it
adaptation                adapts a model, and writes its run's folder
start, frozen             the model that training starts from; frozen pretrained encoders
context                   the weights of earlier turns
selection                 selects the interpolation of initial and trained weights; its gain over the base
cross_validation          trains on folds, or on a training split with a dev split, to select the interpolation
joint                     combines the adapted base and another adapted encoder
replies, suggestions      the index of replies, its weights and its calibration
comparison                compares the adapted model with the base and other systems
"""
