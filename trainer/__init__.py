"""Trains, evaluates and publishes sentence encoders. Each line imports only from those below it.

console                         the script `convsim`, which runs the commands of all packages
run                             one run with the settings of a preset
report/                         the papers' tables and figures
adapt/                          from your own chats to an adapted model, a comparison and an index of replies
export/                         a saved model as ONNX
training/                       a run: `train.py` has its steps, `loop.py` the training loop
publish/                        the published folder, its card, its upload
tasks/                          one file per task: its datasets, batches and loss
evaluation/                     one file per evaluator; baselines; `metrics/` has `evaluate` modules
data/                           the datasets of a run, the token cache, word vectors, teachers
encoders/                       saved encoders of all kinds behind one protocol
runs                            a run's folder
processes                       device, precision and threads; communication between processes
settings                        every option of a run, from a preset in `presets/` and the command line
"""

import os

# Set before torch is imported: waiting OpenMP threads sleep. On a busy core, spinning threads would take time from the
# thread that they wait for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
