/** `slipway api`: any request to the API, with the key of the command line. */
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Effect, Option, Result, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { randomUUID } from "node:crypto"
import { createReadStream } from "node:fs"
import type { Readable } from "node:stream"
import { jsonLine } from "../terminal/Output.ts"
import * as Terminal from "../terminal/Terminal.ts"
import * as Server from "./server/Server.ts"
import * as ServerAccess from "./server/ServerAccess.ts"

const { CommandFailed, ExitCode } = Server

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
/** Paths without `/api/` are below it. */
const PUBLIC = "/api/public/v1"
/** Bytes of JSON that are indented for a terminal. A longer reply is printed as it came. */
const MAX_INDENTED_BYTES = 1024 * 1024
/** A longer list has to be read page by page. */
const MAX_PAGES = 1000

const unclear = (detail: string) => new CommandFailed({ detail, exitCode: ExitCode.unclear })

/**
 * The address of a path on the server, whose own address ends without a slash. A path that leads out of the server's API is refused,
 * because the key is sent there.
 *
 * @internal
 */
export const addressOf = (server: string, path: string): Result.Result<URL, string> => {
  const below = path.startsWith("/") ? path : `/${path}`
  const whole = below.startsWith("/api/") ? below : PUBLIC + below
  const text = `${server}${whole}`
  const address = URL.canParse(text) ? new URL(text) : null
  const isBelow = address?.href.startsWith(`${server}/api/`) === true
  return isBelow && address !== null
    ? Result.succeed(address)
    : Result.fail(`${JSON.stringify(path)} is not a path of the API, such as /sandboxes or /api/internal/v1/models.`)
}

/**
 * The fields of `NAME=VALUE`. A value that is JSON is sent as such, such as `3`, `true`, `"3"` or `[]`; any other value as text. A name
 * with `[]` at its end makes a list.
 *
 * @internal
 */
export const fieldsOf = (fields: ReadonlyArray<string>): Result.Result<Readonly<Record<string, unknown>>, string> => {
  const found: Record<string, unknown> = Object.create(null)
  for (const field of fields) {
    const at = field.indexOf("=")
    if (at <= 0) return Result.fail(`write each --field as NAME=VALUE, not ${JSON.stringify(field)}.`)
    const [name, value] = [field.slice(0, at), valueOf(field.slice(at + 1))]
    const list = name.endsWith("[]") ? name.slice(0, -2) : null
    if (list === null) found[name] = value
    else found[list] = [...(Array.isArray(found[list]) ? found[list] : []), value]
  }
  return Result.succeed(found)
}

const parseJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Unknown))

const valueOf = (text: string): unknown => Option.getOrElse(parseJson(text), () => text)

const textOf = (value: unknown): string => typeof value === "object" ? JSON.stringify(value) : String(value)

/** Fields of a request without a body are parameters of its address. */
const withQuery = (address: URL, fields: Readonly<Record<string, unknown>>): URL => {
  const asked = new URL(address)
  for (const [name, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : [value]) asked.searchParams.append(name, textOf(one))
  }
  return asked
}

/** A name of RFC 9110, and a value without control characters. */
const HEADER = /^(?<name>[\w!#$%&'*+.^`|~-]+):(?<value>[\t\x20-\x7e\x80-\xff]*)$/u

const headersOf = (headers: ReadonlyArray<string>): Result.Result<Headers, string> => {
  const found = new Headers()
  for (const header of headers) {
    const groups = HEADER.exec(header)?.groups
    if (groups === undefined) return Result.fail(`write each --header as NAME:VALUE, not ${JSON.stringify(header)}.`)
    found.append(groups["name"] ?? "", groups["value"] ?? "")
  }
  return Result.succeed(found)
}

const parsed = <A>(result: Result.Result<A, string>) => Effect.mapError(Effect.fromResult(result), unclear)

interface Request {
  readonly method: string
  readonly address: URL
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer> | string | undefined
}

/** Ends with the head of the reply, in 20 seconds. Redirections are not followed, because the key is for this server only. */
const send = ({ key, url }: ServerAccess.Keyed, { address, body, headers, method }: Request) =>
  Effect.gen(function*() {
    const controller = yield* Effect.acquireRelease(
      Effect.sync(() => new AbortController()),
      (controller) => Effect.sync(() => controller.abort())
    )
    const all = new Headers(headers)
    all.set("authorization", `Bearer ${key}`)
    return yield* Effect.tryPromise({
      try: () =>
        fetch(address, {
          method,
          headers: all,
          redirect: "manual",
          signal: controller.signal,
          ...(body === undefined ? {} : { body })
        }),
      catch: (error) => Server.unanswered(url, error)
    }).pipe(
      Effect.timeoutOrElse({ duration: ServerAccess.PATIENCE_MILLIS, orElse: () => Effect.fail(Server.unanswered(url)) })
    )
  })

const isJson = (response: Response) => /^application\/(?:[\w.-]+\+)?json\b/u.test(response.headers.get("content-type") ?? "")

/** Writes the reply as it arrives. JSON of a known small size is indented in a terminal. */
const show = Effect.fnUntraced(function*(url: string, response: Response) {
  const size = Number(response.headers.get("content-length") ?? Infinity)
  const lost = () => Server.unanswered(url)
  if (process.stdout.isTTY && isJson(response) && size <= MAX_INDENTED_BYTES) {
    const text = yield* Effect.tryPromise({ try: () => response.text(), catch: lost })
    return yield* Terminal.write(`${visible(indented(text))}\n`)
  }
  const body = response.body
  if (body === null) return
  const chunks = body[Symbol.asyncIterator]()
  const decoder = new TextDecoder()
  for (;;) {
    const { done, value } = yield* Effect.tryPromise({ try: () => chunks.next(), catch: lost })
    if (done === true) break
    // A terminal obeys control characters, which may come from an agent. Programs get the bytes.
    yield* Terminal.write(process.stdout.isTTY ? visible(decoder.decode(value, { stream: true })) : value)
  }
  if (process.stdout.isTTY) yield* Terminal.write("\n")
})

const indented = (text: string): string =>
  Option.match(parseJson(text), { onNone: () => text, onSome: (value) => JSON.stringify(value, null, 2) })

const exitCodeOf = (status: number): number =>
  status === 401 || status === 403
    ? ExitCode.unauthorized
    : status === 404
    ? ExitCode.notFound
    : status === 429 || status >= 500
    ? ExitCode.unreachable
    : ExitCode.refused

/** A reply that is no success. Its body has been printed. */
const refusalOf = (response: Response) =>
  new CommandFailed({
    detail: `the server answered ${response.status} ${response.statusText}`.trimEnd() + ".",
    exitCode: exitCodeOf(response.status)
  })

const head = (response: Response) =>
  `HTTP ${response.status}\n${Array.from(response.headers, ([name, value]) => `${name}: ${value}\n`).join("")}\n`

interface Page {
  readonly data: ReadonlyArray<unknown>
  readonly nextCursor: string | number | null
}

const isPage = (value: unknown): value is Page =>
  typeof value === "object" && value !== null && "data" in value && Array.isArray(value.data) && "nextCursor" in value

/** Prints the items of all pages as JSON lines. */
const paginate = Effect.fnUntraced(function*(access: ServerAccess.Keyed, request: Request) {
  let { address } = request
  for (let page = 0; page < MAX_PAGES; page++) {
    const response = yield* send(access, { ...request, address })
    if (!response.ok) {
      yield* show(access.url, response)
      return yield* refusalOf(response)
    }
    const found: unknown = yield* Effect.tryPromise({ try: () => response.json(), catch: () => Server.unanswered(access.url) })
    if (!isPage(found)) return yield* unclear("--paginate is for lists with data and nextCursor.")
    for (const item of found.data) yield* Terminal.write(`${jsonLine(item)}\n`)
    // A feed repeats the cursor behind its newest event.
    const { nextCursor } = found
    if (nextCursor === null || found.data.length === 0) return
    address = new URL(address)
    address.searchParams.set("after", String(nextCursor))
  }
  return yield* unclear(`the list has more than ${MAX_PAGES} pages.`)
})

const readInput = (file: string) =>
  Effect.tryPromise({
    try: async () => {
      const source: Readable = file === "-" ? process.stdin : createReadStream(file)
      return new Uint8Array(Buffer.concat(await source.toArray()))
    },
    catch: () => unclear(`${file} cannot be read.`)
  })

export const api = Command.make(
  "api",
  {
    method: Argument.String("method").pipe(
      Argument.withDescription(METHODS.join(", ")),
      Argument.map((method) => method.toUpperCase()),
      Argument.filter((method) => METHODS.includes(method), (method) => `${method} is not one of ${METHODS.join(", ")}`)
    ),
    path: Argument.String("path").pipe(Argument.withDescription("Path of the API: /sandboxes, or in full /api/internal/v1/…")),
    fields: Flag.String("field").pipe(
      Flag.withDescription("NAME=VALUE of the JSON body, or of the query for GET and DELETE; NAME[]=VALUE for lists; repeatable"),
      Flag.withAlias("f"),
      Flag.atMost(100)
    ),
    headers: Flag.String("header").pipe(Flag.withDescription("Header as NAME:VALUE; repeatable"), Flag.withAlias("H"), Flag.atMost(50)),
    input: Flag.String("input").pipe(Flag.withDescription("File with the body; -: standard input"), Flag.optional),
    include: Flag.Boolean("include").pipe(
      Flag.withDescription("Print status and headers of the reply too"),
      Flag.withAlias("i"),
      Flag.withDefault(false)
    ),
    paginate: Flag.Boolean("paginate").pipe(Flag.withDescription("Print the items of all pages as JSON lines"), Flag.withDefault(false)),
    url: Server.url
  },
  ({ fields, headers, include, input, method, paginate: isPaginated, path, url }) =>
    Server.interruptible(Effect.scoped(Effect.gen(function*() {
      const hasQuery = method === "GET" || method === "DELETE"
      if (isPaginated && (method !== "GET" || include)) return yield* unclear("--paginate is for GET, without --include.")
      if (Option.isSome(input) && (hasQuery || fields.length > 0)) {
        return yield* unclear("--input is for POST, PUT and PATCH, without --field.")
      }
      const values = yield* parsed(fieldsOf(fields))
      const sent = yield* parsed(headersOf(headers))
      const access = yield* Server.failing(() => ServerAccess.keyFor(Option.getOrUndefined(url)))
      const address = yield* parsed(addressOf(access.url, path))
      const body = Option.isSome(input)
        ? yield* readInput(input.value)
        : hasQuery || fields.length === 0
        ? undefined
        : JSON.stringify(values)
      if (body !== undefined && !sent.has("content-type")) sent.set("content-type", "application/json")
      // Creations need one; a repeated command is another creation.
      if (method === "POST" && !sent.has("idempotency-key")) sent.set("idempotency-key", randomUUID())
      const request = { method, address: hasQuery ? withQuery(address, values) : address, headers: sent, body }
      if (isPaginated) return yield* paginate(access, request)
      const response = yield* send(access, request)
      if (include) yield* Terminal.write(visible(head(response)))
      yield* show(access.url, response)
      if (response.status >= 300) return yield* refusalOf(response)
    })))
).pipe(
  Command.withDescription(
    `Send a request to the API and print its reply. Paths and bodies are those of /openapi.json.\n\n${Server.exitCodesText}`
  ),
  Command.withExamples([
    { command: "slipway api GET /sandboxes --field status=running", description: "Running sandboxes" },
    {
      command: `slipway api GET /sandboxes --paginate | jq -r '[.id, .status, .title] | @tsv'`,
      description: "All sandboxes, one line each"
    },
    {
      command: `slipway api POST /sandboxes --field prompt="Fix the build" --field 'repos=[{"fullName":"acme/shop"}]'`,
      description: "Create one"
    },
    { command: "slipway api GET /sandboxes/c_abcdefgh2345/events/stream", description: "Follow its frames as they come" },
    { command: "slipway api POST /sandboxes/c_abcdefgh2345/messages --input message.json", description: "With a body from a file" }
  ])
)
