"""Commands that turn dumps, chat logs and public datasets into the datasets that the trainer reads.

Each folder imports only from those below it:

commands/           one file a command
sample/             the sample dataset that ships with the project
chats/, reddit/     chat logs to pairs; Reddit dumps to comments and pairs
public/             one file a kind of public dataset, which is a command too
pairs/              what writes a dataset of pairs: engines (DuckDB, Spark), splits, shards, card
boilerplate/        salutations, signatures, names and notices: what of a text is not the message
clean/              counted filter rules; text cleaning, language, masking, leakage

`loading` loads datasets, `rows` and `dataset_folders` read and write those of public kinds, `schemas` has the columns
of all files that the commands write, and `public_datasets` the catalog of downloads.
"""
