"""What a program does inside a sandbox with the official Python SDK. It fails loudly, and prints "ok" at its end."""

import asyncio
import io
import os
from concurrent.futures import ThreadPoolExecutor

import e2b
from e2b import AsyncSandbox, CommandExitException, NotFoundException, Sandbox

HOME, USER = os.environ["CLIENT_HOME"], os.environ["CLIENT_USER"]


def raises(kind, call, check=lambda e: True):
    try:
        call()
    except kind as e:
        assert check(e), e
        return
    raise AssertionError("no " + kind.__name__)


def everything():
    sandbox = Sandbox.create(timeout=60)
    commands, files = sandbox.commands, sandbox.files
    assert sandbox.is_running()

    hello = commands.run("echo out; echo err >&2; echo $A", envs={"A": "é"}, cwd="/")
    assert (hello.exit_code, hello.stdout, hello.stderr) == (0, "out\né\n", "err\n"), hello
    raises(CommandExitException, lambda: commands.run("exit 3"), lambda e: e.exit_code == 3)
    raises(CommandExitException, lambda: commands.run("kill -9 $$"), lambda e: e.exit_code == -1)
    raises(e2b.TimeoutException, lambda: commands.run("sleep 30", timeout=0.3))
    raises(e2b.InvalidArgumentException, lambda: commands.run("true", cwd="/no/such/dir"))
    raises(e2b.AuthenticationException, lambda: commands.run("true", user="no-such-user"))
    assert commands.run("id -un", user=USER).stdout == USER + "\n"
    assert len(commands.run("head -c 3000000 /dev/zero | tr '\\0' x").stdout) == 3000000

    cat = commands.run("cat; exit 4", background=True, stdin=True)
    commands.send_stdin(cat.pid, "typed\n")
    commands.close_stdin(cat.pid)
    raises(CommandExitException, cat.wait, lambda e: (e.exit_code, e.stdout) == (4, "typed\n"))
    sleeper = commands.run("sleep 100", background=True, timeout=0)
    assert [p.pid for p in commands.list()] == [sleeper.pid]
    sleeper.disconnect()
    again = commands.connect(sleeper.pid)
    assert commands.kill(sleeper.pid)
    raises(CommandExitException, again.wait, lambda e: e.exit_code == -1)
    assert not commands.kill(sleeper.pid)

    term = sandbox.pty.create(e2b.PtySize(rows=20, cols=60), timeout=20)
    sandbox.pty.send_stdin(term.pid, b"stty size; exit 7\n")
    screen = []
    raises(CommandExitException, lambda: term.wait(on_pty=screen.append), lambda e: e.exit_code == 7)
    assert b"20 60" in b"".join(screen), screen

    assert files.write("dir/sub/one.txt", "one").path == HOME + "/dir/sub/one.txt"
    assert files.read("dir/sub/one.txt") == "one"
    files.write("empty", "")
    assert files.read("empty") == ""
    data = bytes(i % 251 for i in range(300_000))
    files.write("bytes", data)
    assert bytes(files.read("bytes", format="bytes")) == data
    assert b"".join(files.read("bytes", format="stream")) == data
    files.write("stream", io.BytesIO(data))
    assert bytes(files.read("stream", format="bytes")) == data
    files.write("packed", "zip me", gzip=True)
    assert files.read("packed", gzip=True) == "zip me"
    many = files.write_files([{"path": "many/a", "data": "a"}, {"path": 'many/ü "b"', "data": b"b"}])
    assert [f.name for f in many] == ["a", 'ü "b"'], many
    assert files.read('many/ü "b"') == "b"
    raises(NotFoundException, lambda: files.read("none"))
    raises(e2b.InvalidArgumentException, lambda: files.read("dir"))

    assert files.make_dir("made/deep")
    assert not files.make_dir("made/deep")
    assert files.exists("made") and not files.exists("none")
    commands.run("ln -s dir/sub/one.txt link", cwd=HOME)
    link = files.get_info("link")
    assert (link.symlink_target, link.permissions, link.mode) == (HOME + "/dir/sub/one.txt", "Lrwxrwxrwx", 0o644), link
    assert [f.path for f in files.list("dir", depth=3)] == [HOME + "/dir/sub", HOME + "/dir/sub/one.txt"]
    assert files.rename("dir/sub/one.txt", "other/place").name == "place"
    files.remove("dir")
    files.remove("dir")
    watch = files.watch_dir("made")
    files.write("made/f", "x")
    while "f" not in [e.name for e in watch.get_new_events()]:
        pass
    watch.stop()

    with ThreadPoolExecutor(40) as pool:
        assert list(pool.map(lambda i: commands.run(f"echo {i}").stdout, range(60))) == [f"{i}\n" for i in range(60)]


async def at_once():
    sandbox = await AsyncSandbox.create(timeout=60)
    results = await asyncio.gather(*(sandbox.commands.run(f"echo {i}") for i in range(60)))
    assert [r.stdout for r in results] == [f"{i}\n" for i in range(60)]
    handle = await sandbox.commands.run("while :; do echo x; done", background=True)
    assert await handle.kill()
    await sandbox.files.write("async", "x")
    assert await sandbox.files.read("async") == "x"


everything()
asyncio.run(at_once())
print("ok")
os._exit(0)
