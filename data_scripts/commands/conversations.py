"""Turn chat logs (tables, exports of chat programs, mailboxes) into a filtered dataset of pairs with splits.

A table is CSV (.csv or .txt, separated by commas, semicolons, tabs or pipes), TSV (tabs, no quoting), JSON Lines, a
JSON array or Parquet; text files may be compressed (.xz, .gz, .bz2, .zst). A dataset on the Hub (OWNER/NAME,
OWNER/NAME:CONFIG, OWNER/NAME@REVISION) is a table too: all of its splits are streamed. The columns (in JSON, the fields
of the first record) determine which of four forms a table has. --columns assigns roles to columns. Without it, columns
are matched to roles by name, and the other roles are guessed; `convsim inspect` shows the result:

  ready pairs         input, response
      convsim data conversations chats.tsv.xz more.parquet -o data/chats
      convsim data conversations sentence-transformers/gooaq --columns input=question response=answer -o gooaq
  reply links         id, parent (the id of the message answered), text
      convsim data conversations forum.csv --columns parent=in_reply_to text=body -o data/forum
  threads in order    thread, text
      convsim data conversations calls.jsonl --columns thread=call.id speaker=from -o data/calls
  one chat            text, speaker, time
      convsim data conversations chat.csv --gap 2h -o data/chat

A record of JSON or Parquet can also be a whole conversation, with its messages in a list named comments, turns,
utterances or similar. Each message is a text, or an object with a text and a speaker or a time. If a .json file
contains one object, the records are its only list of objects.

The columns thread, speaker, time and source are optional. Without times (or positions), the messages of a thread are
read in file order. Encodings, delimiters and the order of day and month in dates are detected and reported. If that
order is ambiguous, the command stops with an error; state the order with --date_order.

These exports are recognized: WhatsApp's text (.txt, or the .zip that contains it), Telegram Desktop's JSON, Messenger's
and Instagram's message_1.json, Google Chat's messages.json, a Slack export (.zip or folder), DiscordChatExporter's
JSON, chat messages with roles such as user and assistant (JSON Lines, Parquet), ConvoKit's utterances.jsonl, subtitles
of calls with names (.vtt, .srt), mailboxes (.mbox; replies are linked across files), and transcripts (.txt, .log) with
lines such as `<ann> hello` or `Ann: hello`, or with the time and the name above the text.

In a thread, consecutive messages by the same speaker form a turn, and each turn answers the previous one. A speaker's
replies to the same message, or to their own message, also form a turn, unless somebody else answers in between. With
--repliers, only replies by the given authors become pairs, such as the agents of a support log. Without names,
--repliers selects the side that answers, according to a column of sides (customer, agent) or of flags (inbound,
is_staff). Both texts of a pair must pass the filters. By default, these remove only deleted, empty and very long texts;
--filters paper applies the paper's rules, which are the default of the reddit command. The default filters also strip
salutations, signatures, device footers and addressees, replace speakers' names by [name], and leave out automatic
messages that are sent before a person answers; --keep_salutations turns this off. The messages and texts left out are
counted; the counts are printed and written to OUTPUT/report.json.

The column context of a pair contains the turns before its input, the newest first (--context N): the turn that the
input answers, the turn before that, and so on, in the same thread and without removed turns. A ready pair has a context
if it directly follows another pair in the file and its input is the response of that pair.

Pairs are split by thread. In data without threads, messages that answer each other form a thread, and so do ready pairs
of the same source if they share a text of more than 20 characters, or if a pair directly follows another and its input
is a text of that pair. If ordered messages have fewer than 100 threads, long threads are divided.
"""

import argparse

from data_scripts.chats.conversations import ConversationOptions, add_reading_arguments, prepare_conversations
from data_scripts.pairs.options import add_output_arguments, check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_reading_arguments(parser)
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Write the pairs of the logs, and publish them if the user asks for it."""
    check_output(args)
    prepare_conversations(args.files, ConversationOptions.from_arguments(args), args.output)
    from data_scripts.pairs.dataset import push  # imported here, so that --help and errors do not wait for it

    push(args)
