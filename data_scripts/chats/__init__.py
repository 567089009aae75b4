"""A user's own chat logs become pairs: `conversations.prepare_conversations` has the steps.

logs           the options that name logs; finds the format of each log, and reads it
sample         the beginning of a log, from which its format is recognized
formats/       one format of a chat program a file: what it looks like, and how it is read
tables         records with columns that have roles, such as text, speaker and thread
column_roles   guesses the roles of columns
dates          detects the order of day and month
nested, cells  conversations within a record, and transcripts in the cells of a table, as records of a table
messages       `Message`, `Pair`, and `ChatLog`, which counts what is left out
automatic      finds messages that a program sends, which are left out
joining        makes pairs of stored messages: turns, answers, filters
turns          joins messages to turns, and finds the turn that each one answers
links          reads reply links with another prefix than the ids; says what to do about those that lead nowhere
threads        names threads for pairs that have none
"""
