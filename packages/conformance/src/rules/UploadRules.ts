/** Files that are uploaded for prompts. */
import { createHash } from "node:crypto"
import { answered, refused, type Reply } from "../client/Client.ts"
import { count, fits, holds, is, matching, nullOr, object, same, Skip, text, timestamp } from "../client/Expect.ts"
import { turnId } from "../world/Identity.ts"
import type { World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("uploads", "docs/decisions/21")
const running = { needs: ["repo"] } as const

const FILES = "/api/public/v1/files"
const UNKNOWN_FILE = "file_zzzzzzzzzzzz"
const MAX_BYTES = 20 * 1024 * 1024
const DAY_MILLIS = 86_400_000

/** A PNG of one pixel. */
const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64")
const SVG = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>"

const resource = object({
  id: matching(/^file_[a-z2-9]{12}$/u, "an id of a file"),
  object: is("file"),
  name: text,
  mediaType: text,
  size: count,
  sha256: matching(/^[0-9a-f]{64}$/u, "a SHA-256 in hex"),
  createdAt: timestamp,
  expiresAt: nullOr(timestamp)
})

const upload = (world: World, body: string | Uint8Array, headers: Record<string, string> = {}): Promise<Reply> =>
  world.http.ask(FILES, { method: "POST", body, headers: { "content-type": "text/plain", ...headers } })

const uploaded = async (world: World, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  answered(await upload(world, body, headers), 201, "an upload").json

const attached = (file: { readonly value: unknown }) => {
  const { id, mediaType, name, size } = file.value as Record<string, unknown>
  return { id, name, mediaType, size }
}

/** The rules of this file. */
export const rules = [
  rule("stored", "An upload answers 201 with the file's name, type, size, hash and times; GET answers the same.", async (world) => {
    const bytes = Buffer.from("Conformance \u{1F680}\n")
    const headers = { "content-type": "text/x-log", "content-disposition": "attachment; filename*=UTF-8''%C3%BC%2F..%2Fa%20b.log" }
    const file = await uploaded(world, bytes, headers)
    fits(file.value, resource, "the file")
    same(["name", "mediaType", "size"].map((key) => file.at(key).value), ["a b.log", "text/x-log", bytes.length], "name, type and size")
    same(file.at("sha256").value, createHash("sha256").update(bytes).digest("hex"), "sha256")
    const kept = Date.parse(file.at("expiresAt").string) - Date.parse(file.at("createdAt").string)
    same(kept, DAY_MILLIS, "milliseconds until it expires")
    const { json } = answered(await world.http.ask(`${FILES}/${file.at("id").string}`), 200, "GET of the file")
    same(json.value, file.value, "the file")
  }),
  rule("bytes", "Its bytes are an attachment that no browser runs, and only images have their media type.", async (world) => {
    const cases = [
      [PNG, "application/x-none", "image/png", "image/png"],
      [SVG, "image/svg+xml", "image/svg+xml", "application/octet-stream"],
      ["<script>alert(1)</script>", "text/html", "text/html", "application/octet-stream"]
    ] as const
    for (const [body, said, known, served] of cases) {
      const file = await uploaded(world, body, { "content-type": said })
      same(file.at("mediaType").value, known, `media type of ${said}`)
      const reply = answered(await world.http.ask(`${FILES}/${file.at("id").string}/content`), 200, "the bytes of a file")
      holds(reply.bytes.equals(Buffer.from(body)), "the bytes that were sent", reply.text)
      same(reply.header("content-type"), served, `content-type of ${said}`)
      holds(reply.header("content-disposition")?.startsWith("attachment") === true, "an attachment", reply.header("content-disposition"))
      same(reply.header("x-content-type-options"), "nosniff", "x-content-type-options")
      const policy = reply.header("content-security-policy") ?? ""
      holds(/(?:^|;)\s*sandbox(?:$|;)/u.test(policy), "a policy that runs no script", policy)
    }
  }),
  rule("claims", "A file is an image by its bytes, whatever its type claims.", async (world) => {
    for (const said of ["image/png", "image/jpeg", "image/gif", "image/webp"]) {
      const file = await uploaded(world, "<script>alert(1)</script>", { "content-type": said })
      same(file.at("mediaType").value, "application/octet-stream", `media type of what claims to be ${said}`)
    }
  }),
  rule("size", "A file has at most 20 MiB, announced or not.", async (world) => {
    const most = new Uint8Array(MAX_BYTES)
    same((await uploaded(world, most)).at("size").value, MAX_BYTES, "size")
    const more = new Uint8Array(MAX_BYTES + 1)
    refused(await world.http.ask(FILES, { method: "POST", body: more, chunked: true }), 413, "file_too_large", "20 MiB and a byte")
  }, { needs: ["slow"] }),
  rule("encoded", "An encoded body is 415 unsupported_media_type.", async (world) => {
    refused(await upload(world, "x", { "content-encoding": "gzip" }), 415, "unsupported_media_type", "an encoded upload")
  }),
  rule("foreign", "Another grant's file answers like an unknown one.", async (world) => {
    const { otherKey } = world.options
    const file = await uploaded(world, "x")
    const id = file.at("id").string
    for (const path of ["", "/content"]) {
      const theirs = await world.http.ask(`${FILES}/${id}${path}`, { key: otherKey })
      refused(theirs, 404, "file_not_found", "another grant's file")
      const nobodys = await world.http.ask(`${FILES}/${UNKNOWN_FILE}${path}`, { key: otherKey })
      same(theirs.text.replaceAll(id, UNKNOWN_FILE), nobodys.text, "the answer")
    }
  }, { needs: ["other-key"] }),
  rule("refs", "A prompt takes 10 different files, and refuses other members and unknown ids.", async (world) => {
    const ids: Array<{ readonly id: string }> = []
    for (let i = 0; i < 11; i++) ids.push({ id: (await uploaded(world, `${i}`)).at("id").string })
    await world.refuses({ files: ids }, "11 files")
    await world.accepts({ files: ids.slice(1) }, "10 files")
    const [first = { id: "" }] = ids
    for (const files of [[first, first], [{}], [first.id], first, [{ ...first, name: "x" }], [{ id: "x" }]]) {
      await world.refuses({ files }, JSON.stringify(files).slice(0, 60))
    }
    refused(await world.create({ files: [{ id: UNKNOWN_FILE }] }), 404, "file_not_found", "a creation with an unknown file")
  }, running),
  rule(
    "prompt",
    "The files of a prompt are in turn.started, in the list of messages, and read-only in the agent's home; then they do not expire.",
    async (world) => {
      const file = await uploaded(world, "Conformance: a file.\n", { "content-disposition": "attachment; filename=\"conformance.txt\"" })
      const path = "\"$HOME/files/conformance.txt\""
      const isIt = `test "$(cat ${path})" = "Conformance: a file."`
      // Nothing is read-only for root.
      const prompt = `Conformance: [[shell ${isIt} && { test ! -w ${path} || test "$(id -u)" = 0; }]] [[say Done.]]`
      const box = await world.session.box(world.creation({ prompt, files: [{ id: file.at("id").string }] }))
      const turn = turnId(box.id, 1)
      const end = await box.turnEnd(turn)
      same(end.data.at("state").value, "succeeded", "state of the turn")
      const log = await world.readLog(box)
      const started = log.find(({ type }) => type === "turn.started")
      same(started?.data.at("files").value, [attached(file)], "files of turn.started")
      const calls = log.filter(({ type }) => type === "tool.updated").map(({ data }) => data.at("status").value)
      if (calls.length === 0) throw new Skip("the offline agent runs no commands")
      same(calls.at(-1), "completed", "the command that reads the file")
      const { json } = answered(await world.get(box, "/messages"), 200, "messages")
      same(json.at("data").items[0]?.at("files").value, [attached(file)], "files of the first message")
      same((await world.http.ask(`${FILES}/${file.at("id").string}`)).json.at("expiresAt").value, null, "expiresAt")
      const again = { prompt: "Conformance: [[images]]", files: [{ id: (await uploaded(world, PNG)).at("id").string }] }
      const { json: sent } = answered(await box.ask("/messages", { body: again }), 201, "a message with an image")
      await box.turnEnd(sent.at("turnId").string)
      const said = (await world.readLog(box)).filter(({ type }) => type === "message.updated").map(({ data }) => data.at("text").value)
      holds(said.some((one) => String(one).includes(`image/png of ${PNG.length} bytes`)), "an agent that sees the image", said)
    },
    running
  )
]
