"""The calls of E2B's asynchronous Python SDK whose way to the server differs from that of the other one (calls.py)."""

import asyncio
import os
import sys

from e2b import AsyncSandbox, CommandExitException, FileNotFoundException, SandboxNotFoundException, SandboxQuery, TimeoutException


async def raises(kind, call):
    try:
        got = await call
    except kind as e:
        return e
    raise AssertionError(f"no {kind} but {got!r}")


async def main():
    run = {"run": os.environ["RUN"] + "-async"}
    sbx = await AsyncSandbox.create("base", timeout=120, metadata=run, envs={"GREETING": "hello"})
    assert await sbx.is_running()
    assert (await sbx.get_info()).metadata == run
    await sbx.set_timeout(200)
    await AsyncSandbox.connect(sbx.sandbox_id)
    pages = AsyncSandbox.list(query=SandboxQuery(metadata=run))
    assert [s.sandbox_id for s in await pages.next_items()] == [sbx.sandbox_id] and not pages.has_next
    print("ok control plane")

    assert (await sbx.commands.run("echo $GREETING")).stdout == "hello\n"
    assert (await raises(CommandExitException, sbx.commands.run("exit 7"))).exit_code == 7
    await raises(TimeoutException, sbx.commands.run("sleep 100", timeout=1))
    outputs = await asyncio.gather(*(sbx.commands.run(f"echo {i}") for i in range(30)))
    assert [o.stdout for o in outputs] == [f"{i}\n" for i in range(30)]
    cat = await sbx.commands.run("cat", background=True, stdin=True)
    assert cat.pid in [p.pid for p in await sbx.commands.list()]
    await sbx.commands.send_stdin(cat.pid, "one\n")
    await sbx.commands.close_stdin(cat.pid)
    assert (await cat.wait()).stdout == "one\n"
    sleeper = await sbx.commands.run("sleep 1000", background=True)
    assert await sbx.commands.kill(sleeper.pid) is True
    await raises(CommandExitException, sleeper.wait())
    print("ok commands")

    await sbx.files.write("a/b", "c")
    assert await sbx.files.read("a/b") == "c"
    assert b"".join([part async for part in await sbx.files.read("a/b", format="stream")]) == b"c"
    assert [e.name for e in await sbx.files.list("a")] == ["b"]
    await sbx.files.rename("a/b", "a/d")
    assert await sbx.files.exists("a/d") and await sbx.files.make_dir("e")
    await sbx.files.remove("a")
    await raises(FileNotFoundException, sbx.files.read("a/d"))
    seen = []
    handle = await sbx.files.watch_dir("e", on_event=lambda e: seen.append((e.type.value, e.name)))
    await sbx.files.write("e/f", "x")
    while ("write", "f") not in seen:
        await asyncio.sleep(0.02)
    assert ("create", "f") in seen, seen
    await handle.stop()
    print("ok files")

    waits = asyncio.create_task(raises(TimeoutException, sbx.commands.run("sleep 1000")))
    while not any("sleep 1000" in " ".join(p.args) for p in await sbx.commands.list()):
        await asyncio.sleep(0.02)
    assert await sbx.kill() is True
    await asyncio.wait_for(waits, 15)
    assert await sbx.is_running() is False and await sbx.kill() is False
    await raises(SandboxNotFoundException, sbx.get_info())
    print("ok the end")


sys.exit(asyncio.run(main()))
