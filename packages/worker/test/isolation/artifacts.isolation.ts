/**
 * The folder for artifacts of a real box as an attacker of the worker that collects it (docs/decisions/32): nothing outside of the folder
 * gets into the store, nothing holds the worker up, and files that are not attacks are kept beside those that are.
 */
import { assert, describe, it } from "@effect/vitest"
import { ArtifactStore } from "@slipway/domain/files/ports/ArtifactStore"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import * as BlobsMemory from "@slipway/domain/memory/files/BlobsMemory"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, Stream } from "effect"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Checkpoint from "../../src/checkpoint/Checkpoint.ts"
import { principal } from "../Doubles.ts"
import { layer, look, Place, sandbox, type Sandbox } from "./Service.ts"

const services = Layer.merge(layer(), BlobsMemory.layer)

/** Machines under load take long; a hanging test ends all the same. */
const PATIENCE = 600_000

const MARK = "canary-7Qm2-of-the-machine"

/** Ends a turn of the sandbox, collects, and returns the artifacts with their bytes. */
const collected = Effect.fnUntraced(function*({ held, id }: Sandbox) {
  yield* held.write([{ _tag: "StartBoot" }, { _tag: "FinishBoot", turnId: "turn-1" }])
  yield* held.write([{ _tag: "StartTurn", turnId: "turn-1" }, { _tag: "EndTurn", turnId: "turn-1", state: "succeeded" }])
  yield* Checkpoint.collectArtifacts(held)
  const { artifacts, leftOut } = yield* ArtifactStore.use((store) => store.find(id))
  const blobs = yield* Blobs
  const found = yield* Effect.forEach(artifacts, ({ name, pieces }) =>
    Effect.gen(function*() {
      const parts = yield* Effect.forEach(pieces, (piece) => Stream.runCollect(blobs.get({ grantId: principal.grantId, ...piece })))
      return [name, Buffer.concat(parts.flat())] as const
    }))
  return { files: new Map(found), leftOut }
})

/** Runs the script in the box until the scope closes, so that its background jobs attack the collection. Waits until it is set up. */
const attack = Effect.fnUntraced(function*({ box }: Sandbox, script: string) {
  const process = yield* box.spawn({ command: "sh", args: ["-c", `${script}\necho ready\nsleep 600`], env: {} })
  yield* Stream.runHead(Stream.filter(Stream.splitLines(Stream.decodeText(process.stdout)), (line) => line === "ready"))
})

/** Left by an agent in its folder, beside a file that is kept. */
const TRAPS: Readonly<Record<string, (outside: string) => string>> = {
  "links to files and folders of the machine": (outside) => `ln -s ${outside}/kept a; ln -s ${outside} b; ln -s /etc/passwd c`,
  "links within its home": () => "echo secret > ~/secret; ln -s ~/secret a; ln -s .. b; ln -s a c",
  "a file with a second name": () => "echo secret > ~/secret; ln ~/secret a",
  "FIFOs, devices and sockets": () => "mkfifo a; mknod b c 1 5; node -e 'require(\"net\").createServer().listen(\"c\")' & sleep 1",
  "a file that grows": () => "(while :; do echo more >> a; done) >/dev/null 2>&1 &",
  "links that change while they are read": (outside) =>
    `(while :; do ln -sfn ${outside} a; rm -rf a; mkdir a; echo x > a/kept; rm -rf a; done) >/dev/null 2>&1 &`,
  "a sparse file of a terabyte": () => "truncate -s 1T z || truncate -s 200G z || :",
  "a hundred thousand names": () => "mkdir z && cd z && seq 1 100001 | xargs touch",
  "folders deeper than any path": () => "mkdir z; cd z; i=0; while [ $i -lt 60 ]; do mkdir d; cd d; i=$((i+1)); done; echo x > f",
  "names that are not UTF-8, and escapes": () => "touch \"$(printf 'a\\377b')\" \"$(printf 'a\\033[2J')\" \"$(printf 'a\\nb')\"",
  "a folder that cannot be read": () => "mkdir a; echo x > a/x; chmod 0 a; echo y > b; chmod 0 b"
}

describe("the folder for artifacts of a hostile box", () => {
  for (const [name, script] of Object.entries(TRAPS)) {
    it.live(
      `leads nowhere and holds nothing up where the agent left ${name}`,
      () =>
        Effect.gen(function*() {
          const { outside } = yield* Place
          writeFileSync(join(outside, "kept"), MARK)
          const own = yield* sandbox({ setup: [] })
          yield* attack(own, `cd "$SLIPWAY_ARTIFACTS" && printf fine > 0.txt\n${script(outside)}`)
          const { files, leftOut } = yield* collected(own)
          assert.strictEqual(files.get("0.txt")?.toString(), "fine", leftOut ?? "")
          for (const [found, bytes] of files) {
            assert.notInclude(bytes.toString("latin1"), MARK, found)
            assert.notInclude(bytes.toString("latin1"), "root:", found)
            assert.notInclude(bytes.toString("latin1"), "secret", found)
            assert.isBelow(bytes.length, 200 * 2 ** 20)
          }
          assert.deepStrictEqual(readdirSync(outside), ["kept"])
          assert.strictEqual(readFileSync(join(outside, "kept"), "utf8"), MARK)
        }).pipe(Effect.scoped, Effect.provide(services)),
      PATIENCE
    )
  }

  it.live("tells of files that were left out, and keeps those before them", () =>
    Effect.gen(function*() {
      const own = yield* sandbox({ setup: [] })
      yield* look(own, `cd "$SLIPWAY_ARTIFACTS" && printf fine > a && truncate -s 1G b && printf late > c`)
      const { files, leftOut } = yield* collected(own)
      assert.deepStrictEqual(Array.from(files.keys()), ["a"])
      assert.match(leftOut ?? "", /^Some files were not kept/u)
    }).pipe(Effect.scoped, Effect.provide(services)), PATIENCE)

  it.live("has no file of another sandbox", () =>
    Effect.gen(function*() {
      const host = yield* SandboxHost
      const [own, other] = [yield* sandbox({ setup: [] }), yield* sandbox({ setup: [] })]
      yield* look(other, `printf ${MARK} > "$SLIPWAY_ARTIFACTS/theirs"`)
      yield* look(own, `ln -s "/home/${other.id}/artifacts/theirs" "$SLIPWAY_ARTIFACTS/a"; printf mine > "$SLIPWAY_ARTIFACTS/b"`)
      yield* host.rest(own.id)
      const { files } = yield* collected(own)
      assert.deepStrictEqual(Array.from(files, ([name, bytes]) => [name, bytes.toString()]), [["b", "mine"]])
    }).pipe(Effect.scoped, Effect.provide(services)), PATIENCE)
})
