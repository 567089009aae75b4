"""Trains, evaluates and publishes sentence encoders. Each line imports only from those below it.

console                         the script `convsim`, which runs the commands of all packages
run                             one run with the settings of a preset
report/                         the papers' tables and figures
adapt/                          from own chats to an adapted model, a comparison and an index of replies
export/                         a saved model as ONNX
training/                       a run: `train.py` has its steps, `loop.py` the training loop
publish/                        the published folder, its card, its upload
tasks/                          one file a task: its datasets, batches and loss
evaluation/                     one file an evaluator; baselines; `metrics/` has `evaluate` modules
data/                           the datasets of a run, the token cache, word vectors, teachers
encoders/                       saved encoders of all kinds behind one protocol
runs                            a run's folder
processes                       device, precision and threads; what several processes exchange
settings                        every option of a run, from a preset in `presets/` and the command line
"""

import os

# Threads of OpenMP that wait for each other sleep, before torch is imported: on a busy core, spinning takes the time of
# the thread that is waited for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
