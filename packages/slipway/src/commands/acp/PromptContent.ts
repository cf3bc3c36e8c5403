/** The content of an editor's prompt as the text and the files of a sandbox's prompt. */
import type { ContentBlock } from "@agentclientprotocol/sdk"
import { MAX_FILE_BYTES } from "@slipway/domain/files/rules/UploadedFile"
import { MAX_FILES } from "@slipway/domain/sandbox/schema/PromptFile"
import path from "node:path"
import { fileURLToPath } from "node:url"
import { fenced } from "./PatchContent.ts"

/** Characters of a prompt that the API takes. */
const MAX_CHARACTERS = 60_000
/** An embedded text with more characters becomes a file of the prompt. */
const MAX_INLINE = 10_000

/** A file to upload. */
export interface NewFile {
  readonly name: string
  readonly mediaType: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** The prompt cannot be sent. The message says what to do. */
export class Unsendable extends Error {}

/** A file of the editor's folder by its path in it; any other address as it is. */
const nameOf = (uri: string, cwd: string): string => {
  if (!URL.canParse(uri) || new URL(uri).protocol !== "file:") return uri
  try {
    const file = fileURLToPath(uri)
    const inside = path.relative(cwd, file)
    return inside === "" || inside.startsWith("..") || path.isAbsolute(inside) ? path.basename(file) : inside
  } catch {
    // Not an address of a file of this machine.
    return uri
  }
}

const EXTENSIONS: Readonly<Record<string, string>> = { "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp" }

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(base64, "base64"))

/** Parts of a prompt in their order. */
class Parts {
  readonly texts: Array<string> = []
  readonly files: Array<NewFile> = []

  file(file: NewFile): void {
    this.files.push(file)
    this.texts.push(`[file: ${file.name}]`)
  }
}

const addResource = (parts: Parts, { resource }: Extract<ContentBlock, { type: "resource" }>, cwd: string) => {
  const name = nameOf(resource.uri, cwd)
  const base = path.basename(name) || "file"
  if ("blob" in resource) {
    return parts.file({ name: base, mediaType: resource.mimeType ?? "application/octet-stream", bytes: bytesOf(resource.blob) })
  }
  if (resource.text.length > MAX_INLINE) {
    return parts.file({ name: base, mediaType: resource.mimeType ?? "text/plain", bytes: new Uint8Array(Buffer.from(resource.text)) })
  }
  parts.texts.push(`${name}:\n${fenced(resource.text)}`)
}

const addBlock = (parts: Parts, block: ContentBlock, cwd: string) => {
  switch (block.type) {
    case "text":
      parts.texts.push(block.text)
      return
    case "resource_link":
      parts.texts.push(`${nameOf(block.uri, cwd)}`)
      return
    case "resource":
      addResource(parts, block, cwd)
      return
    case "image": {
      const base = block.uri === null || block.uri === undefined ? "" : path.basename(nameOf(block.uri, cwd))
      const name = base === "" ? `image-${parts.files.length + 1}.${EXTENSIONS[block.mimeType] ?? "bin"}` : base
      parts.file({ name, mediaType: block.mimeType, bytes: bytesOf(block.data) })
      return
    }
    default:
      throw new Unsendable(`A prompt takes text, files and images, no ${block.type}.`)
  }
}

/**
 * The prompt's text, and its files in order. Long texts become files. Throws {@link Unsendable} if it is empty or exceeds what the API
 * takes.
 */
export const contentOf = (
  blocks: ReadonlyArray<ContentBlock>,
  cwd: string
): { readonly prompt: string; readonly files: ReadonlyArray<NewFile> } => {
  const parts = new Parts()
  for (const block of blocks) addBlock(parts, block, cwd)
  const { files } = parts
  const prompt = joined(parts.texts)
  const large = files.find(({ bytes }) => bytes.length > MAX_FILE_BYTES)
  if (files.length > MAX_FILES) throw new Unsendable(`A prompt takes at most ${MAX_FILES} files, images and long texts: remove some.`)
  if (large !== undefined) throw new Unsendable(`${large.name} has more than ${MAX_FILE_BYTES / 1024 / 1024} MiB: remove it.`)
  if (prompt.trim() === "") throw new Unsendable("There is no prompt: what should the agent do?")
  if ([...prompt].length > MAX_CHARACTERS) throw new Unsendable(`A prompt has at most ${MAX_CHARACTERS} characters: shorten it.`)
  return { prompt, files }
}

/** Editors split a sentence at its mentions, so blocks follow each other; a block of several lines is apart. */
const joined = (texts: ReadonlyArray<string>): string =>
  texts.reduce((before, text) => {
    const isApart = before !== "" && text.includes("\n```") || before.endsWith("```")
    const needsSpace = before !== "" && !/\s$/u.test(before) && !/^[\s.,;:!?)]/u.test(text)
    return `${before}${isApart ? "\n\n" : needsSpace ? " " : ""}${text}`
  }, "")
