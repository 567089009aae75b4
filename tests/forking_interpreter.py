"""The process of `forking.Interpreter`: `python forking_interpreter.py LIBRARY …`, then a request per line of stdin."""

import gc
import importlib
import json
import os
import sys
import tempfile
import traceback


def serve() -> None:
    del sys.path[0]  # the folder of this file
    gc.disable()  # of what is imported, nothing is garbage
    for library in sys.argv[1:]:
        importlib.import_module(library)
    gc.freeze()
    gc.enable()
    answers = os.dup(1)
    for line in sys.stdin:
        os.write(answers, (json.dumps(run(*json.loads(line))) + "\n").encode())


def run(code: str, arguments: list[str], cwd: str, path: str, variables: dict[str, str]) -> tuple[int, str, str]:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            os.environ |= variables
            os.chdir(cwd)
            sys.path.insert(0, path)
            sys.argv = ["-c", *arguments]
            status = 0
            try:
                exec(code, {"__name__": "__main__"})
            except SystemExit as ended:
                status = ended.code if isinstance(ended.code, int) else 1
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, status = os.waitpid(child, 0)
        for file in (output, errors):
            file.seek(0)
        return os.waitstatus_to_exitcode(status), output.read(), errors.read()


if __name__ == "__main__":
    serve()
