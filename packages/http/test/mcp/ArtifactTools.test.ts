/** The tools for the files that agents leave: what they show, what they leave to a download, and that they keep to the caller's grant. */
import { assert, layer } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import { Effect } from "effect"
import { readArtifact } from "../../src/mcp/tools/ArtifactTools.ts"
import { address, create, layer as http, leave, mintKey } from "../../testing/Harness.ts"
import { called, connected } from "./Clients.ts"

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64")
const MIB = 1024 * 1024

/** An image of this many bytes: its beginning says that it is one. */
const image = (bytes: number) => Buffer.concat([PNG, Buffer.alloc(bytes - PNG.length)])

layer(http(), { excludeTestServices: true })("artifacts over MCP", (it) => {
  /** A client, and a sandbox with these artifacts. */
  const given = Effect.fnUntraced(function*(files: Parameters<typeof leave>[1], leftOut: string | null = null) {
    const { key } = yield* mintKey()
    const id = yield* create(key)
    yield* leave(id, files, leftOut)
    const client = yield* connected(key)
    /** Everything in the result of a read. */
    const read = (name: string, range: object = {}) =>
      Effect.promise(async () => {
        const { content, isError, ...rest } = await client.callTool({
          name: "read_artifact",
          arguments: { sandboxId: id, name, ...range }
        })
        const [first, ...others] = content as ReadonlyArray<{ readonly text: string }>
        assert.notProperty(rest, "structuredContent")
        return { isError: isError === true, text: first?.text ?? "", others }
      })
    const answer = (name: string, range: object = {}) =>
      Effect.map(read(name, range), ({ others, text }) => ({ fields: JSON.parse(text) as Record<string, unknown>, others }))
    return { id, client, read, answer }
  })

  it.effect("are listed with type and size, and with the reason why others are missing", () =>
    Effect.gen(function*() {
      const { client, id } = yield* given(
        [{ name: "report.md", bytes: Buffer.from("# Done\n") }, { name: "shots/cart.png", bytes: PNG }],
        "One was left out."
      )
      const { isError, structured, text } = yield* called(client, "list_artifacts", { sandboxId: id })
      assert.isFalse(isError, text)
      const artifacts = structured["artifacts"] as ReadonlyArray<Record<string, unknown>>
      assert.deepStrictEqual(artifacts.map(({ mediaType, name, size }) => [name, mediaType, size]), [
        ["report.md", "text/plain", 7],
        ["shots/cart.png", "image/png", PNG.length]
      ])
      assert.strictEqual(structured["leftOut"], "One was left out.")
      assert.match(structured["note"] as string, /untrusted/u)
    }))

  it.effect("are read as text in pages, with the note that it is untrusted", () =>
    Effect.gen(function*() {
      const { answer } = yield* given([{ name: "report.md", bytes: Buffer.from("äbcdef") }])
      const { fields, others } = yield* answer("report.md")
      assert.deepInclude(fields, { mediaType: "text/plain", size: 7, text: "äbcdef", nextOffset: null, next: null })
      assert.match(fields["note"] as string, /untrusted/u)
      assert.deepStrictEqual(others, [])
      assert.deepInclude((yield* answer("report.md", { offset: 1, limit: 2 })).fields, { text: "bc", totalCharacters: 6, nextOffset: 3 })
    }))

  it.effect("are shown as an image of the type that their bytes say", () =>
    Effect.gen(function*() {
      const { answer } = yield* given([{ name: "cart.txt", bytes: PNG }])
      const { fields, others } = yield* answer("cart.txt")
      assert.deepStrictEqual(others, [{ type: "image", mimeType: "image/png", data: PNG.toString("base64") }] as never)
      assert.deepInclude(fields, { mediaType: "image/png", text: "", next: null })
    }))

  it.effect("are read and shown up to the limits, and left to a download above them", () =>
    Effect.gen(function*() {
      const text = Buffer.alloc(MIB, "x")
      const { answer, id } = yield* given([
        { name: "most.txt", bytes: text },
        { name: "more.txt", bytes: Buffer.concat([text, Buffer.from("x")]) },
        { name: "most.png", bytes: image(3 * MIB) },
        { name: "more.png", bytes: image(3 * MIB + 1) },
        { name: "page.html", bytes: Buffer.from("<script>alert(1)</script>") }
      ])
      assert.deepInclude((yield* answer("most.txt", { offset: MIB - 2 })).fields, { text: "xx", totalCharacters: MIB, next: null })
      assert.lengthOf((yield* answer("most.png")).others, 1)
      for (const name of ["more.txt", "more.png", "page.html"]) {
        const { fields, others } = yield* answer(name)
        assert.deepInclude(fields, { text: "", totalCharacters: 0 }, name)
        assert.include(fields["next"], `GET /api/public/v1/sandboxes/${id}/artifacts/${name}`)
        assert.deepStrictEqual(others, [], name)
      }
    }))

  it.effect("have no part of their name that a shell would run in the words for a download", () =>
    Effect.gen(function*() {
      const name = "a'; $(touch x) `id` \"b\".html"
      const { answer } = yield* given([{ name, bytes: Buffer.from("<p>") }])
      const next = (yield* answer(name)).fields["next"] as string
      assert.match(next.split("/artifacts/")[1] ?? "", /^[\w.%]+$/u)
      assert.notInclude(next, name)
    }))

  it.effect("that change between their listing and their download are not shown, and the model is told to read them again", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey()
      const id = yield* create(key)
      yield* leave(id, [{ name: "report.md", bytes: Buffer.from("newer") }])
      const { host, port } = yield* address
      let isOutdated = true
      // The list of a moment ago: another turn has ended since.
      const earlier: typeof fetch = async (input, init) => {
        const response = await fetch(input, init)
        if (!String(input).endsWith("/artifacts")) return response
        const { data, ...rest } = await response.json() as { readonly data: ReadonlyArray<{ readonly sha256: string }> }
        const before = data.map((one) => ({ ...one, sha256: isOutdated ? "0".repeat(64) : one.sha256 }))
        return Response.json({ ...rest, data: before })
      }
      const client = new SlipwayClient({ baseUrl: `http://${host}:${port}`, apiKey: key, fetch: earlier })
      const call = { client, signal: new AbortController().signal, progress: () => undefined }
      const read = Effect.promise(async () => {
        const { content: [first] } = await readArtifact.run({ sandboxId: id, name: "report.md" }, call)
        return JSON.parse(first?.type === "text" ? first.text : "{}") as Record<string, unknown>
      })
      assert.deepInclude(yield* read, { text: "", totalCharacters: 0, next: "It changed just now: call read_artifact again." })
      isOutdated = false
      assert.deepInclude(yield* read, { text: "newer", next: null })
    }))

  it.effect("that are unknown, or of another grant, are refused with the words of the API", () =>
    Effect.gen(function*() {
      const { client, id, read } = yield* given([{ name: "report.md", bytes: Buffer.from("secret") }])
      const unknown = yield* read("other.md")
      assert.deepStrictEqual([unknown.isError, /\(file_not_found, req_/u.test(unknown.text)], [true, true], unknown.text)
      const stranger = yield* connected((yield* mintKey({ grant: "strangers" })).key)
      for (const [tool, input] of [["list_artifacts", {}], ["read_artifact", { name: "report.md" }]] as const) {
        const refused = yield* called(stranger, tool, { sandboxId: id, ...input })
        assert.deepStrictEqual([refused.isError, /\(not_found, /u.test(refused.text)], [true, true], refused.text)
      }
      assert.isTrue((yield* called(client, "read_artifact", { sandboxId: id, name: "x".repeat(256) })).isError)
    }))
})
