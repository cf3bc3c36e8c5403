/** The rules of machines with runners beyond those of every host of boxes: fences, tunnels, ends. */
import { assert, describe, it } from "@effect/vitest"
import { type Box, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { freshId, run } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import * as Machine from "@slipway/machine/testing/hosts/Machine"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Exit, Fiber, Layer, Option, Scope, Stream } from "effect"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { createServer } from "node:http"
import { createServer as createTcpServer, type Server } from "node:net"
import { join } from "node:path"
import { Runners } from "../../src/client/Runners.ts"
import { Machines } from "../../src/machines/Machines.ts"
import * as MachinesByCommand from "../../src/machines/MachinesByCommand.ts"
import { absent, hostIn, INSTALLATION, type Kind, program, workspaceIn } from "../../testing/Machines.fixture.ts"

const { eventually } = SandboxHostContract

const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.callback<number>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        resume(Effect.succeed(address !== null && typeof address === "object" ? address.port : 0))
      })
    }),
    () => Effect.sync(() => server.close())
  )

/** Capacity that workers share, and what each worker is. `worker` names what it knows. */
const capacity = Effect.fnUntraced(function*(kind: Kind, allow: Egress.Options = { allow: new Set() }) {
  const folder = yield* Machine.temporaryFolder
  const machines = MachinesByCommand.make({ program: yield* program(folder, kind), installation: INSTALLATION })
  yield* Effect.addFinalizer(() =>
    Effect.ignore(Effect.flatMap(machines.list, (left) => Effect.forEach(left, (sandboxId) => machines.remove(sandboxId))))
  )
  let ensured = 0
  const counted = Machines.of({
    ...machines,
    ensure: (order) => Effect.tap(machines.ensure(order), () => Effect.sync(() => ensured++))
  })
  const services = Layer.merge(Layer.succeed(Machines, counted), Egress.layer(allow))
  const worker = (name = "one") => Effect.map(Layer.build(Layer.provideMerge(hostIn(join(folder, name)), services)), (context) => context)
  return { folder, worker, ensured: Effect.sync(() => ensured) }
})

const sleeper = () => `31415.${Math.floor(Math.random() * 1e9)}1`

/** Connects as a program of the box does, and tells what it hears. */
const ask = (box: Box, head: string, port = 3128) => {
  const script = "const c=require('net').connect(+process.argv[1],'127.0.0.1');c.on('error',(e)=>console.log(e.code));" +
    "c.on('data',(d)=>process.stdout.write(d));c.on('close',()=>process.exit());c.write(process.argv[2].replaceAll('|','\\r\\n'))"
  return Effect.scoped(Effect.gen(function*() {
    const process = yield* box.spawn({ command: "node", args: ["-e", script, `${port}`, head], env: {} })
    return yield* Stream.mkString(Stream.decodeText(process.stdout))
  }))
}

for (const kind of ["bubblewrap", "gvisor"] satisfies ReadonlyArray<Kind>) {
  const reason = absent(kind)
  describe.skipIf(reason !== undefined)(`machines with runners in ${kind}${reason === undefined ? "" : ` (${reason})`}`, () => {
    it.live("reach through the worker what is allowed and their model, and at rest nothing", () =>
      Effect.gen(function*() {
        const site = yield* listening(createTcpServer((socket) => {
          socket.on("error", () => {})
          socket.end("hello from the site\n")
        }))
        const model = yield* listening(createServer((request, response) => response.end(`the model got ${request.url}\n`)))
        const { worker } = yield* capacity(kind, {
          allow: new Set([`site.test:${site}`]),
          lookup: async () => ["127.0.0.1"],
          mayConnect: () => true
        })
        yield* Effect.gen(function*() {
          const [host, egress] = [yield* SandboxHost, yield* Egress.Egress]
          const sandboxId = freshId()
          const box = yield* host.provision({ sandboxId, fence: 1 })
          assert.include(yield* ask(box, `CONNECT site.test:${site} HTTP/1.1|Host: site.test:${site}||`), "hello from the site")
          assert.include(yield* ask(box, `CONNECT site.test:1 HTTP/1.1|Host: site.test:1||`), "403")
          assert.strictEqual(yield* egress.refusals(sandboxId), 1)
          const get = "GET /v1/models HTTP/1.1|Host: model|Connection: close||"
          assert.include(yield* ask(box, get), "403")
          yield* Effect.scoped(Effect.gen(function*() {
            yield* egress.route(sandboxId, new URL(`http://127.0.0.1:${model}`))
            assert.include(yield* ask(box, get), "the model got /v1/models")
          }))
          assert.include((yield* run(box, "env")).output, "HTTPS_PROXY=http://127.0.0.1:3128")
          yield* host.rest(sandboxId)
          const visited = yield* host.visit({ sandboxId })
          // Closed, or reset while it still spoke.
          assert.match(yield* ask(visited, `CONNECT site.test:${site} HTTP/1.1|Host: site.test:${site}||`), /^(?:ECONNRESET\n)?$/u)
        }).pipe(Effect.scoped, Effect.provide(yield* worker()))
      }))

    it.live("end what has left its parent, its group, its session and its environment, with the process that started it", () =>
      Effect.gen(function*() {
        const { worker } = yield* capacity(kind)
        yield* Effect.gen(function*() {
          const box = yield* SandboxHost.use((host) => host.provision({ sandboxId: freshId(), fence: 1 }))
          const line = sleeper()
          const scope = yield* Scope.make()
          yield* Scope.provide(
            box.spawn({ command: "sh", args: ["-c", `(env -i setsid sleep ${line} </dev/null >/dev/null 2>&1 &); cat`], env: {} }),
            scope
          )
          const sleeping = Effect.map(
            run(
              box,
              `grep -lz "${line}" /proc/[0-9]*/cmdline | grep -v self | xargs -r -n1 dirname | while read p; do ` +
                "tr '\\0' ' ' < $p/cmdline; echo; done | grep -c '^sleep' || true"
            ),
            ({ output }) => output
          )
          yield* eventually(sleeping, (count) => count === "1")
          yield* Scope.close(scope, Exit.void)
          assert.strictEqual(yield* sleeping, "0")
        }).pipe(Effect.scoped, Effect.provide(yield* worker()))
      }))

    it.live("follow no link to a folder outside of the tree that they are asked for", () =>
      Effect.gen(function*() {
        const { worker } = yield* capacity(kind)
        yield* Effect.gen(function*() {
          const sandboxId = freshId()
          const box = yield* SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 }))
          yield* run(box, "ln -s /etc way && mkdir inside && touch inside/file")
          const connection = yield* Runners.use((runners) => runners.connection(sandboxId))
          const refused = yield* Effect.flip(connection.list(Buffer.from("way"), { most: 10 }))
          assert.strictEqual(refused._tag === "FileRefused" && refused.reason, "protected")
          assert.strictEqual((yield* connection.list(Buffer.from("inside"), { most: 10 })).entries.length, 1)
        }).pipe(Effect.scoped, Effect.provide(yield* worker()))
      }))
  })
}

const reason = absent("bubblewrap")

describe.skipIf(reason !== undefined)(`workers and their machines${reason === undefined ? "" : ` (${reason})`}`, () => {
  it.live("a machine outlives its worker, whose next process ends what still runs there and finds home and trees", () =>
    Effect.gen(function*() {
      const { worker } = yield* capacity("bubblewrap")
      const sandboxId = freshId()
      const line = sleeper()
      const first = yield* Scope.make()
      const one = yield* Scope.provide(worker(), first)
      yield* Effect.gen(function*() {
        const box = yield* SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 }))
        yield* run(box, "echo tree > file && echo home > \"$HOME/file\"")
        // The scope is never closed, as when the worker is killed.
        yield* Scope.provide(box.spawn({ command: "sleep", args: [line], env: {} }), yield* Scope.make())
        yield* eventually(Machine.running(`sleep ${line}`), (count) => count === 1)
      }).pipe(Effect.provide(one))
      const other = yield* worker()
      yield* Effect.gen(function*() {
        const box = yield* SandboxHost.use((host) => host.provision({ sandboxId, fence: 2 }))
        assert.strictEqual(yield* Machine.running(`sleep ${line}`), 0)
        assert.strictEqual((yield* run(box, "cat file \"$HOME/file\"")).output, "tree\nhome")
      }).pipe(Effect.provide(other))
      yield* Scope.close(first, Exit.void)
    }).pipe(Effect.scoped))

  it.live("who makes trees has a machine before there is a box, and a box waits until they are made", () =>
    Effect.gen(function*() {
      const { ensured, worker } = yield* capacity("bubblewrap")
      yield* Effect.gen(function*() {
        const [host, runners] = [yield* SandboxHost, yield* Runners]
        const sandboxId = freshId()
        assert.isFalse(yield* runners.has(sandboxId))
        const [first, last] = [yield* Scope.make(), yield* Scope.make()]
        const one = yield* Scope.provide(runners.making(sandboxId), first)
        assert.isTrue(yield* runners.has(sandboxId))
        const provisioning = yield* Effect.forkChild(host.provision({ sandboxId, fence: 5 }))
        // From here on it waits for the first.
        yield* eventually(ensured, (count) => count === 2)
        const other = yield* Scope.provide(runners.making(sandboxId), last)
        for (const [connection, scope] of [[one, first], [other, last]] as const) {
          const made = yield* connection.spawn({ command: "/bin/sh", args: ["-c", "read line; echo $line >> /workspace/file"], env: {} })
          yield* made.write(Buffer.from("made\n"))
          assert.deepStrictEqual(yield* made.exited, { code: 0, signal: null })
          assert.isTrue(Option.isNone(yield* host.find(sandboxId)))
          yield* Scope.close(scope, Exit.void)
        }
        const box = yield* Fiber.join(provisioning)
        assert.strictEqual((yield* run(box, "cat file")).output, "made\nmade")
      }).pipe(Effect.scoped, Effect.provide(yield* worker()))
    }))

  it.live("a worker with the older lease starts nothing any more, and is told that it is over for good", () =>
    Effect.gen(function*() {
      const { worker } = yield* capacity("bubblewrap")
      const sandboxId = freshId()
      const [older, newer] = [yield* worker(), yield* worker()]
      const box = yield* Effect.provide(SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 })), older)
      yield* Effect.provide(SandboxHost.use((host) => host.provision({ sandboxId, fence: 2 })), newer)
      yield* Effect.flip(run(box, "touch late"))
      for (const context of [older, newer]) {
        const refused = yield* Effect.flip(Effect.provide(SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 })), context))
        assert.deepStrictEqual([refused.operation, refused.retryable], ["provision", false])
      }
      const again = yield* Effect.provide(SandboxHost.use((host) => host.provision({ sandboxId, fence: 2 })), newer)
      assert.strictEqual((yield* run(again, "ls")).output, "")
    }).pipe(Effect.scoped))

  it.live("a machine that has ended is started again by the next lease, with its home and its trees", () =>
    Effect.gen(function*() {
      const { folder, worker } = yield* capacity("bubblewrap")
      const sandboxId = freshId()
      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        const box = yield* host.provision({ sandboxId, fence: 1 })
        yield* run(box, "echo tree > file && echo home > \"$HOME/file\"")
        for (const pid of yield* Machine.processes(workspaceIn(folder, sandboxId))) process.kill(pid, "SIGKILL")
        const again = yield* host.provision({ sandboxId, fence: 2 })
        assert.strictEqual((yield* run(again, "cat file \"$HOME/file\"")).output, "tree\nhome")
      }).pipe(Effect.scoped, Effect.provide(yield* worker()))
    }))

  it.live("a worker that has lost what it knew gets a new machine, in which nothing of the old one is", () =>
    Effect.gen(function*() {
      const { worker } = yield* capacity("bubblewrap")
      const sandboxId = freshId()
      const provision = SandboxHost.use((host) => host.provision({ sandboxId, fence: 1 }))
      const box = yield* Effect.provide(provision, yield* worker("one"))
      yield* run(box, "echo tree > file && echo home > \"$HOME/file\"")
      const other = yield* Effect.provide(provision, yield* worker("other"))
      assert.strictEqual((yield* run(other, "ls && ls \"$HOME\"")).output, "")
    }).pipe(Effect.scoped))

  it.live("the keys of a machine are in a file of the worker alone, and in no argument of its machine", () =>
    Effect.gen(function*() {
      const { folder, worker } = yield* capacity("bubblewrap")
      const sandboxId = freshId()
      yield* Effect.gen(function*() {
        const host = yield* SandboxHost
        yield* host.provision({ sandboxId, fence: 1 })
        const known = join(folder, "one", "known")
        const file = join(known, `${sandboxId}.json`)
        assert.deepStrictEqual([statSync(known).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600])
        const [key = ""] = JSON.parse(readFileSync(file, "utf8")).runner.privateKey.split("\n").filter((line: string) => line.length > 60)
        assert.strictEqual(yield* Machine.running(key), 0)
        yield* host.stop(sandboxId)
        assert.notInclude(readdirSync(known), `${sandboxId}.json`)
      }).pipe(Effect.scoped, Effect.provide(yield* worker()))
    }))
})
