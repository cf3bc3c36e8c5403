/**
 * Files of prompts as attackers of a real box, and the box as an attacker of them (docs/decisions/21): a file runs nowhere, what an agent
 * left in its place leads nowhere, and the model gets the bytes that were uploaded.
 */
import { assert, describe, it } from "@effect/vitest"
import { Blobs } from "@slipway/domain/files/ports/Blobs"
import { fileName, mediaType } from "@slipway/domain/files/rules/UploadedFile"
import { Ids } from "@slipway/domain/ids/Ids"
import * as BlobsMemory from "@slipway/domain/memory/files/BlobsMemory"
import * as PromptFilesMemory from "@slipway/domain/memory/sandbox/PromptFilesMemory"
import { PromptFiles } from "@slipway/domain/sandbox/ports/PromptFiles"
import { DateTime, Effect, Layer, Stream } from "effect"
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import * as BoxFiles from "../../src/turn/BoxFiles.ts"
import { principal } from "../Doubles.ts"
import { layer, look, Place, sandbox, type Sandbox } from "./Service.ts"

const services = (given: Parameters<typeof layer>[0] = {}) =>
  Layer.mergeAll(
    layer(given),
    BlobsMemory.layer,
    Layer.sync(PromptFiles, () => PromptFilesMemory.make({ rows: new Map(), deleted: new Map() }))
  )

/** Uploads a file as the service does, and has the sandbox use it. */
const upload = Effect.fnUntraced(function*({ id: sandboxId }: Sandbox, name: string, content: string | Uint8Array, type = "text/plain") {
  const [files, blobs, ids] = [yield* PromptFiles, yield* Blobs, yield* Ids]
  const at = yield* DateTime.now
  const bytes = Buffer.from(content)
  const id = `file_${yield* ids.random("abcdefgh", 12)}`
  const sha256 = createHash("sha256").update(bytes).digest("hex")
  const { grantId } = principal
  const file = { id, grantId, name: fileName(name), mediaType: mediaType(type, bytes), size: bytes.length, sha256, createdAt: at }
  yield* files.begin(file)
  yield* blobs.put({ grantId, holder: id, sha256, size: bytes.length }, Stream.make(new Uint8Array(bytes)))
  yield* files.complete(file)
  yield* files.use({ grantId, id: sandboxId }, [id], at)
  return { id, name: file.name, mediaType: file.mediaType, size: file.size, content: bytes }
})

/** Machines under load take long; a hanging test ends all the same. */
const PATIENCE = 600_000

const MARK = "canary-7Qm2-file"
const PNG = Buffer.from("\x89PNG\r\n\x1a\n", "latin1")
const ROBBERY = "touch ~/loot /workspace/loot"

/** A file that is a program, in every form in which a careless reader would run, unpack or follow it. */
const HOSTILE: ReadonlyArray<readonly [name: string, content: string | Uint8Array, type?: string]> = [
  ["$(touch ~/loot).txt", `#!/bin/sh\n${ROBBERY}\n`],
  ["`touch loot`;touch loot;'\"\n.sh", `#!/bin/sh\n${ROBBERY}\n`],
  ["-rf", ROBBERY],
  ["--help", ROBBERY],
  ["../../.profile", ROBBERY],
  ["..", ROBBERY],
  ["/etc/passwd", "root::0:0::/:/bin/sh\n"],
  [".gitattributes", "* filter=loot\n"],
  ["picture.svg", `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`, "image/svg+xml"],
  ["claims.png", `<html><script>alert(1)</script></html>`, "image/png"],
  ["bomb.gz", gzipSync(new Uint8Array(8 * 2 ** 20)), "application/gzip"],
  ["b\u202Eexe.txt", "turned around"],
  ["n".repeat(300) + ".txt", "long"]
]

/** Left by an agent where its files are put. */
const TRAPS: Readonly<Record<string, (outside: string) => string>> = {
  "a link to a file of the machine": (outside) => `ln -s ${outside}/kept ~/files/plan.txt`,
  "a link to a folder of the machine": (outside) => `rm -rf ~/files; ln -s ${outside} ~/files`,
  "a link to another file of its size": () => `head -c ${MARK.length} /dev/zero > ~/same; ln -s ../same ~/files/plan.txt`,
  "a link to itself": () => "ln -s plan.txt ~/files/plan.txt",
  "a pipe": () => "mkfifo ~/files/plan.txt",
  "a folder": () => "mkdir -p ~/files/plan.txt/inner",
  "a file of an exabyte": () => "truncate -s 1E ~/files/plan.txt 2>/dev/null || truncate -s 8T ~/files/plan.txt || :",
  "a folder that cannot be written": () => "chmod 0555 ~/files",
  "a file in place of the folder": () => "rm -rf ~/files; echo mine > ~/files",
  "other programs": () =>
    "mkdir -p ~/bin ~/.local/bin; for p in cat wc mv rm chmod mkdir sh; do " +
    "for d in ~/bin ~/.local/bin; do printf '#!/bin/sh\\ntouch ~/loot\\n' > $d/$p; chmod +x $d/$p; done; done; " +
    "echo 'touch ~/loot' > ~/.profile; echo 'touch ~/loot' > ~/.shrc"
}

describe("files of prompts in a hostile box", () => {
  it.live(
    "run nowhere, whatever their names and bytes are: each is in the box as it was uploaded, read-only",
    () =>
      Effect.gen(function*() {
        const own = yield* sandbox({ setup: [] })
        const files = yield* Effect.forEach(HOSTILE, ([name, content, type]) => upload(own, name, content, type))
        const { images, text } = yield* BoxFiles.give(own.held, own.box, "Look.", files)
        assert.deepStrictEqual(images, [], "none of them is an image")
        const listed = (yield* look(own, "cd ~/files && for f in * .[!.]*; do stat -c '%a %F' -- \"$f\"; sha256sum < \"./$f\"; done"))
          .split(
            "\n"
          )
        const digests = files.map(({ content }) => createHash("sha256").update(content).digest("hex"))
        assert.deepStrictEqual(listed.filter((_, i) => i % 2 > 0).map((line) => line.slice(0, 64)).toSorted(), digests.toSorted())
        assert.deepStrictEqual(new Set(listed.filter((_, i) => i % 2 === 0)), new Set(["444 regular file"]))
        assert.strictEqual(yield* look(own, "ls -A ~ /workspace | grep loot; ls -A ~/files | grep part"), "")
        assert.strictEqual(text.split("\n").filter((line) => line.startsWith("- ")).length, files.length, "a line for each")
      }).pipe(Effect.scoped, Effect.provide(services())),
    PATIENCE
  )

  for (const [name, trap] of Object.entries(TRAPS)) {
    it.live(
      `are in their place or refused with a reason where the agent left ${name}, and the machine is as before`,
      () =>
        Effect.gen(function*() {
          const { outside } = yield* Place
          writeFileSync(join(outside, "kept"), "of the machine")
          const own = yield* sandbox({ setup: [] })
          const file = yield* upload(own, "plan.txt", MARK)
          const picture = yield* upload(own, "a.png", Buffer.concat([PNG, Buffer.from(MARK)]))
          yield* look(own, `mkdir -p ~/files; ${trap(outside)}`)
          const outcome = yield* Effect.result(BoxFiles.give(own.held, own.box, "Look.", [file, picture]))
          if (outcome._tag === "Success") {
            assert.strictEqual(yield* look(own, "cat ~/files/plan.txt"), MARK)
            assert.deepStrictEqual(outcome.success.images.map(({ data }) => Buffer.from(data)), [picture.content])
          } else {
            assert.match(outcome.failure.message, /^The file (?:plan\.txt|a\.png) could not be put into the sandbox: /u)
          }
          assert.deepStrictEqual(readdirSync(outside), ["kept"])
          assert.strictEqual(readFileSync(join(outside, "kept"), "utf8"), "of the machine")
          assert.strictEqual(yield* look(own, "ls -A ~ /workspace | grep loot"), "")
          assert.strictEqual(yield* look(own, "echo fine"), "fine")
        }).pipe(Effect.scoped, Effect.provide(services())),
      PATIENCE
    )
  }

  it.live("go to the model as they were uploaded, though the agent put others in their place", () =>
    Effect.gen(function*() {
      const own = yield* sandbox({ setup: [] })
      const picture = yield* upload(own, "a.png", Buffer.concat([PNG, Buffer.from("uploaded")]))
      yield* BoxFiles.give(own.held, own.box, "Look.", [picture])
      yield* look(own, "rm -f ~/files/a.png; ln -s /proc/1/environ ~/files/a.png")
      const { images } = yield* BoxFiles.give(own.held, own.box, "Again.", [picture])
      assert.deepStrictEqual(images.map(({ data }) => Buffer.from(data)), [picture.content])
      assert.strictEqual(yield* look(own, "tail -c 8 ~/files/a.png"), "uploaded")
    }).pipe(Effect.scoped, Effect.provide(services())), PATIENCE)

  it.live("are in no other box and nowhere on the machine", () =>
    Effect.gen(function*() {
      const { folder } = yield* Place
      const [own, other] = [yield* sandbox({ setup: [] }), yield* sandbox({ setup: [] })]
      yield* BoxFiles.give(own.held, own.box, "Look.", [yield* upload(own, "plan.txt", MARK)])
      assert.include(yield* look(own, `grep -rls ${MARK} ~`), "plan.txt")
      yield* BoxFiles.placeAll(other.held, other.box)
      assert.strictEqual(yield* look(other, `grep -rls ${MARK} / --exclude-dir=proc --exclude-dir=sys 2>/dev/null`), "")
      assert.isFalse(existsSync(join(folder, "files")))
    }).pipe(Effect.scoped, Effect.provide(services())), PATIENCE)

  it.live("that are larger than the disk of their box are refused with the reason, and leave nothing there", () =>
    Effect.gen(function*() {
      const own = yield* sandbox({ setup: [] })
      const large = yield* upload(own, "large.bin", new Uint8Array(20 * 2 ** 20).fill(7))
      const refused = yield* Effect.flip(BoxFiles.give(own.held, own.box, "Look.", [large]))
      assert.strictEqual(
        refused.message,
        "The file large.bin could not be put into the sandbox: it could not be written there. The disk may be full."
      )
      assert.strictEqual(yield* look(own, "ls -A ~/files"), "")
      const small = yield* upload(own, "small.txt", "small")
      yield* BoxFiles.give(own.held, own.box, "Look.", [small])
      assert.strictEqual(yield* look(own, "cat ~/files/small.txt"), "small")
    }).pipe(Effect.scoped, Effect.provide(services({ diskBytes: 16 * 2 ** 20 }))), PATIENCE)
})
