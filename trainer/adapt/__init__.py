"""Adapting the base model to a user's own chats: `chats.adapt_to_chats` has the steps.

language                  the language of the log, and whether the base knows it
adaptation                a model is adapted, and its run's folder written
start, frozen             the model that training starts from; a pretrained encoder that is not trained
context                   the weights of earlier turns
selection                 the point between start and trained weights, and its gain over the base
cross_validation          the trainings that choose the point, on folds or on a dev split
joint                     joins the adapted base and another adapted encoder
replies, suggestions      the index of replies, its weights and its calibration
comparison                the adapted model beside the base and other systems
"""
