"""A user's own chat logs become pairs: exports, tables, JSON or datasets on the Hub.

export -> `Sample` -> `Format` or table -> messages -> turns -> pairs

  logs           the options that name logs; which format a log has; reads it
  sample         the beginning of a log, taken once: encoding, first lines, first records
  formats/       one format of a chat program a file: whether a sample matches it, and how it is read
  notices        what WhatsApp and other programs write in place of a message, in their languages
  tables         records with columns that have roles, such as text, speaker and thread
  roles, dates   guess the roles of columns; detect the order of day and month
  nested, cells  conversations within a record, and in the cells of a table, as records of a table
  messages       `Message`, `Pair`, and `ChatLog`, which counts what is left out; fields of programs' records
  turns          joins messages to turns, finds the turn that each one answers and who answers
  links          says why replies name messages that are not there
  threads        names threads for pairs that have none
  conversations  `prepare_conversations`: logs to a dataset of pairs
"""
