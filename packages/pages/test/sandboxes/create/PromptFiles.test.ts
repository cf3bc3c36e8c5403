/** Files in the forms of prompts, as browsers without scripts send them. */
import { assert, layer } from "@effect/vitest"
import { MAX_FILE_BYTES } from "@slipway/domain/files/rules/UploadedFile"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Effect } from "effect"
import { type ChosenFile, type Fields, textOf, visitor } from "../../../testing/Browser.ts"
import { layer as http, type Reply, running } from "../../../testing/Harness.ts"

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64")
const picture: ChosenFile = { name: "a <b>.png", type: "image/png", content: PNG }
const log: ChosenFile = { name: "build.log", type: "text/plain", content: "it failed" }
const nothing: ChosenFile = { name: "", type: "application/octet-stream", content: "" }

const form = (more: Fields = {}): Fields => ({
  key: "key-1",
  prompt: "Look at this",
  model: "offline/demo",
  effort: "",
  approvals: "auto",
  repo: "acme/shop",
  ref: "",
  ...more
})

const idOf = ({ headers, status, text }: Reply) => {
  assert.strictEqual(status, 303, text)
  return SandboxId.make(String(headers["location"]).replace("/sandboxes/", ""))
}

const catalogue = {
  default: "offline/demo",
  models: [offlineDemo, { ...offlineDemo, id: "offline/blind", images: false }]
}

layer(http({ catalogue }), { excludeTestServices: true })("files in forms", (it) => {
  it.effect("are uploaded with a new sandbox, and named on its page", () =>
    Effect.gen(function*() {
      const { get, grantId, postFiles } = yield* visitor("files-new")
      assert.match((yield* get("/new")).text, /<form[^>]*enctype="multipart\/form-data"[^]*<input type="file" name="file" multiple>/u)
      const id = idOf(yield* postFiles("/new", form(), [picture, log]))
      const { files, prompt } = yield* SandboxStore.use((store) => store.find({ grantId, id }))
      assert.strictEqual(prompt, "Look at this")
      assert.deepStrictEqual(files?.map(({ mediaType, name, size }) => [name, mediaType, size]), [
        ["a <b>.png", "image/png", PNG.length],
        ["build.log", "text/plain", 9]
      ])
    }))

  it.effect("are none where no file was chosen", () =>
    Effect.gen(function*() {
      const { grantId, post, postFiles } = yield* visitor("files-none")
      for (const reply of [yield* postFiles("/new", form(), [nothing]), yield* post("/new", form({ key: "key-2" }))]) {
        const sandbox = yield* SandboxStore.use((store) => store.find({ grantId, id: idOf(reply) }))
        assert.isUndefined(sandbox.files)
      }
    }))

  it.effect("come back with a form that something is wrong with, and can be left out of it", () =>
    Effect.gen(function*() {
      const { grantId, postFiles } = yield* visitor("files-again")
      const refused = yield* postFiles("/new", form({ model: "offline/blind" }), [picture, log])
      assert.strictEqual(refused.status, 400)
      assert.include(textOf(refused), "takes no images")
      assert.include(refused.text, "a &lt;b&gt;.png")
      const ids = Array.from(refused.text.matchAll(/name="files" value="(file_[a-z2-9]+)" checked/gu), ([, id = ""]) => id)
      assert.lengthOf(ids, 2)
      const id = idOf(yield* postFiles("/new", form({ model: "offline/blind", files: ids.slice(1), key: "key-3" }), [log]))
      const { files } = yield* SandboxStore.use((store) => store.find({ grantId, id }))
      assert.deepStrictEqual(files?.map(({ name }) => name), ["build.log", "build.log"])
    }))

  it.effect("are sent with a message", () =>
    Effect.gen(function*() {
      const { get, grantId, key, postFiles } = yield* visitor("files-message")
      const { id } = yield* running(key)
      assert.include((yield* get(`/sandboxes/${id}`)).text, "name=\"file\"")
      const reply = yield* postFiles(`/sandboxes/${id}/messages`, { prompt: "See this", whenBusy: "queue" }, [log])
      assert.strictEqual(reply.status, 303, reply.text)
      const { waiting } = yield* SandboxStore.use((store) => store.find({ grantId, id }))
      assert.deepStrictEqual(waiting.map(({ files }) => files?.map(({ name }) => name)), [["build.log"]])
    }))

  it.effect("are refused as pages: too large, too many, of a foreign form, and of what is no form", () =>
    Effect.gen(function*() {
      const { postFiles } = yield* visitor("files-bad")
      const large = { ...log, content: new Uint8Array(MAX_FILE_BYTES + 1) }
      assert.strictEqual((yield* postFiles("/new", form(), [large])).status, 413)
      assert.strictEqual((yield* postFiles("/new", form(), Array.from({ length: 11 }, () => log))).status, 400)
      assert.strictEqual((yield* postFiles("/new", form({ csrf: "x" }), [log])).status, 403)
      assert.strictEqual((yield* postFiles("/new", form({ prompt: "\0" }), [log])).status, 400)
      assert.strictEqual((yield* postFiles("/new", form({ prompt: "x".repeat(800_000) }), [log])).status, 413)
      assert.strictEqual((yield* postFiles("/sandboxes/c_aaaaaaaaaaaa/rename", { title: "x" }, [])).status, 415)
    }))
})
