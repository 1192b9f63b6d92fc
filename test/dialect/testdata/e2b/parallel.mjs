// Follows 200 commands in 20 sandboxes at once through one process.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

const sandboxes = 20, streams = 200, lines = 50
const range = (n) => Array.from({ length: n }, (_, i) => i)
const made = await Promise.all(range(sandboxes).map(() => Sandbox.create('minimal', { timeoutMs: 600_000 })))
try {
  let open = 0, allOpen
  const all = new Promise((resolve) => { allOpen = resolve })
  const follow = async (n) => {
    let begun = false
    const script = `echo start; while ! [ -e /tmp/go ]; do sleep 5; done; i=0; while [ $i -lt ${lines} ]; do echo ${n}-$i; echo e$i >&2; i=$((i+1)); done; exit ${n % 100}`
    const handle = await made[n % sandboxes].commands.run(script, {
      background: true, timeoutMs: 0, requestTimeoutMs: 120_000, onStdout: () => { if (!begun) { begun = true; if (++open === streams) allOpen() } },
    })
    const r = await handle.wait().catch((e) => e)
    assert.equal(r.exitCode, n % 100, String(r))
    assert.equal(r.stdout, 'start\n' + range(lines).map((i) => `${n}-${i}\n`).join(''))
    assert.equal(r.stderr, range(lines).map((i) => `e${i}\n`).join(''))
  }
  const ended = Promise.all(range(streams).map(follow))
  await Promise.race([all, ended]) // a stream that fails ends the wait
  console.log('all streams are open')
  await Promise.all(made.map((sbx) => sbx.files.write('/tmp/go', '')))
  await ended
} finally {
  await Promise.all(made.map((sbx) => sbx.kill()))
}
console.log(`${streams} streams in ${made.length} sandboxes`)
