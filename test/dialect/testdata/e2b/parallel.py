"""Follows 200 commands in 20 sandboxes at once through one process, with the asynchronous SDK."""

import asyncio

from e2b import AsyncSandbox, CommandExitException

SANDBOXES, STREAMS, LINES = 20, 200, 50


async def main():
    made = await asyncio.gather(*(AsyncSandbox.create("minimal", timeout=600) for _ in range(SANDBOXES)))
    begun, all_open = set(), asyncio.Event()

    async def follow(n):
        def heard(_):
            begun.add(n)
            if len(begun) == STREAMS:
                all_open.set()

        script = (
            "echo start; while ! [ -e /tmp/go ]; do sleep 5; done; i=0; "
            f"while [ $i -lt {LINES} ]; do echo {n}-$i; echo e$i >&2; i=$((i+1)); done; exit {n % 100}"
        )
        sbx = made[n % SANDBOXES]
        handle = await sbx.commands.run(script, background=True, timeout=0, request_timeout=120, on_stdout=heard)
        try:
            r = await handle.wait()
        except CommandExitException as e:
            r = e
        assert r.exit_code == n % 100, r
        assert r.stdout == "start\n" + "".join(f"{n}-{i}\n" for i in range(LINES)), r.stdout
        assert r.stderr == "".join(f"e{i}\n" for i in range(LINES)), r.stderr

    try:
        streams = asyncio.gather(*(follow(n) for n in range(STREAMS)))
        opened = asyncio.ensure_future(all_open.wait())
        await asyncio.wait([streams, opened], return_when=asyncio.FIRST_COMPLETED)  # a stream that fails ends the wait
        print("all streams are open", flush=True)
        await asyncio.gather(*(sbx.files.write("/tmp/go", "") for sbx in made))
        await streams
    finally:
        await asyncio.gather(*(sbx.kill() for sbx in made))
    print(f"{STREAMS} streams in {SANDBOXES} sandboxes")


asyncio.run(main())
