/** Tools that list and read the files that an agent left for people (docs/artifacts.md). */
import type { Artifact, SlipwayClient } from "@slipway/client"
import { MAX_ARTIFACT_NAME_BYTES } from "@slipway/domain/files/rules/Artifact"
import { IMAGE_TYPES } from "@slipway/domain/models/rules/Images"
import { characters } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { note, pageOf, paging, sandboxId } from "./Shapes.ts"
import { reads, tool, UNTRUSTED, WithImage } from "./Tool.ts"

/** Bytes of a text that is read, as of `read_file`. */
const MAX_TEXT_BYTES = 1024 * 1024
/** Bytes of an image that is shown. In base64 that is 4 MiB; models take images of up to 5 MB. */
const MAX_IMAGE_BYTES = 3 * 1024 * 1024

const mediaType = Schema.String.annotateKey({ description: "By its first bytes, not by its name." })
const size = Schema.Number.annotateKey({ description: "Bytes." })

export const listArtifacts = tool({
  name: "list_artifacts",
  title: "List the artifacts",
  description:
    "Lists the files that the agent left for people in $SLIPWAY_ARTIFACTS, such as reports and screenshots, as of the end of its " +
    "last turn. At most 50. Changes nothing and costs nothing.",
  ...reads,
  input: Schema.Struct({ sandboxId }),
  output: Schema.Struct({
    note,
    artifacts: Schema.Array(Schema.Struct({ name: Schema.String, mediaType, size, createdAt: Schema.String })),
    leftOut: Schema.NullOr(Schema.String).annotateKey({ description: "Why files of the last turn were not stored; null: all were." })
  }),
  run: async ({ sandboxId }, { client, signal }) => {
    const { data, leftOut } = await client.listArtifacts(sandboxId, { signal })
    const artifacts = data.map(({ createdAt, mediaType, name, size }) => ({ name, mediaType, size, createdAt }))
    return { note: UNTRUSTED, artifacts, leftOut }
  }
})

/** The name is untrusted, and the text may end up in a shell: the command has no name, and the address no quote. */
const downloadOf = (sandboxId: string, name: string): string => {
  const encoded = encodeURIComponent(name).replaceAll(/[!'()*]/gu, (sign) => `%${sign.charCodeAt(0).toString(16)}`)
  return "It is not shown here. Download it with the command: slipway artifacts SANDBOX NAME --output FILE, or with the key of the API: " +
    `GET /api/public/v1/sandboxes/${sandboxId}/artifacts/${encoded}`
}

/** The bytes of the artifact as it was listed; `null`: it changed meanwhile. */
const bytesOf = async (client: SlipwayClient, sandboxId: string, { name, sha256 }: Artifact, signal: AbortSignal) => {
  const response = await client.getArtifact(sandboxId, name, { signal })
  if (response.headers.get("etag") === `"${sha256}"`) return new Uint8Array(await response.arrayBuffer())
  await response.body?.cancel()
  return null
}

const mostOf = (mediaType: string): number =>
  mediaType === "text/plain" ? MAX_TEXT_BYTES : IMAGE_TYPES.has(mediaType) ? MAX_IMAGE_BYTES : -1

export const readArtifact = tool({
  name: "read_artifact",
  title: "Read an artifact",
  description:
    "Reads a file that the agent left for people: a text of at most 1 MiB in pages, or a PNG, JPEG, GIF or WebP image of at most " +
    "3 MiB as an image. Of others it tells type and size, and how to download them. Changes nothing and costs nothing.",
  ...reads,
  input: Schema.Struct({
    sandboxId,
    name: characters(1, MAX_ARTIFACT_NAME_BYTES).annotateKey({ description: "As list_artifacts gives it." }),
    ...paging
  }),
  // Clients with a structured result give their model nothing else, so it would see no image.
  output: null,
  run: async ({ limit, name, offset, sandboxId }, { client, signal }) => {
    const { data } = await client.listArtifacts(sandboxId, { signal })
    const artifact = data.find((one) => one.name === name)
    // The API refuses an unknown name in its own words.
    if (artifact === undefined) await (await client.getArtifact(sandboxId, name, { signal })).body?.cancel()
    const { mediaType, size } = artifact ?? { mediaType: "", size: 0 }
    const answer = { note: UNTRUSTED, name, mediaType, size, ...pageOf("", {}) }
    if (artifact !== undefined && size > mostOf(mediaType)) return { ...answer, next: downloadOf(sandboxId, name) }
    const bytes = artifact === undefined ? null : await bytesOf(client, sandboxId, artifact, signal)
    if (bytes === null) return { ...answer, next: "It changed just now: call read_artifact again." }
    if (mediaType === "text/plain") {
      const range = { ...(limit === undefined ? {} : { limit }), ...(offset === undefined ? {} : { offset }) }
      return { ...answer, ...pageOf(new TextDecoder().decode(bytes), range), next: null }
    }
    return new WithImage({ ...answer, next: null }, { mimeType: mediaType, data: Buffer.from(bytes).toString("base64") })
  }
})
