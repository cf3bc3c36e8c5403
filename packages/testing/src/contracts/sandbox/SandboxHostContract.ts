/**
 * The rules that every `SandboxHost` must keep. An adapter proves itself by running this suite against its layer; a rule that is missing
 * here is not part of the port. Runs real processes, so it uses the real clock and needs `sh` in the box.
 */
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import { type Box, type BoxProcess, HomeTooLarge, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { assert } from "../../suite/Assert.ts"
import { defineLive, type Writer } from "../../suite/Suite.ts"

/** Operations that the suite needs and the port lacks. */
export interface Fixture<R> {
  /**
   * Where the host has the trees of a new sandbox, on the machine that homes are read on; removed with the scope. What a box has
   * elsewhere is nowhere there.
   */
  workspace(sandboxId: SandboxId): Effect.Effect<string, unknown, Scope.Scope | R>
  /** The trees are in the box and go with it when the sandbox is stopped; the owner of the trees knows this. */
  readonly hasTreesInBox?: true
  /** How many processes of the machine have `text` in their command line, in any box. */
  running(text: string): Effect.Effect<number, unknown, R>
}

const fresh = (length: number) => Array.from({ length }, () => ID_ALPHABET[Math.floor(Math.random() * ID_ALPHABET.length)]).join("")
/** The fence of a sandbox's first lease. */
const FIRST = 1

const freshId = () => SandboxId.make(`c_${fresh(12)}`)

/** The variables that the box may set by itself, and those that `sh` adds. */
const OWN_VARIABLES = /^(?:PATH|HOME|TMPDIR|LANG|TERM|SLIPWAY_ARTIFACTS|PWD|OLDPWD|SHLVL|_|SANDBOX_MARK)$/u

const sh = (script: string, env: Record<string, string> = {}) => ({ command: "sh", args: ["-c", script], env })

const text = (process: BoxProcess) => Stream.mkString(Stream.decodeText(process.stdout))

/** A `sleep` with a duration that no other process has. */
const freshLine = () => `31415.${Math.floor(Math.random() * 1e9)}1`

/** Runs a script to its end. */
const run = Effect.fnUntraced(function*(box: Box, script: string, env?: Record<string, string>) {
  const process = yield* box.spawn(sh(script, env))
  const output = yield* text(process)
  return { ...(yield* process.exited), output: output.trimEnd() }
}, Effect.scoped)

/** Looks again until it holds: the kernel and other processes have a pace of their own. */
export const eventually = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  holds: (value: A) => boolean,
  within: Duration.Input = "10 seconds"
) =>
  self.pipe(
    Effect.repeat({ until: holds, schedule: Schedule.spaced("20 millis") }),
    Effect.timeoutOrElse({
      duration: within,
      orElse: () => Effect.flatMap(self, (value) => Effect.die(new Error(`still ${String(value)}`)))
    })
  )

/** A provisioned box, stopped with the scope. */
const provisioned = <R>(fixture: Pick<Fixture<R>, "workspace">) =>
  Effect.gen(function*() {
    const host = yield* SandboxHost
    const sandboxId = freshId()
    const workspace = yield* fixture.workspace(sandboxId)
    const box = yield* Effect.acquireRelease(host.provision({ sandboxId, fence: FIRST }), () => Effect.orDie(host.stop(sandboxId)))
    return { host, box, sandboxId, workspace }
  })

/** All bytes at once: what tests have in homes is little. */
const read = Effect.fnUntraced(function*(sandboxId: SandboxId, paths: ReadonlyArray<string>, maximumBytes = 10_000_000) {
  const host = yield* SandboxHost
  const chunks = yield* Stream.runCollect(host.readHome(sandboxId, paths, { maximumBytes }))
  return Uint8Array.from(chunks.flatMap((chunk) => [...chunk]))
})

/** In pieces that do not end where it would suit. */
const inPieces = (bytes: Uint8Array) =>
  Stream.fromIterable(Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) => bytes.subarray(7 * i, 7 * i + 7)))

const write = (sandboxId: SandboxId, bytes: Uint8Array) => SandboxHost.use((host) => host.writeHome(sandboxId, inPieces(bytes)))

/** All of the suite: for hosts that run processes. */
export const suite = <R>(name: string, layer: Layer.Layer<SandboxHost | R, unknown>, fixture: Fixture<R>) => [
  lifecycle(name, layer, fixture),
  processes(name, layer, fixture)
]

const cat = { command: "cat", args: [], env: {} }

/** Puts files into the home, as an agent's start does. */
const put = (box: Box, homeFiles: Readonly<Record<string, string>>) => Effect.scoped(Effect.asVoid(box.spawn({ ...cat, homeFiles })))

/** Shared by the rules below. */
const boxHelpersOf = <R>(fixture: Pick<Fixture<R>, "workspace">) => {
  const provision = provisioned(fixture)
  return { provision }
}

const boxes = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof boxHelpersOf<R>>) => {
  it.effect("gives the box that is there when a sandbox is provisioned again", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      const again = yield* host.provision({ sandboxId, fence: FIRST })
      assert.deepStrictEqual([again.sandboxId, again.home, again.workspace], [sandboxId, box.home, box.workspace])
      assert.notStrictEqual((yield* provision).box.home, box.home)
    }))

  it.effect("refuses an image that no registry offers, and accepts the default", () =>
    Effect.gen(function*() {
      const host = yield* SandboxHost
      const [own, other] = [yield* host.programs(null), yield* host.programs("registry.invalid/nobody/offers:this")]
      assert.deepStrictEqual([own.isRefused, other.isRefused, other.image], [false, true, own.image])
    }))

  for (const [under, fence] of [["the same lease", FIRST], ["a newer lease", FIRST + 1]] as const) {
    it.effect(`ends what still runs in the box when it is provisioned again under ${under}, and in no other, and keeps its home`, () =>
      Effect.gen(function*() {
        const { box, host, sandboxId } = yield* provision
        const other = yield* (yield* provision).box.spawn(cat)
        yield* put(box, { "talk/a": "1" })
        const talk = yield* read(sandboxId, ["talk"])
        const earlier = yield* box.spawn(cat)
        const again = yield* host.provision({ sandboxId, fence })
        assert.notStrictEqual((yield* earlier.exited).code, 0)
        assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), talk)
        for (const process of [other, yield* again.spawn(cat)]) {
          yield* process.endInput
          assert.deepStrictEqual(yield* process.exited, { code: 0, signal: null })
        }
      }))
  }

  it.effect("finds the box from provision to stop, and what runs in it goes on", () =>
    Effect.gen(function*() {
      const host = yield* SandboxHost
      assert.isTrue(Option.isNone(yield* host.find(freshId())))
      const { box, sandboxId } = yield* provision
      const running = yield* box.spawn(cat)
      const found = Option.getOrThrow(yield* host.find(sandboxId))
      const beside = yield* found.spawn(cat)
      for (const process of [beside, running]) {
        yield* process.write("on")
        yield* process.endInput
        assert.strictEqual(yield* text(process), "on")
      }
      yield* host.stop(sandboxId)
      assert.isTrue(Option.isNone(yield* host.find(sandboxId)))
    }))

  it.effect("carries input and output, and ends the input when asked", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const process = yield* box.spawn({ command: "cat", args: [], env: {} })
      yield* process.write("one\n")
      yield* process.write(new TextEncoder().encode("zwölf\n"))
      yield* process.endInput
      assert.strictEqual(yield* text(process), "one\nzwölf\n")
      assert.deepStrictEqual(yield* process.exited, { code: 0, signal: null })
    }))

  it.effect("keeps unread input when the input ended, and ignores later writes", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const process = yield* box.spawn(cat)
      yield* process.write("late\n")
      yield* process.endInput
      yield* process.exited
      yield* process.write("unread line\n")
      yield* process.endInput
      assert.strictEqual(yield* text(process), "late\n")
    }))

  it.effect("ends a process with its scope, and no other one", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const other = yield* box.spawn(cat)
      const scope = yield* Scope.make()
      const process = yield* Scope.provide(box.spawn(cat), scope)
      yield* Scope.close(scope, Exit.void)
      assert.notStrictEqual((yield* process.exited).code, 0)
      yield* other.write("still here")
      yield* other.endInput
      assert.strictEqual(yield* text(other), "still here")
    }))
}

const homesOfSandboxes = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof boxHelpersOf<R>>) => {
  it.effect("ends every process of a sandbox that is stopped, and no other sandbox's", () =>
    Effect.gen(function*() {
      const one = yield* provision
      const other = yield* provision
      const ours = [yield* one.box.spawn(cat), yield* one.box.spawn(cat)]
      const theirs = yield* other.box.spawn(cat)
      yield* one.host.stop(one.sandboxId)
      for (const process of ours) assert.notStrictEqual((yield* process.exited).code, 0)
      yield* theirs.endInput
      assert.deepStrictEqual(yield* theirs.exited, { code: 0, signal: null })
    }))

  it.effect("lists a sandbox from provision to stop", () =>
    Effect.gen(function*() {
      const { host, sandboxId } = yield* provision
      assert.include(yield* host.list, sandboxId)
      yield* host.stop(sandboxId)
      assert.notInclude(yield* host.list, sandboxId)
    }))

  it.effect.each(["/tmp/slipway-outside", "../outside", "a/../../outside", "a//b", "./a", ""])(
    "writes no home file at %s",
    (path) =>
      Effect.gen(function*() {
        const { box } = yield* provision
        const error = yield* Effect.flip(Effect.scoped(box.spawn({ ...cat, homeFiles: { [path]: "x" } })))
        assert.strictEqual(error.operation, "spawn")
        assert.isFalse(error.retryable)
      })
  )

  it.effect("carries files of a home to another home, those that were asked for and no others", () =>
    Effect.gen(function*() {
      const one = yield* provision
      const other = yield* provision
      yield* put(one.box, { "talk/2026/a.jsonl": "zwölf\n", "talk/b": "", state: "on", secret: "no", talking: "no", "state.old": "no" })
      yield* put(other.box, { kept: "yes" })
      const talk = yield* read(one.sandboxId, ["talk", "state"])
      yield* write(other.sandboxId, talk)
      assert.deepStrictEqual(yield* read(other.sandboxId, ["talk", "state"]), talk)
      const others = ["secret", "talking", "state.old"]
      assert.deepStrictEqual(yield* read(other.sandboxId, others), yield* read(freshId(), others))
      assert.notDeepEqual(yield* read(other.sandboxId, ["kept"]), yield* read(freshId(), ["kept"]))
    }))

  it.effect("reads the same bytes of the same files, and of nothing what can be written", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* put(box, { "talk/b": "2", "talk/a": "1" })
      const talk = yield* read(sandboxId, ["talk", "missing/file"])
      assert.deepStrictEqual(yield* read(sandboxId, ["talk", "missing/file"]), talk)
      const other = yield* provision
      yield* put(other.box, { "talk/a": "1", "talk/b": "2" })
      assert.deepStrictEqual(yield* read(other.sandboxId, ["talk", "missing/file"]), talk)
      yield* put(box, { "talk/a": "3" })
      assert.notDeepEqual(yield* read(sandboxId, ["talk", "missing/file"]), talk)
      yield* write(sandboxId, yield* read(freshId(), ["talk"]))
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), yield* read(freshId(), ["talk"]))
    }))

  it.effect("makes of what is at a path what was there, and nothing else: what came later is gone", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* put(box, { "talk/a": "1", "folder/inside": "x" })
      const before = yield* read(sandboxId, ["talk", "log", "folder"])
      yield* put(box, { "talk/a": "12", "talk/b": "2", log: "later" })
      for (let twice = 0; twice < 2; twice++) {
        yield* write(sandboxId, before)
        assert.deepStrictEqual(yield* read(sandboxId, ["talk", "log", "folder"]), before)
      }
    }))
}

/** The files below a path of the home, as text. */
const filesBelow = Effect.fnUntraced(function*(sandboxId: SandboxId, path: string, maximumBytes = 10_000_000) {
  const host = yield* SandboxHost
  const found: Array<[path: string, content: string]> = []
  const error = yield* Stream.runForEach(host.readFiles(sandboxId, path, { maximumBytes }), (part) =>
    Effect.sync(() => {
      if ("path" in part) found.push([part.path, ""])
      else found[found.length - 1]![1] += new TextDecoder().decode(part.bytes)
    })).pipe(Effect.match({ onFailure: (error) => error, onSuccess: () => null }))
  return { found, error }
})

const readingFiles = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof boxHelpersOf<R>>) => {
  it.effect("reads the files below a path in the order of their names, also of a sandbox at rest, and none of a missing path", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      yield* put(box, { "out/b": "2", "out/a": "1", "out/c/d": "", "outer": "x" })
      const files: Array<[string, string]> = [["out/a", "1"], ["out/b", "2"], ["out/c/d", ""]]
      assert.deepStrictEqual(yield* filesBelow(sandboxId, "out"), { found: files, error: null })
      yield* host.rest(sandboxId)
      assert.deepStrictEqual(yield* filesBelow(sandboxId, "out"), { found: files, error: null })
      assert.deepStrictEqual(yield* filesBelow(sandboxId, "missing"), { found: [], error: null })
      assert.deepStrictEqual(yield* filesBelow(freshId(), "out"), { found: [], error: null })
    }))

  it.effect("reads files up to the first that exceeds the bytes asked for", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* put(box, { "out/a": "1", "out/b": "x".repeat(100_000), "out/c": "3" })
      const { error, found } = yield* filesBelow(sandboxId, "out", 10_000)
      assert.deepStrictEqual(found, [["out/a", "1"]])
      assert.deepStrictEqual(error, new HomeTooLarge({ maximumBytes: 10_000 }))
    }))
}

const restingSandboxes = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof boxHelpersOf<R>>) => {
  it.effect("writes into the home of a sandbox that has no box, which the box has then", () =>
    Effect.gen(function*() {
      const one = yield* provision
      yield* put(one.box, { "talk/a": "1" })
      const talk = yield* read(one.sandboxId, ["talk"])
      const sandboxId = freshId()
      yield* Effect.addFinalizer(() => Effect.orDie(one.host.stop(sandboxId)))
      yield* write(sandboxId, talk)
      assert.isTrue(Option.isNone(yield* one.host.find(sandboxId)))
      assert.include(yield* one.host.list, sandboxId)
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), talk)
      yield* one.host.provision({ sandboxId, fence: FIRST })
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), talk)
      yield* one.host.stop(sandboxId)
      assert.notDeepEqual(yield* read(sandboxId, ["talk"]), talk)
    }))

  it.effect("gives no more of a home than was asked for", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* put(box, { talk: "x".repeat(100_000) })
      const error = yield* Effect.flip(read(sandboxId, ["talk"], 100_000))
      assert.deepStrictEqual(error, new HomeTooLarge({ maximumBytes: 100_000 }))
      const { length } = yield* read(sandboxId, ["talk"])
      assert.strictEqual((yield* read(sandboxId, ["talk"], length)).length, length)
      assert.isTrue(Result.isFailure(yield* Effect.result(read(sandboxId, ["talk"], length - 1))))
    }))

  it.effect("refuses files of a home that are cut or changed, and leaves the home as it was", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* put(box, { "talk/a": "first words", "talk/b": "second words" })
      const good = yield* read(sandboxId, ["talk"])
      yield* put(box, { "talk/a": "third words" })
      const now = yield* read(sandboxId, ["talk"])
      const changed = (at: number) => good.map((byte, i) => i === at ? byte ^ 1 : byte)
      // Not each byte: that would take some hosts seconds. Their parts are longer than a step.
      const every = (step: number) => Array.from({ length: Math.ceil(good.length / step) }, (_, i) => step * i)
      const damaged = [
        ...every(3).map(changed),
        ...every(7).map((at) => good.subarray(0, at)),
        good.subarray(0, -1),
        Uint8Array.from([...good, 0]),
        Uint8Array.from([...good, ...good])
      ]
      for (const bytes of damaged) {
        const error = yield* Effect.flip(SandboxHost.use((host) => host.writeHome(sandboxId, Stream.make(bytes))))
        assert.strictEqual(error._tag, "HomeDamaged")
      }
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), now)
      yield* write(sandboxId, good)
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), good)
    }))

  it.effect("leaves the home as it was when what is to be written breaks off", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      yield* put(box, { "talk/a": "1" })
      const good = yield* read(sandboxId, ["talk"])
      yield* put(box, { "talk/a": "2" })
      const now = yield* read(sandboxId, ["talk"])
      const content = Stream.concat(inPieces(good.subarray(0, -1)), Stream.fail("lost"))
      assert.strictEqual(yield* Effect.flip(SandboxHost.use((host) => host.writeHome(sandboxId, content))), "lost")
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), now)
    }))

  it.effect("ends what runs in a sandbox that is put to rest, starts nothing in its box, and no other sandbox hears of it", () =>
    Effect.gen(function*() {
      const one = yield* provision
      const other = yield* provision
      const ours = yield* one.box.spawn(cat)
      const theirs = yield* other.box.spawn(cat)
      yield* one.host.rest(one.sandboxId)
      assert.notStrictEqual((yield* ours.exited).code, 0)
      assert.isTrue(Option.isNone(yield* one.host.find(one.sandboxId)))
      assert.strictEqual((yield* Effect.flip(Effect.scoped(one.box.spawn(cat)))).operation, "spawn")
      yield* theirs.endInput
      assert.deepStrictEqual(yield* theirs.exited, { code: 0, signal: null })
    }))
}

const visitors = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof boxHelpersOf<R>>) => {
  it.effect("keeps the home of a sandbox at rest, to be read, written and gone on with", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      yield* put(box, { "talk/a": "1" })
      const first = yield* read(sandboxId, ["talk"])
      yield* put(box, { "talk/a": "2" })
      const second = yield* read(sandboxId, ["talk"])
      yield* host.rest(sandboxId)
      yield* host.rest(sandboxId)
      assert.include(yield* host.list, sandboxId)
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), second)
      yield* write(sandboxId, first)
      const again = yield* host.provision({ sandboxId, fence: FIRST })
      assert.strictEqual(again.home, box.home)
      assert.deepStrictEqual(yield* read(sandboxId, ["talk"]), first)
      const process = yield* again.spawn(cat)
      yield* process.endInput
      assert.deepStrictEqual(yield* process.exited, { code: 0, signal: null })
    }))

  it.effect("puts to rest what is not there, and stops what is at rest", () =>
    Effect.gen(function*() {
      const { host, sandboxId } = yield* provision
      const unknown = freshId()
      yield* host.rest(unknown)
      assert.notInclude(yield* host.list, unknown)
      yield* host.rest(sandboxId)
      yield* host.stop(sandboxId)
      assert.notInclude(yield* host.list, sandboxId)
    }))

  it.effect("gives visitors a box while a sandbox is at rest, for as long as one of them looks", () =>
    Effect.gen(function*() {
      const { host, sandboxId } = yield* provision
      yield* host.rest(sandboxId)
      const first = yield* Scope.make()
      const one = yield* Scope.provide(host.visit({ sandboxId }), first)
      const other = yield* host.visit({ sandboxId })
      yield* Effect.scoped(one.spawn(cat))
      assert.isTrue(Option.isNone(yield* host.find(sandboxId)))
      const process = yield* other.spawn(cat)
      yield* Scope.close(first, Exit.void)
      yield* process.write("on")
      yield* process.endInput
      assert.strictEqual(yield* text(process), "on")
    }))

  it.effect("gives visitors the box that is there, and leaves it when they go", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      const running = yield* box.spawn(cat)
      yield* Effect.scoped(Effect.gen(function*() {
        const visited = yield* host.visit({ sandboxId })
        assert.deepStrictEqual([visited.workspace, visited.home], [box.workspace, box.home])
        const beside = yield* visited.spawn(cat)
        yield* beside.endInput
        assert.deepStrictEqual(yield* beside.exited, { code: 0, signal: null })
      }))
      yield* running.write("on")
      yield* running.endInput
      assert.strictEqual(yield* text(running), "on")
    }))

  it.effect("provisions a sandbox while somebody visits it, whose processes end, and the end of the visit changes nothing", () =>
    Effect.gen(function*() {
      const { host, sandboxId } = yield* provision
      yield* host.rest(sandboxId)
      const visit = yield* Scope.make()
      const visited = yield* Scope.provide(host.visit({ sandboxId }), visit)
      const looking = yield* Scope.provide(visited.spawn(cat), visit)
      const box = yield* host.provision({ sandboxId, fence: FIRST })
      // Its input was never closed.
      yield* looking.exited
      const running = yield* box.spawn(cat)
      const again = yield* Scope.provide(visited.spawn(cat), visit)
      yield* again.endInput
      assert.deepStrictEqual(yield* again.exited, { code: 0, signal: null })
      yield* Scope.close(visit, Exit.void)
      yield* running.write("on")
      yield* running.endInput
      assert.strictEqual(yield* text(running), "on")
      assert.isTrue(Option.isSome(yield* host.find(sandboxId)))
    }))
}

const stoppedBoxes = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof boxHelpersOf<R>>) => {
  it.effect("stops what is not there, and what is stopped already", () =>
    Effect.gen(function*() {
      const { host, sandboxId } = yield* provision
      yield* host.stop(freshId())
      yield* host.stop(sandboxId)
      yield* host.stop(sandboxId)
    }))
}

/** The part that every host can be held to. Of all commands it needs `cat` alone. */
export const lifecycle = <R>(name: string, layer: Layer.Layer<SandboxHost | R, unknown>, fixture: Pick<Fixture<R>, "workspace">) =>
  defineLive(`SandboxHost (${name})`, layer, (it) => {
    const helpers = boxHelpersOf(fixture)
    boxes(it, helpers)
    homesOfSandboxes(it, helpers)
    readingFiles(it, helpers)
    restingSandboxes(it, helpers)
    visitors(it, helpers)
    stoppedBoxes(it, helpers)
  })

/** Shared by the rules below. */
const processHelpersOf = <R>(fixture: Fixture<R>) => {
  const provision = provisioned(fixture)
  return { provision }
}

const commands = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof processHelpersOf<R>>) => {
  it.effect("runs commands in the workspace", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      assert.strictEqual(
        (yield* run(box, "pwd -P")).output,
        (yield* run(box, `cd "${box.workspace}" && pwd -P`)).output
      )
      yield* run(box, "echo kept > file")
      assert.strictEqual((yield* run(box, "cat file")).output, "kept")
    }))

  it.effect("passes the arguments as they are, through no shell", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const process = yield* box.spawn({ command: "printf", args: ["%s|", "a b", "$HOME", "'\"", "*"], env: {} })
      assert.strictEqual(yield* text(process), "a b|$HOME|'\"|*|")
    }))

  it.effect("gives a process the environment it was given and nothing of the service's", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const { output } = yield* run(box, "env", { GIVEN: "1" })
      const names = output.split("\n").map((line) => line.split("=")[0] ?? "")
      assert.include(output, "GIVEN=1")
      assert.deepStrictEqual(
        names.filter((name) => name !== "GIVEN" && !OWN_VARIABLES.test(name)),
        []
      )
      assert.include(output, `HOME=${box.home}\n`)
      assert.include(output, "LANG=C.UTF-8\n")
    }))

  it.effect("writes files into the home before the process starts, for the box alone, each time anew", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const read = (content: string) =>
        Effect.gen(function*() {
          const script = "cd \"$HOME\" && cat .config/agent/x && find .config/agent/x -perm 600 && find .config -prune -perm 700"
          const process = yield* box.spawn({ ...sh(script), homeFiles: { ".config/agent/x": content, y: "y" } })
          return yield* text(process)
        }).pipe(Effect.scoped)
      assert.strictEqual(yield* read("zwölf\n"), "zwölf\n.config/agent/x\n.config\n")
      assert.strictEqual(yield* read("1\n"), "1\n.config/agent/x\n.config\n")
      assert.strictEqual((yield* run(box, "cat \"$HOME/y\"")).output, "y")
    }))

  it.effect("follows no link that a process left in the home", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      yield* run(
        box,
        [
          "mkdir \"$TMPDIR/out\"",
          "echo kept > \"$TMPDIR/out/kept\"",
          "ln -s \"$TMPDIR/out\" \"$HOME/folder\"",
          "ln -s \"$TMPDIR/out/kept\" \"$HOME/file\""
        ].join(" && ")
      )
      for (const path of ["folder/new", "folder/kept", "file"]) {
        yield* Effect.result(Effect.scoped(box.spawn({ ...sh("exit 0"), homeFiles: { [path]: "written" } })))
      }
      assert.strictEqual((yield* run(box, "cd \"$TMPDIR/out\" && ls && cat kept")).output, "kept\nkept")
    }))

  it.effect.each(["folder/new", "folder/kept", "file"])(
    "writes no home file through a link that a process left in the home and that leads to a folder of the host: %s",
    (path) =>
      Effect.gen(function*() {
        const { box } = yield* provision
        // The host's own path, whatever the box makes of it; a second box sees what became of it.
        const { box: other, workspace: outside } = yield* provision
        yield* run(other, "echo kept > kept")
        yield* run(box, `ln -s "${outside}" "$HOME/folder" && ln -s "${outside}/kept" "$HOME/file"`)
        yield* Effect.result(Effect.scoped(box.spawn({ ...sh("exit 0"), homeFiles: { [path]: "written" } })))
        assert.strictEqual((yield* run(other, "ls -A && cat kept")).output, "kept\nkept")
      })
  )
}

const homeFiles = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof processHelpersOf<R>>) => {
  it.effect("gives each sandbox a home and a temporary folder of its own, outside the workspace", () =>
    Effect.gen(function*() {
      const one = yield* provision
      const other = yield* provision
      const places = `cd "$HOME" && pwd -P && cd "$TMPDIR" && pwd -P && touch "$TMPDIR/x"`
      const [home = "", tmp = ""] = (yield* run(one.box, places)).output.split("\n")
      const [otherHome, otherTmp] = (yield* run(other.box, places)).output.split("\n")
      assert.notStrictEqual(home, tmp)
      for (const place of [home, tmp]) assert.isFalse(`${place}/`.startsWith(`${one.box.workspace}/`))
      yield* run(one.box, "echo mine > \"$HOME/file\"")
      assert.strictEqual((yield* run(one.box, "cat \"$HOME/file\"")).output, "mine")
      assert.strictEqual((yield* run(other.box, "cat \"$HOME/file\" 2>/dev/null")).output, "")
      assert.isTrue(otherHome !== undefined && otherTmp !== undefined)
    }))

  it.effect("provisions once: the second time gives the box that is there", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      yield* run(box, "echo kept > \"$HOME/file\"")
      const again = yield* host.provision({ sandboxId, fence: FIRST })
      assert.strictEqual(again.home, box.home)
      assert.strictEqual((yield* run(again, "cat \"$HOME/file\"")).output, "kept")
    }))

  it.effect("reads of a home plain files alone: no links, no second names, nothing that waits", () =>
    Effect.gen(function*() {
      const one = yield* provision
      const { box: elsewhere } = yield* provision
      yield* run(elsewhere, "echo outside > file")
      const outside = (yield* provision).workspace
      yield* run(
        one.box,
        [
          "mkdir -p \"$HOME/talk/deep\" && cd \"$HOME/talk\" && echo one > deep/file",
          "echo two > \"$HOME/second\" && ln \"$HOME/second\" second",
          `ln -s "${outside}" folder && ln -s deep/file link && ln -s /etc etc && mkfifo pipe && mkdir empty`,
          "ln -s talk \"$HOME/way\""
        ].join(" && ")
      )
      const other = yield* provision
      yield* write(other.sandboxId, yield* read(one.sandboxId, ["talk", "way/deep"]))
      assert.strictEqual(
        (yield* run(other.box, "cd \"$HOME\" && find . -type f && find . ! -type d ! -type f")).output,
        "./talk/deep/file"
      )
      assert.strictEqual((yield* run(other.box, "cat \"$HOME/talk/deep/file\"")).output, "one")
    }))

  it.effect("gives files that it writes into a home to the box's user alone", () =>
    Effect.gen(function*() {
      const one = yield* provision
      yield* run(one.box, "mkdir -p \"$HOME/talk/deep\" && cd \"$HOME/talk\" && echo one > deep/file && chmod 0777 deep deep/file")
      const { host } = one
      const sandboxId = freshId()
      yield* Effect.addFinalizer(() => Effect.orDie(host.stop(sandboxId)))
      yield* write(sandboxId, yield* read(one.sandboxId, ["talk"]))
      const box = yield* host.provision({ sandboxId, fence: FIRST })
      const script = "cd \"$HOME\" && echo two >> talk/deep/file && cat talk/deep/file" +
        " && find talk talk/deep -prune -perm 700 && find talk/deep/file -perm 600" +
        " && find . ! -user \"$(id -u)\" && rm -r talk artifacts && find . ! -name ."
      assert.strictEqual((yield* run(box, script)).output, "one\ntwo\ntalk\ntalk/deep\ntalk/deep/file")
    }))

  it.effect("writes into a home what was read of another in the place of links and folders that are in the way, and through none", () =>
    Effect.gen(function*() {
      const one = yield* provision
      yield* run(one.box, "mkdir -p \"$HOME/way/talk\" && cd \"$HOME\" && echo one > way/talk/file && echo two > state")
      const files = yield* read(one.sandboxId, ["way/talk", "state"])
      const { box: outsider, workspace: outside } = yield* provision
      yield* run(outsider, "mkdir talk && echo kept > talk/file")
      for (
        const inTheWay of [
          `ln -s "${outside}" way`,
          `mkdir way && ln -s "${outside}/talk" way/talk`,
          `mkdir -p way/talk && ln -s "${outside}/talk/file" way/talk/file && ln -s "${outside}/talk" state`,
          "echo file > way",
          "mkdir -p way/talk/file/deep state/deep && chmod 0 state way/talk/file",
          "mkfifo way state"
        ]
      ) {
        const { box, sandboxId } = yield* provision
        yield* run(box, `cd "$HOME" && ${inTheWay}`)
        yield* write(sandboxId, files)
        assert.deepStrictEqual(yield* read(sandboxId, ["way/talk", "state"]), files)
      }
      assert.strictEqual((yield* run(outsider, "find . -type f && cat talk/file")).output, "./talk/file\nkept")
    }))
}

const processLifetimes = <R>(it: Writer<SandboxHost | R>, fixture: Fixture<R>, { provision }: ReturnType<typeof processHelpersOf<R>>) => {
  it.effect("ends every process of a sandbox that is put to rest, and keeps home and trees", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      const line = freshLine()
      yield* run(box, "echo kept > \"$HOME/file\" && echo tree > file")
      yield* box.spawn(sh(`(setsid sleep ${line} >/dev/null 2>&1 </dev/null &); cat`))
      yield* eventually(fixture.running(`sleep ${line}`), (count) => count >= 2)
      yield* host.rest(sandboxId)
      assert.strictEqual(yield* fixture.running(`sleep ${line}`), 0)
      const again = yield* host.provision({ sandboxId, fence: FIRST })
      assert.strictEqual((yield* run(again, "cat file \"$HOME/file\"")).output, "tree\nkept")
    }))

  it.effect("shows visitors the trees of a sandbox at rest, and ends what they left running when they go", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      yield* run(box, "mkdir app && echo tree > app/file")
      yield* host.rest(sandboxId)
      const line = freshLine()
      yield* Effect.scoped(Effect.gen(function*() {
        const visited = yield* host.visit({ sandboxId })
        assert.strictEqual(
          (yield* run(visited, "cat app/file && mktemp -d > \"$TMPDIR/place\" && cat \"$TMPDIR/place\" | wc -l")).output,
          "tree\n1"
        )
        yield* run(visited, `(setsid sleep ${line} >/dev/null 2>&1 </dev/null &)`)
      }))
      assert.strictEqual(yield* fixture.running(`sleep ${line}`), 0)
    }))

  it.effect("keeps unread output when the process ended", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const process = yield* box.spawn(sh("echo late"))
      yield* process.exited
      yield* run(box, "exit 0")
      assert.strictEqual(yield* text(process), "late\n")
    }))

  it.effect("reports how a process ended", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      assert.strictEqual((yield* run(box, "exit 7")).code, 7)
      const { code, signal } = yield* run(box, "kill -TERM $$")
      // A box with a process of its own around the command reports a signal as the shell would.
      assert.isTrue(signal === "SIGTERM" || code === 143, `${code} ${signal}`)
    }))

  it.effect("keeps the end of standard error, and only whole lines of that", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const process = yield* box.spawn(sh("head -c 20000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2"))
      yield* process.exited
      const tail = yield* eventually(process.stderrTail, (tail) => tail.endsWith("the end\n"))
      assert.strictEqual(tail, "the end\n")
    }))

  it.effect("ignores what is written to a process that is gone", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const process = yield* box.spawn(sh("exit 0"))
      yield* process.exited
      yield* process.write("unread line\n")
      yield* process.endInput
      yield* process.write("nor this\n")
    }))

  it.effect("says that a command is not there, and that trying again does not help", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const outcome = yield* Effect.result(
        Effect.scoped(
          Effect.gen(function*() {
            const process = yield* box.spawn({ command: "slipway-no-such-command", args: [], env: {} })
            return yield* process.exited
          })
        )
      )
      // A box with a process of its own around the command learns it only from that one's exit.
      if (outcome._tag === "Success") return assert.notStrictEqual(outcome.success.code, 0)
      assert.strictEqual(outcome.failure.operation, "spawn")
      assert.isFalse(outcome.failure.retryable)
    }))
}

const endingProcesses = <R>(it: Writer<SandboxHost | R>, fixture: Fixture<R>, { provision }: ReturnType<typeof processHelpersOf<R>>) => {
  /** A command line found nowhere else on the machine, of something that lasts for hours. */
  const sleeper = () => {
    const seconds = `${10_000 + Math.floor(Math.random() * 80_000)}.${Math.floor(Math.random() * 1e9)}1`
    return { command: `sleep ${seconds}`, line: seconds }
  }

  const escapes = (command: string) => [
    { how: "a child", script: `${command} & wait` },
    { how: "a child in a session of its own", script: `setsid ${command} & wait` },
    {
      how: "a daemon that left parent, group and session",
      script: `(setsid ${command} >/dev/null 2>&1 </dev/null &) ; cat`
    },
    {
      how: "an orphan that cleared its environment",
      script: `(env -i nohup ${command} >/dev/null 2>&1 </dev/null &) ; cat`
    },
    { how: "a process that ignores signals", script: `trap '' TERM INT HUP; ${command}` }
  ]

  for (const { how } of escapes("")) {
    it.effect(`ends ${how} with the scope of the process that started it`, () =>
      Effect.gen(function*() {
        const { box } = yield* provision
        const { command, line } = sleeper()
        const script = escapes(command).find((escape) => escape.how === how)?.script ?? ""
        const scope = yield* Scope.make()
        yield* Scope.provide(box.spawn(sh(script)), scope)
        // The shell, which has it in its script, and what the shell started.
        yield* eventually(fixture.running(line), (count) => count > 1)
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(yield* fixture.running(line), 0)
      }))
  }

  it.effect("leaves the other processes of the sandbox alone when one ends", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      const { command, line } = sleeper()
      yield* box.spawn(sh(command))
      yield* run(box, "exit 0")
      yield* eventually(fixture.running(line), (count) => count > 0)
      assert.isAbove(yield* fixture.running(line), 0)
    }))

  it.effect("stops every process of a sandbox, and no other sandbox's", () =>
    Effect.gen(function*() {
      const one = yield* provision
      const other = yield* provision
      const ours = sleeper()
      const theirs = sleeper()
      const process = yield* one.box.spawn(sh(`(setsid ${ours.command} >/dev/null 2>&1 </dev/null &) ; cat`))
      yield* other.box.spawn(sh(theirs.command))
      yield* eventually(fixture.running(ours.line), (count) => count > 0)
      yield* eventually(fixture.running(theirs.line), (count) => count > 0)
      yield* one.host.stop(one.sandboxId)
      assert.strictEqual(yield* fixture.running(ours.line), 0)
      assert.isAbove(yield* fixture.running(theirs.line), 0)
      yield* process.exited
    }))

  it.effect("forgets the home when a sandbox is stopped", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      yield* run(box, "echo secret > \"$HOME/file\"; echo kept > file")
      yield* host.stop(sandboxId)
      const again = yield* host.provision({ sandboxId, fence: FIRST })
      const left = yield* run(again, "cat \"$HOME/file\" file 2>/dev/null")
      assert.strictEqual(left.output, fixture.hasTreesInBox === true ? "" : "kept")
    }))

  it.effect("slows down a process whose output is not read", () =>
    Effect.gen(function*() {
      const { box } = yield* provision
      // Counts what it could write: reading nothing lets it fill the pipe and our buffer, no more.
      const process = yield* box.spawn(sh("dd if=/dev/zero bs=65536 count=1024 2>/dev/null; echo done >&2"))
      const bytes = yield* process.stdout.pipe(
        Stream.take(1),
        Stream.runFold(
          () => 0,
          (sum, chunk) => sum + chunk.length
        )
      )
      assert.isAbove(bytes, 0)
      assert.strictEqual(yield* process.stderrTail, "")
      const rest = yield* process.stdout.pipe(
        Stream.runFold(
          () => bytes,
          (sum, chunk) => sum + chunk.length
        )
      )
      assert.isAbove(rest, 60_000_000)
      yield* eventually(process.stderrTail, (tail) => tail === "done\n")
      assert.isTrue(Option.isSome(yield* Effect.timeoutOption(process.exited, "5 seconds")))
    }))
}

const artifactFolders = <R>(it: Writer<SandboxHost | R>, { provision }: ReturnType<typeof processHelpersOf<R>>) => {
  it.effect("has an empty folder for artifacts in the home from the start, which a variable of every process names", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      const { output } = yield* run(box, "cd \"$SLIPWAY_ARTIFACTS\" && ls -A && echo \"$SLIPWAY_ARTIFACTS\"", { SLIPWAY_ARTIFACTS: "/" })
      assert.strictEqual(output, `${box.home}/artifacts`)
      yield* run(box, "echo report > \"$SLIPWAY_ARTIFACTS/a.txt\"")
      yield* host.rest(sandboxId)
      const again = yield* host.provision({ sandboxId, fence: FIRST })
      assert.strictEqual((yield* run(again, "cat \"$SLIPWAY_ARTIFACTS/a.txt\"")).output, "report")
      assert.deepStrictEqual(yield* filesBelow(sandboxId, "artifacts"), { found: [["artifacts/a.txt", "report\n"]], error: null })
    }))

  it.effect("provisions a sandbox that put another entry in the place of its folder for artifacts, and reads nothing through it", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provision
      for (const entry of ["ln -s /etc", "ln -s missing", "mkfifo", "touch"]) {
        yield* run(box, `cd "$HOME" && rm -rf artifacts && ${entry} artifacts`)
        const { found } = yield* filesBelow(sandboxId, "artifacts")
        assert.deepStrictEqual(found, entry === "touch" ? [["artifacts", ""]] : [], entry)
        yield* host.rest(sandboxId)
        yield* host.provision({ sandboxId, fence: FIRST })
      }
    }))

  it.effect("reads no link, no file with a second name and no FIFO as a file", () =>
    Effect.gen(function*() {
      const { box, sandboxId } = yield* provision
      const links = "ln -s /etc/passwd link && ln -s .. up && echo x > ../own && ln ../own second"
      yield* run(box, `cd "$SLIPWAY_ARTIFACTS" && ${links} && mkfifo pipe && echo y > plain`)
      assert.deepStrictEqual(yield* filesBelow(sandboxId, "artifacts"), { found: [["artifacts/plain", "y\n"]], error: null })
    }))
}

const processes = <R>(name: string, layer: Layer.Layer<SandboxHost | R, unknown>, fixture: Fixture<R>) =>
  defineLive(`SandboxHost with processes (${name})`, layer, (it) => {
    const helpers = processHelpersOf(fixture)
    commands(it, helpers)
    artifactFolders(it, helpers)
    homeFiles(it, helpers)
    processLifetimes(it, fixture, helpers)
    endingProcesses(it, fixture, helpers)
  })
