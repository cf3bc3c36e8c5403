/** Forms as browsers send them: `application/x-www-form-urlencoded`, and `multipart/form-data` where a form takes files. */
import { MAX_FILE_BYTES } from "@slipway/domain/files/rules/UploadedFile"
import { type Received, UploadTooLarge } from "@slipway/domain/files/usecases/Uploads"
import { MAX_FILES } from "@slipway/domain/sandbox/schema/PromptFile"
import { failures } from "@slipway/http/server/access/Authenticate"
import { isInUtf8 } from "@slipway/http/server/request/ContentType"
import { receive } from "@slipway/http/server/request/ReceivedFile"
import { ByteSize, Clock, Effect, Option, Stream } from "effect"
import { HttpIncomingMessage, type HttpServerError, type HttpServerRequest, Multipart } from "effect/http"
import { Refused } from "./Refused.ts"

/** Bytes that the form of a page may have. */
export const BYTES = 64 * 1024

/** With a prompt as long as it may be: 60,000 characters of four bytes, each written with three. */
export const PROMPT_BYTES = 768 * 1024

/** Several times what the largest form has. */
const MAX_FIELDS = 200

/** Browsers percent-encode everything else. */
const ENCODED = /^[!-~]*$/u

const decoded = (text: string): string | null => {
  if (!ENCODED.test(text)) return null
  try {
    return decodeURIComponent(text.replaceAll("+", " "))
  } catch {
    return null
  }
}

/** A field is missing or given twice: no form of ours does that. */
export const incomplete = Refused.bad("This form is incomplete. Reload the page and try again.")

/** The fields of one form. What is asked of them fails with the page of a bad request, which no form of ours brings about. */
export class Form {
  readonly #fields: ReadonlyArray<readonly [name: string, value: string]>
  /** The files that are new in the form. They are there until the request is answered. */
  readonly files: ReadonlyArray<Received>
  constructor(fields: ReadonlyArray<readonly [name: string, value: string]>, files: ReadonlyArray<Received> = []) {
    this.#fields = fields
    this.files = files
  }

  /** Every value of the field, as of checkboxes. */
  all(name: string): ReadonlyArray<string> {
    return this.#fields.flatMap(([field, value]) => field === name ? [value] : [])
  }

  /** The value of a field that is there exactly once. */
  one(name: string): Effect.Effect<string, Refused> {
    const [value, ...more] = this.all(name)
    return value === undefined || more.length > 0 ? Effect.fail(incomplete) : Effect.succeed(value)
  }

  /** As `one`, of a field that may be left out. */
  maybe(name: string): Effect.Effect<string | null, Refused> {
    return this.all(name).length === 0 ? Effect.succeed(null) : this.one(name)
  }
}

export const empty = new Form([])

const parse = (text: string): Form | null => {
  const fields: Array<readonly [string, string]> = []
  // One more than there may be tells that there are too many.
  const pairs = text === "" ? [] : text.split("&", MAX_FIELDS + 1)
  if (pairs.length > MAX_FIELDS) return null
  for (const pair of pairs) {
    const [, name, value] = /^([^=]*)(?:=(.*))?$/su.exec(pair) ?? []
    const field = [decoded(name ?? ""), decoded(value ?? "")] as const
    // No text that a person types has a NUL, and the database takes none.
    if (field[0] === null || field[1] === null || field[1].includes("\0")) return null
    fields.push([field[0], field[1]])
  }
  return new Form(fields)
}

const tooLarge = (bytes: number) => new Refused({ status: 413, title: "Too large", text: `The form is larger than ${bytes / 1024} KiB.` })
const fileTooLarge = new Refused({ status: 413, title: "File too large", text: new UploadTooLarge().message })
const unreadable = Refused.bad("The form could not be read. Reload the page and try again.")

/** The form that the request brings. */
export const read = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, bytes = BYTES) {
  if (!isInUtf8(request.headers["content-type"], "application/x-www-form-urlencoded")) {
    return yield* new Refused({
      status: 415,
      title: "Not a form",
      text: "This address only accepts forms: application/x-www-form-urlencoded in UTF-8."
    })
  }
  // Counts while it reads, whatever the length is said to be.
  const text = yield* Effect.mapError(
    Effect.provideService(request.text, HttpIncomingMessage.MaxBodySize, ByteSize.bytes(bytes)),
    ({ reason }: HttpServerError.HttpServerError) =>
      reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? tooLarge(bytes) : unreadable
  )
  return parse(text) ?? (yield* unreadable)
})

const MULTIPART = /^multipart\/form-data(?:;|$)/iu

/** The form that the request brings, which may have files. They are received one after the other. */
export const readWithFiles = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, bytes = BYTES) {
  if (!MULTIPART.test(request.headers["content-type"] ?? "")) return yield* read(request, bytes)
  const fields: Array<readonly [string, string]> = []
  const files: Array<Received> = []
  let length = 0
  yield* Stream.runForEach(
    request.multipartStream,
    Effect.fnUntraced(function*(part) {
      if (fields.length + files.length >= MAX_FIELDS) return yield* unreadable
      if (part._tag === "Field") {
        length += part.value.length
        if (length > bytes) return yield* tooLarge(bytes)
        if (part.value.includes("\0")) return yield* unreadable
        return void fields.push([part.key, part.value])
      }
      const file = yield* receive(part.content)
      // Browsers send a part without a name for a field without a file.
      if (file.size === 0 && (part.name === "" || part.name === part.key)) return
      if (files.length >= MAX_FILES) return yield* Refused.bad(`A message can have up to ${MAX_FILES} files.`)
      files.push({ ...file, name: part.name, mediaType: part.contentType })
    })
  ).pipe(
    Effect.provideContext(Multipart.limitsServices({
      maxParts: MAX_FIELDS,
      maxFieldSize: ByteSize.bytes(bytes),
      maxFileSize: ByteSize.bytes(MAX_FILE_BYTES)
    })),
    Effect.catchTags({
      MultipartError: ({ reason: { _tag } }) =>
        Effect.fail(_tag === "FieldTooLarge" ? tooLarge(bytes) : _tag === "FileTooLarge" ? fileTooLarge : unreadable),
      UploadTooLarge: () => Effect.fail(fileTooLarge)
    })
  )
  return new Form(fields, files)
})

/** Reads forms of people who are not signed in. Each address may send `limit` unreadable ones in any 60 s. */
export const ofStrangers = (limit: number) => {
  const count = failures(limit)
  return (request: HttpServerRequest.HttpServerRequest, bytes = BYTES) =>
    Effect.catchTag(
      read(request, bytes),
      "Refused",
      Effect.fnUntraced(function*(refused) {
        const wait = count(Option.getOrElse(request.remoteAddress, () => ""), yield* Clock.currentTimeMillis)
        if (wait === 0) return yield* refused
        return yield* new Refused({
          status: 429,
          title: "Too many requests",
          text: `Too many unreadable forms came from this address. Try again in ${wait} s.`,
          headers: { "retry-after": String(wait) }
        })
      })
    )
}
