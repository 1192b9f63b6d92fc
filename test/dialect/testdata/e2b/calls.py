"""Every call of E2B's Python SDK that docs/dialects/e2b.md says works, once, with what its caller is told.

It finds the server as the SDK does, by its environment.
"""

import datetime
import os
import re
import sys
import time
import traceback
import urllib.error
import urllib.request

from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    InvalidArgumentException,
    PtySize,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    Template,
    TimeoutException,
)

RUN = os.environ["RUN"]
failed = []


def check(f):
    try:
        f()
    except BaseException:
        traceback.print_exc()
        print(f"FAIL {f.__name__}", flush=True)
        failed.append(f.__name__)
        return
    print(f"ok {f.__name__}", flush=True)


def raises(kind, f, words=""):
    try:
        got = f()
    except kind as e:
        assert re.search(words, str(e)), f"{e!r} doesn't say {words!r}"
        return e
    raise AssertionError(f"no {kind} but {got!r}")


def http_status(url):
    try:
        return urllib.request.urlopen(url).status
    except urllib.error.HTTPError as e:
        return e.code


def left(info):
    return (info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


sbx = Sandbox.create("base", timeout=120, metadata={"a b": "c&d=e", "run": RUN}, envs={"GREETING": "hello"})


@check
def info():
    i = sbx.get_info()
    assert (i.sandbox_id, i.name, i.state) == (sbx.sandbox_id, "base", SandboxState.RUNNING), i
    assert i.metadata == {"a b": "c&d=e", "run": RUN}
    assert 100 < left(i) <= 121
    assert i.memory_mb > 0 and i.cpu_count > 0 and i.allow_internet_access is False
    assert sbx.is_running()


@check
def timeout():
    sbx.set_timeout(300)
    assert left(sbx.get_info()) > 290
    Sandbox.set_timeout(sbx.sandbox_id, 200)
    assert 190 < left(sbx.get_info()) < 201


@check
def connect():
    again = Sandbox.connect(sbx.sandbox_id, timeout=1)
    assert left(again.get_info()) > 180, "connect has shortened a life"
    assert again.commands.run("echo $GREETING").stdout == "hello\n"
    sbx.connect(timeout=400)
    assert left(sbx.get_info()) > 390, "connect has not lengthened a life"


@check
def lists():
    others = [Sandbox.create("base", metadata={"run": RUN, "i": str(i)}) for i in range(3)]

    def pages(query=None, **opts):
        found, p = [], Sandbox.list(query=query, **opts)
        while p.has_next:
            found.append([s.sandbox_id for s in p.next_items()])
        return found

    run = {"run": RUN}
    newest = pages(SandboxQuery(metadata=run), limit=3)
    assert [len(p) for p in newest] == [3, 1] and newest[1] == [sbx.sandbox_id], newest
    oldest = pages(SandboxQuery(metadata=run), limit=2, order="asc")
    assert sum(oldest, []) == sum(newest, [])[::-1]
    assert pages(SandboxQuery(metadata={"a b": "c&d=e", **run}, state=[SandboxState.RUNNING])) == [[sbx.sandbox_id]]
    assert pages(SandboxQuery(metadata=run, state=[SandboxState.PAUSED])) == [[]]
    now = datetime.datetime.now(datetime.timezone.utc)
    hour = datetime.timedelta(hours=1)
    assert len(sum(pages(SandboxQuery(metadata=run, template="base", started_after=now - hour)), [])) == 4
    assert pages(SandboxQuery(metadata=run, started_after=now + hour)) == [[]]
    assert pages(SandboxQuery(metadata=run, template="nothing")) == [[]]
    assert [o.kill() for o in others] == [True] * 3


@check
def metrics():
    (m,) = sbx.get_metrics()
    assert m.mem_total >= m.mem_used > 0 and 0 <= m.cpu_used_pct <= 100 and m.cpu_count > 0, m
    long_ago = datetime.datetime.fromtimestamp(1000)
    assert sbx.get_metrics(start=long_ago, end=long_ago) == []


@check
def foreground():
    seen = []
    r = sbx.commands.run('echo out; echo err >&2; printf "%s" "$A"', envs={"A": "é"}, on_stdout=seen.append)
    assert (r.exit_code, r.stdout, r.stderr) == (0, "out\né", "err\n"), r
    assert "".join(seen) == r.stdout
    assert sbx.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    assert sbx.commands.run("id -un", user="root").stdout == "root\n"
    e = raises(CommandExitException, lambda: sbx.commands.run("echo no; exit 7"))
    assert (e.exit_code, e.stdout) == (7, "no\n")
    assert raises(CommandExitException, lambda: sbx.commands.run("kill -9 $$")).exit_code != 0
    raises(AuthenticationException, lambda: sbx.commands.run("true", user="nobody-here"))
    raises(InvalidArgumentException, lambda: sbx.commands.run("true", cwd="/nowhere"))


@check
def command_timeout():
    raises(TimeoutException, lambda: sbx.commands.run("sleep 333 & sleep 333", timeout=1))
    out = sbx.commands.run("ps -eo args").stdout
    assert "ps -eo args" in out and "sleep 333" not in out, out


@check
def background():
    cat = sbx.commands.run("cat", background=True, stdin=True)
    assert cat.pid in [p.pid for p in sbx.commands.list()]
    other = sbx.commands.connect(cat.pid)
    sbx.commands.send_stdin(cat.pid, "one\n")
    sbx.commands.send_stdin(cat.pid, "two\n")
    sbx.commands.close_stdin(cat.pid)
    assert cat.wait().stdout == "one\ntwo\n"
    assert other.wait().stdout == "one\ntwo\n"

    sleeper = sbx.commands.run("sleep 1000", background=True, timeout=0)
    sleeper.disconnect()
    assert sleeper.pid in [p.pid for p in sbx.commands.list()], "it ended with its client"
    assert sbx.commands.kill(sleeper.pid) is True
    raises(CommandExitException, lambda: sbx.commands.connect(sleeper.pid).wait())
    assert sbx.commands.kill(sleeper.pid) is False
    killed = sbx.commands.run("sleep 1000", background=True)
    assert killed.kill() is True
    raises(CommandExitException, killed.wait)


@check
def terminal():
    pty = sbx.pty.create(size=PtySize(rows=23, cols=91), envs={"PS1": "> "})
    sbx.pty.send_stdin(pty.pid, b"stty size; exit\n")
    out = []
    pty.wait(on_pty=out.append)
    assert b"23 91" in b"".join(out), out


@check
def files():
    home = sbx.files.write("dir/hello.txt", "hello é").path.removesuffix("/dir/hello.txt")
    assert sbx.files.read("dir/hello.txt") == sbx.files.read(f"{home}/dir/hello.txt") == "hello é"
    data = bytes(range(256)) * 400
    sbx.files.write("/tmp/bytes", data)
    assert bytes(sbx.files.read("/tmp/bytes", format="bytes")) == data
    assert b"".join(sbx.files.read("/tmp/bytes", format="stream")) == data
    sbx.files.write("/tmp/empty", "")
    assert sbx.files.read("/tmp/empty") == ""
    sbx.files.write("/tmp/zipped", "zip " * 1000, gzip=True)
    assert len(sbx.files.read("/tmp/zipped", gzip=True)) == 4000
    assert len(sbx.files.write_files([{"path": "many/a", "data": "1"}, {"path": "many/deep/b", "data": "2"}])) == 2
    assert [(e.name, e.type.value) for e in sbx.files.list("many")] == [("a", "file"), ("deep", "dir")]
    assert [e.path for e in sbx.files.list("many", depth=2)] == [f"{home}/many/{p}" for p in ("a", "deep", "deep/b")]
    assert sbx.files.exists("many/a") and not sbx.files.exists("many/c")
    stat = sbx.files.get_info("many/a")
    assert (stat.name, stat.type.value, stat.size, stat.permissions) == ("a", "file", 1, "-rw-r--r--"), stat
    assert sbx.files.rename("many/a", "many/new/c").path == f"{home}/many/new/c"
    assert sbx.files.read("many/new/c") == "1"
    assert sbx.files.make_dir("many/d/e") is True and sbx.files.make_dir("many/d/e") is False
    sbx.files.remove("many")
    assert not sbx.files.exists("many")
    raises(FileNotFoundException, lambda: sbx.files.read("many/a"))
    raises(InvalidArgumentException, lambda: sbx.files.read("/tmp"))
    assert "Pid:" in sbx.files.read("/proc/self/status")


@check
def watch():
    sbx.files.make_dir("watched/sub")
    handle = sbx.files.watch_dir("watched", recursive=True, include_entry=True)
    sbx.files.write("watched/sub/f", "1")
    sbx.files.write("watched/sub/f", "2")
    sbx.files.rename("watched/sub/f", "watched/g")
    sbx.files.remove("watched/g")
    seen, deadline = [], time.time() + 30
    while ("remove", "g") not in seen:
        assert time.time() < deadline, seen
        seen += [(e.type.value, e.name) for e in handle.get_new_events()]
        time.sleep(0.02)
    wanted = [("create", "sub/f"), ("write", "sub/f"), ("rename", "sub/f"), ("create", "g"), ("remove", "g")]
    assert [e for e in wanted if e in seen] == wanted, seen
    handle.stop()
    raises(SandboxException, handle.get_new_events)
    raises(FileNotFoundException, lambda: sbx.files.watch_dir("nowhere"))


@check
def signed_urls():
    sbx.files.write("/tmp/signed file", "by URL")
    url = sbx.download_url("/tmp/signed file", use_signature_expiration=60)
    if "E2B_DOMAIN" not in os.environ:
        assert http_status(url) == 400
        return
    assert urllib.request.urlopen(url).read() == b"by URL"
    assert http_status(url.replace("signed", "other")) == 401
    assert http_status(sbx.download_url("/tmp/signed file", use_signature_expiration=-60)) == 401


@check
def not_yet():
    raises(SandboxException, sbx.pause, "501: .*pause")
    raises(SandboxException, sbx.create_snapshot, "501: ")
    raises(SandboxException, sbx.fork, "501: ")
    raises(SandboxException, lambda: sbx.update_network({"deny_out": ["0.0.0.0/0"]}), "501: ")
    raises(SandboxException, lambda: Sandbox.create("base", lifecycle={"on_timeout": "pause"}), "501: .*pause")
    raises(SandboxException, lambda: Sandbox.create("base", network={"allow_out": ["1.1.1.1"]}), "501: network.allowOut")
    raises(SandboxException, lambda: Sandbox.create("base", timeout=90_000), "400: Timeout cannot be greater than 24 hours")
    raises(SandboxException, lambda: Sandbox.create("base", idempotency_key="once"), "501: idempotency")
    raises(SandboxException, lambda: Sandbox.create("nothing"), "404: ")
    raises(SandboxException, lambda: sbx.files.write("x", "y", metadata={"a": "b"}), "metadata")
    raises(AuthenticationException, lambda: Sandbox.list(api_key="e2b_0000").next_items())
    assert Template.exists("base") and not Template.exists("nothing")


assert sbx.kill() is True
sys.exit(len(failed))
