"""Follows 200 commands in 20 sandboxes at once through one client, each in a thread of its own."""

import sys
import threading

from pandastack import Client

SANDBOXES, STREAMS, LINES = 20, 200, 50


def main():
    client = Client(timeout=120)
    client.session.mount("http://", __import__("requests").adapters.HTTPAdapter(pool_connections=1, pool_maxsize=STREAMS))
    made, failures = [], []

    def create():
        try:
            made.append(client.sandboxes.create(template="minimal", metadata={"test": "parallel"}))
        except Exception as e:
            failures.append(f"create: {e!r}")

    run([threading.Thread(target=create) for _ in range(SANDBOXES)])
    # Every command waits until all of them run, which a file in its sandbox tells, so they are open at the same time. It looks seldom: starting
    # sleep 200 times a second would take more than the two cores that the test may have.
    started = threading.Barrier(STREAMS + 1)

    def follow(n):
        sb, out, err = made[n % SANDBOXES], [], []
        first = threading.Event()

        def on_stdout(chunk):
            out.append(chunk)
            if not first.is_set():
                first.set()
                started.wait(100)

        script = f"echo start; while ! [ -e /tmp/go ]; do sleep 5; done; i=0; while [ $i -lt {LINES} ]; do echo {n}-$i; echo e$i >&2; i=$((i+1)); done; exit {n % 100}"
        try:
            code = sb.exec_stream(script, on_stdout=on_stdout, on_stderr=err.append)
            want = "start\n" + "".join(f"{n}-{i}\n" for i in range(LINES))
            if (code, "".join(out), "".join(err)) != (n % 100, want, "".join(f"e{i}\n" for i in range(LINES))):
                failures.append(f"stream {n}: exit code {code}, {out!r}")
        except Exception as e:
            failures.append(f"stream {n}: {e!r}")
            started.abort()

    try:
        if not failures:
            threads = [threading.Thread(target=follow, args=(n,)) for n in range(STREAMS)]
            for t in threads:
                t.start()
            try:
                started.wait(100)
                print("all streams are open")
            except threading.BrokenBarrierError:
                failures.append("not all streams were open after 100 s, or one failed")
            for sb in made:
                sb.filesystem.write("/tmp/go", "")
            for t in threads:
                t.join()
    finally:
        run([threading.Thread(target=sb.kill) for sb in made])
    if failures:
        sys.exit("\n".join(failures[:10]))
    print(f"{STREAMS} streams in {len(made)} sandboxes")


def run(threads):
    for t in threads:
        t.start()
    for t in threads:
        t.join()


if __name__ == "__main__":
    main()
