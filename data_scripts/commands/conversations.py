"""Turn chat logs (tables, exports of chat programs, mailboxes) into a filtered dataset of pairs with splits.

A table is CSV (.csv or .txt, with commas, semicolons, tabs or pipes), TSV (tabs, no quoting), JSON lines, a JSON array
or Parquet; text may be compressed (.xz, .gz, .bz2, .zst). Or it is a dataset on the Hub (OWNER/NAME, OWNER/NAME:CONFIG,
OWNER/NAME@REVISION), all splits of which are read, without a copy on the disk. Its columns (in JSON, the fields of the
first record) determine which of four shapes it has; --columns tells which column has which role. Without --columns,
roles that no column is named after are guessed; the command inspect shows what is guessed:

  ready pairs         input, response
      convsim data conversations chats.tsv.xz more.parquet -o data/chats
      convsim data conversations sentence-transformers/gooaq --columns input=question response=answer -o gooaq
  reply links         id, parent (the id of the message answered), text
      convsim data conversations forum.csv --columns parent=in_reply_to text=body -o data/forum
  threads in order    thread, text
      convsim data conversations calls.jsonl --columns thread=call.id speaker=from -o data/calls
  one chat            text, speaker, time
      convsim data conversations chat.csv --gap 2h -o data/chat

A record of JSON or Parquet may also be a whole conversation: its messages are in its list comments, turns, utterances
or the like. They are texts, or objects with a text, and a speaker or a time. If a .json file is one object, its only
list of objects has the records.

The columns thread, speaker, time and source are read too if the table has them. Without times (or positions) the
messages of a thread are in the order of the file. Encodings, delimiters and the order of day and month in dates are
detected and reported; if no date shows that order, the file is refused until --date_order states it.

These exports are recognized: WhatsApp's text (.txt, or the .zip that holds it), Telegram Desktop's JSON, Messenger's
and Instagram's message_1.json, Google Chat's messages.json, a Slack export (its .zip or folder), DiscordChatExporter's
JSON, messages with roles as assistants have them (JSON lines, Parquet), ConvoKit's utterances.jsonl, transcripts (.txt,
.log) with lines such as `<ann> hello` or `Ann: hello`, or with the time and the name above the text, subtitles of calls
with names (.vtt, .srt), and mailboxes (.mbox). A mail may answer one of another file.

In a thread, consecutive messages of the same speaker form a turn, and each turn answers the turn before it. So do
replies of a speaker to the same message or to an own one, unless somebody answers in between. With --repliers, only the
replies of the authors named become pairs, such as those of the agents in a support log; without names, those of the
side that answers, as a column of sides (customer, agent) or one such as inbound or is_staff says. Both texts of a pair
must pass the filters, which by default remove only deleted, empty and very long texts; the paper's rules, the default
of the reddit command, are --filters paper. With the default filters, salutations, signatures, device footers and
addressees are removed from texts, names of speakers become [name], and the messages that a program sends before a
person answers are left out; --keep_salutations keeps all of them. The messages and texts that are left out are counted;
the counts are printed and written to OUTPUT/report.json.

The column context of a pair has the turns before its input, the newest first (--context N): the turn that the input
answers, the turn that this one answers, and so on, in the same thread and without those that the filters remove. Ready
pairs have it if they follow each other in the file and the later one begins with the response of the one before it.

Pairs are split by thread. In data without threads, messages that answer each other form a thread, and so do ready pairs
of the same source that share a text of more than 20 characters, or that follow each other in the file if the later one
begins with a text of the one before it. Where messages in order are in fewer than 100 threads, long ones are divided.
"""

import argparse

from data_scripts.chats.conversations import ConversationOptions, add_reading_arguments, prepare_conversations
from data_scripts.pairs.options import add_output_arguments, check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_reading_arguments(parser)
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Write the pairs of the logs, and publish them if that is asked for."""
    check_output(args)
    prepare_conversations(args.files, ConversationOptions.from_arguments(args), args.output)
    from data_scripts.pairs.dataset import push  # imported here, so that --help and errors do not wait for it

    push(args)
