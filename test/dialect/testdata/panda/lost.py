"""Runs an exec and a stream in a sandbox that somebody deletes meanwhile, and says how they end."""

import sys
import threading

from pandastack import Client


def attempt(call, *args):
    try:
        return f"returned {call(*args)!r}"
    except Exception as e:
        return f"{type(e).__name__} {str(e).split(':')[0]}"


def main(sandbox_id):
    ends = {}
    threads = []
    for name, verb in (("exec", "exec"), ("stream", "exec_stream")):
        call = getattr(Client().sandboxes.get(sandbox_id), verb)

        def run(name=name, call=call):
            ends[name] = attempt(call, f"touch /tmp/{name}; sleep 600")

        threads.append(threading.Thread(target=run))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name in ("exec", "stream"):
        print(f"{name}: {ends[name]}")


if __name__ == "__main__":
    main(sys.argv[1])
