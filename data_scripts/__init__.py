"""Commands that turn dumps, chat logs and public datasets into the datasets that the trainer reads.

Each folder imports only from those below it:

commands/           one file per command
sample/             the sample dataset that ships with the project
chats/, reddit/     chat logs to pairs; Reddit dumps to comments and pairs
public/             one file per kind of public dataset, each of which is also a command
pairs/              writing a dataset of pairs: engines (DuckDB, Spark), splits, shards, card
boilerplate/        salutations, signatures, names and notices: parts of a text that are not its message
clean/              counted filter rules; text cleaning, language, masking, leakage

`loading` loads datasets, `rows` and `dataset_folders` read and write those of public kinds, `schemas` has the columns
of all files that the commands write, and `public_datasets` the catalog of downloads.
"""
