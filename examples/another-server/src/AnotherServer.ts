/**
 * A server of docs/interface.md on another stack: `node:http` alone, in memory, with names, codes, a model and directives of its own. It
 * does what the interface states and nothing beyond, and shares no code with Slipway.
 */
import { randomBytes, randomUUID } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export const KEY = "another-key-1"
export const OTHER_KEY = "another-key-2"
export const MODEL = "another/one"

/** The names for `--names`. */
export const NAMES = {
  parameters: { after: "from", limit: "count", directory: "folder", path: "file" },
  decision: "verdict",
  codes: { unauthorized: "NO_KEY", idempotency_conflict: "KEY_REUSED", file_protected: "422 SECRET_FILE" },
  directives: { say: "<say:{text}>", write: "<put:{path}|{content}>" }
}

interface Options {
  /** The delay of each answer. */
  readonly delayMillis?: number
  /** Accepts sandboxes and boots none. */
  readonly neverBoots?: boolean
}

type Fields = Record<string, unknown>

class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly headers: Readonly<Record<string, string>>
  constructor(status: number, code: string, headers: Readonly<Record<string, string>> = {}) {
    super(code)
    this.status = status
    this.code = code
    this.headers = headers
  }
}

const bad = (what: string) => new Refusal(400, "BAD_INPUT", { "x-what": what })
const now = () => new Date().toISOString()
const NAME = /^[A-Za-z0-9._-]+\/[A-Za-z0-9._-]+$/u
const STATUSES = ["queued", "creating", "running", "succeeded", "failed", "terminating", "terminated"]
const EFFORTS = ["none", "low", "medium", "high", "xhigh", "max", "ultra", "ultracode"]
const SECRET = /(?:^|\/)(?:\.git(?:\/|$)|\.env(?:\.|$))/iu
const DIRECTIVE = /<(say|put):([^>]*)>/gu

const isText = (value: unknown, least: number, most: number): value is string =>
  typeof value === "string" && [...value].length >= least && [...value].length <= most
const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value)
const onlyHas = (value: Fields, ...names: ReadonlyArray<string>) => Object.keys(value).every((name) => names.includes(name))

const isRepo = (value: unknown): boolean =>
  isObject(value) && onlyHas(value, "fullName", "ref") && isText(value["fullName"], 1, 201) && NAME.test(value["fullName"]) &&
  (value["ref"] === undefined || isText(value["ref"], 1, 255))

const isMetadata = (value: unknown): boolean =>
  isObject(value) && Object.entries(value).every(([name, text]) => isText(name, 1, 64) && isText(text, 0, 1000))

const rules: Readonly<Record<string, (value: unknown) => boolean>> = {
  repos: (value) => Array.isArray(value) && value.length > 0 && value.every(isRepo),
  prompt: (value) => isText(value, 1, 60_000),
  model: (value) => value === undefined || value === MODEL,
  reasoningEffort: (value) => value === undefined || EFFORTS.includes(String(value)),
  title: (value) => value === undefined || isText(value, 1, 120),
  toolApprovalMode: (value) => value === undefined || value === "auto" || value === "prompt",
  metadata: (value) => value === undefined || isMetadata(value)
}

const creationOf = (body: unknown): Fields => {
  if (!isObject(body) || !onlyHas(body, ...Object.keys(rules))) throw bad("body")
  for (const [name, fits] of Object.entries(rules)) if (!fits(body[name])) throw bad(name)
  return body
}

class Sandbox {
  readonly id = `c_${Array.from(randomBytes(12), (byte) => "abcdefghijklmnopqrstuvwxyz23456789"[byte % 34]).join("")}`
  readonly log: Array<Fields & { readonly id: string }> = []
  readonly files = new Map<string, string>()
  readonly results = new Map<string, Fields>()
  readonly createdAt = now()
  status = "queued"
  active = false
  completedAt: string | null = null
  pull: Fields | null = null
  #listeners = new Set<() => void>()
  #asked: { readonly id: string; readonly go: (decision: string) => void } | null = null
  readonly request: Fields
  readonly origin: string

  constructor(request: Fields, origin: string) {
    this.request = request
    this.origin = origin
    this.tell("sandbox.status", { status: "queued", previous: null })
  }

  tell(type: string, data: Fields, turn?: string): void {
    const id = String(this.log.length + 1)
    const about = { object: "sandbox.event", version: "v1", ts: now(), sandbox_id: this.id, type }
    this.log.push({ ...about, id, data, ...(turn === undefined ? {} : { turn_id: turn }) })
    for (const listener of this.#listeners) listener()
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  become(status: string): void {
    const previous = this.status
    this.status = status
    if (status === "terminated") this.completedAt = now()
    this.tell("sandbox.status", { status, previous })
  }

  get isOver(): boolean {
    return this.status === "terminated"
  }

  async run(): Promise<void> {
    this.become("creating")
    this.become("running")
    const turn = randomUUID()
    this.active = true
    this.tell("turn.updated", { state: "pending" }, turn)
    this.tell("turn.started", {}, turn)
    for (const [, name, text = ""] of String(this.request["prompt"]).matchAll(DIRECTIVE)) {
      if (this.isOver) return
      if (name === "say") this.tell("message.completed", { text }, turn)
      else {
        const [path = "", content = ""] = text.split("|")
        if (this.request["toolApprovalMode"] === "prompt" && await this.#ask(turn) !== "approve") continue
        this.files.set(path, `${content}\n`)
        this.tell("tool.updated", { tool: "put", status: "completed" }, turn)
      }
    }
    if (this.isOver) return
    this.active = false
    this.tell("turn.completed", { state: "succeeded" }, turn)
  }

  #ask(turn: string): Promise<string> {
    const id = `ask ${this.log.length}/ü`
    return new Promise((go) => {
      this.#asked = { id, go }
      this.tell("approval.requested", { approval_id: id, tool: "put", expires_at: now() }, turn)
    })
  }

  decide(approval: string, decision: string): Fields {
    return this.once(`${approval} ${decision}`, () => {
      if (this.#asked?.id !== approval) throw new Refusal(404, "NOTHING_HERE")
      const { go } = this.#asked
      this.#asked = null
      this.tell("approval.resolved", { approval_id: approval, outcome: decision })
      go(decision)
    })
  }

  terminate(): Fields {
    return this.once("terminate", () => {
      this.become("terminating")
      this.active = false
      this.become("terminated")
      this.#asked?.go("deny")
    })
  }

  interrupt(): Fields {
    const command = { commandId: randomUUID(), revision: this.log.length }
    return this.active ? { ...command, outcome: "applied" } : { ...command, outcome: "rejected", rejection: "nothing_to_interrupt" }
  }

  once(name: string, act: () => void): Fields {
    const before = this.results.get(name)
    if (before !== undefined) return { ...before, outcome: "duplicate" }
    act()
    const result = { commandId: randomUUID(), revision: this.log.length, outcome: "applied" }
    this.results.set(name, result)
    return result
  }

  get resource(): Fields {
    const { metadata = {}, model = MODEL, prompt, repos, title = String(prompt).split("\n")[0]?.slice(0, 120) ?? "" } = this.request
    const self = `${this.origin}/api/public/v1/sandboxes/${this.id}`
    return {
      id: this.id,
      worktreeId: `tree-of-${this.id}`,
      object: "sandbox",
      status: this.status,
      title,
      repos,
      model,
      agentRuntime: "claude",
      turn: { active: this.active },
      usage: { llmRequestCount: 0, costMicroUsd: 0, creditsChargedMicros: 0 },
      metadata,
      error: null,
      createdAt: this.createdAt,
      startedAt: null,
      completedAt: this.completedAt,
      links: { self, events: `${self}/events`, messages: `${self}/messages` }
    }
  }

  publish(): Fields {
    this.pull ??= {
      id: 1,
      nodeId: "PR_1",
      number: 1,
      url: "https://host.example/pulls/1",
      title: String(this.resource["title"]),
      state: "open",
      draft: true,
      merged: false,
      baseRef: "trunk",
      headRef: `work-${this.id}`,
      headSha: "0".repeat(40),
      createdAt: now(),
      updatedAt: now(),
      additions: this.files.size,
      deletions: 0,
      changedFiles: this.files.size
    }
    const [repo] = this.request["repos"] as ReadonlyArray<{ readonly fullName: string }>
    return {
      actionState: "idle",
      checks: { label: "No checks", runs: [], checkRuns: [], state: "idle" },
      comments: [],
      pullRequest: this.pull,
      repository: repo?.fullName,
      detailsPending: false
    }
  }

  list(directory: string): Fields {
    const within = directory === "" ? "" : `${directory}/`
    const found = new Map<string, Fields>()
    for (const [path, text] of this.files) {
      if (!path.startsWith(within)) continue
      const [name = "", ...rest] = path.slice(within.length).split("/")
      const isFile = rest.length === 0
      found.set(name, {
        name,
        path: within + name,
        depth: (within + name).split("/").length - 1,
        kind: isFile ? "file" : "directory",
        status: isFile ? "untracked" : null,
        additions: isFile ? 1 : 0,
        deletions: 0,
        size: isFile ? text.length : null,
        mtimeMs: 1,
        previousPath: null
      })
    }
    return { directory, entries: [...found.values()], partialWarnings: [], scope: "all" }
  }
}

/** A request with its grant. */
interface Ask {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage["headers"]
  readonly body: Buffer
  readonly grant: Grant
}

class Grant {
  readonly sandboxes: Array<Sandbox> = []
  readonly keys = new Map<string, { readonly request: string; readonly sandbox: Sandbox }>()
  readonly feed: Array<Fields> = []
}

const integer = (query: URLSearchParams, name: string, least: number, most: number, otherwise: number): number => {
  const [text, ...more] = query.getAll(name)
  if (text === undefined) return otherwise
  if (more.length > 0 || !/^\d{1,16}$/u.test(text) || Number(text) < least || Number(text) > most) throw bad(name)
  return Number(text)
}
const MOST = Number.MAX_SAFE_INTEGER

export class AnotherServer {
  readonly #options: Options
  readonly #grants = new Map([[KEY, new Grant()], [OTHER_KEY, new Grant()]])
  readonly #server: Server
  url = ""

  constructor(options: Options = {}) {
    this.#options = options
    this.#server = createServer((request, response) => void this.#serve(request, response))
    for (const [i, grant] of [...this.#grants.values()].entries()) {
      for (const type of ["credit_claim.created", "credit_claim.claimed", "conversion.paid"]) this.#record(grant, type, i)
    }
  }

  #record({ feed }: Grant, type: string, n: number): void {
    const lead = { claimId: randomUUID(), leadId: `lead-${n}`, variant: "a" }
    const claim = { ...lead, creditAmount: 5, status: type === "credit_claim.created" ? "pending" : "claimed", createdAt: now() }
    const claimedAt = type === "credit_claim.created" ? null : now()
    const data = type === "conversion.paid" ? { ...lead, occurredAt: now(), conversionId: randomUUID() } : { ...claim, claimedAt }
    feed.push({ id: randomUUID(), sequence: feed.length + 1, type, data, createdAt: now() })
  }

  async start(port = 0): Promise<string> {
    await new Promise<void>((listening) => this.#server.listen(port, "127.0.0.1", listening))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this.url
  }

  stop(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { delayMillis = 0 } = this.#options
    const reply = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
      setTimeout(() => {
        response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))
      }, delayMillis)
    try {
      const chunks: Array<Buffer> = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const { pathname, searchParams } = new URL(request.url ?? "", this.url)
      const [, key = ""] = /^Bearer (\S+)$/u.exec(request.headers.authorization ?? "") ?? []
      const grant = this.#grants.get(key)
      if (grant === undefined) throw new Refusal(401, "NO_KEY", { "www-authenticate": "Bearer" })
      const { headers, method = "" } = request
      await this.#answer({ method, path: pathname, query: searchParams, headers, body: Buffer.concat(chunks), grant }, reply, response)
    } catch (error) {
      const { code, headers, status } = error instanceof Refusal ? error : new Refusal(500, "BROKEN")
      reply(status, { error: { code, message: `It is ${code}.` } }, headers)
    }
  }

  async #answer(ask: Ask, reply: (status: number, body: unknown, headers?: Record<string, string>) => void, response: ServerResponse) {
    const { grant, method, path, query } = ask
    const [, id, rest = ""] = /^\/api\/public\/v1\/sandboxes(?:\/([^/]+)(\/.*)?)?$/u.exec(path) ?? [null, null]
    const found = grant.sandboxes.find((sandbox) => sandbox.id === id)
    const what = `${method} ${id === undefined ? "/sandboxes" : id === null ? path : `/one${rest}`}`
    if (what === "GET /sandboxes") return reply(200, this.#list(ask))
    if (what === "POST /sandboxes") return this.#create(ask, reply)
    if (what === "GET /api/public/v1/events") return reply(200, this.#feed(ask))
    if (found === undefined) throw new Refusal(404, "NOTHING_HERE")
    if (what === "GET /one") return reply(200, found.resource)
    if (what === "POST /one/terminate") return reply(200, found.terminate())
    if (what === "POST /one/interrupt") return reply(200, found.interrupt())
    if (what === "POST /one/pull-request") return reply(200, found.publish())
    if (what === "GET /one/events") {
      const after = integer(query, "from", 0, MOST, 0)
      const data = found.log.filter((event) => Number(event.id) > after).slice(0, integer(query, "count", 1, 100, 100))
      return reply(200, { data, nextCursor: data.at(-1)?.id ?? String(after) })
    }
    if (what === "GET /one/events/stream") return this.#stream(found, ask, response)
    if (what === "GET /one/files/tree") return reply(200, found.list(query.get("folder") ?? ""))
    if (what === "GET /one/files/download") return this.#download(found, query.get("file") ?? "", response)
    const [, approval] = /^POST \/one\/approvals\/([^/]+)$/u.exec(what) ?? []
    if (approval === undefined) throw new Refusal(404, "NOTHING_HERE")
    const verdict = this.#json(ask)
    if (!isObject(verdict) || !onlyHas(verdict, "verdict") || !["approve", "deny"].includes(String(verdict["verdict"]))) {
      throw bad("verdict")
    }
    return reply(200, found.decide(decodeURIComponent(approval), String(verdict["verdict"])))
  }

  #json({ body }: Ask): unknown {
    try {
      return JSON.parse(body.toString())
    } catch {
      throw bad("JSON")
    }
  }

  #create(ask: Ask, reply: (status: number, body: unknown, headers?: Record<string, string>) => void): void {
    const { grant, headers } = ask
    const request = creationOf(this.#json(ask))
    const key = headers["idempotency-key"]
    const text = JSON.stringify(Object.entries(request).sort(([a], [b]) => a < b ? -1 : 1))
    const before = typeof key === "string" ? grant.keys.get(key) : undefined
    if (before !== undefined && before.request !== text) throw new Refusal(409, "KEY_REUSED")
    const sandbox = before?.sandbox ?? new Sandbox(request, this.url)
    if (before === undefined) {
      grant.sandboxes.unshift(sandbox)
      if (typeof key === "string") grant.keys.set(key, { request: text, sandbox })
      if (this.#options.neverBoots !== true) setImmediate(() => sandbox.isOver ? undefined : void sandbox.run())
    }
    const { resource } = sandbox
    reply(before === undefined ? 201 : 200, resource, { location: (resource["links"] as { readonly self: string }).self })
  }

  #list({ grant, query }: Ask): Fields {
    const limit = integer(query, "limit", 1, 100, 100)
    const [status, repo, after] = ["status", "repo", "after"].map((name) => query.get(name))
    if (status !== null && !STATUSES.includes(String(status))) throw bad("status")
    if (typeof repo === "string" && (!NAME.test(repo) || repo.length > 201)) throw bad("repo")
    const all = grant.sandboxes
    const at = after === null ? 0 : all.findIndex(({ id }) => `behind-${id}` === after) + 1
    if (after !== null && at === 0) throw bad("after")
    const isWanted = ({ request, status: is }: Sandbox) =>
      (status === null || is === status) &&
      (repo === null || (request["repos"] as ReadonlyArray<{ readonly fullName: string }>).some(({ fullName }) => fullName === repo))
    const wanted = all.slice(at).filter(isWanted)
    const page = wanted.slice(0, limit)
    return { data: page.map(({ resource }) => resource), nextCursor: wanted.length > limit ? `behind-${page.at(-1)?.id}` : null }
  }

  #feed({ grant, query }: Ask): Fields {
    const after = integer(query, "after", 0, MOST, 0)
    const data = grant.feed.slice(after).slice(0, integer(query, "limit", 1, 100, 100))
    return { data, nextCursor: data.at(-1)?.["sequence"] ?? after }
  }

  #stream(sandbox: Sandbox, { headers, query }: Ask, response: ServerResponse): void {
    const given = headers["last-event-id"]
    const since = typeof given === "string" ? Number(given) : integer(query, "since", 0, MOST, -1)
    response.writeHead(200, { "content-type": "text/event-stream" })
    let told = since < 0 ? sandbox.log.length : since
    if (since < 0) {
      const data = { sandbox: sandbox.resource, turn: null, resume_cursor: String(told) }
      const snapshot = { object: "sandbox.event", version: "v1", ts: now(), sandbox_id: sandbox.id, type: "snapshot", data }
      response.write(`data: ${JSON.stringify(snapshot)}\n\n`)
    }
    const tell = () => {
      for (const event of sandbox.log.slice(told)) response.write(`id: ${event.id}\ndata: ${JSON.stringify(event)}\n\n`)
      told = Math.max(told, sandbox.log.length)
      if (sandbox.isOver) response.end()
    }
    response.on("close", sandbox.listen(tell))
    tell()
  }

  #download(sandbox: Sandbox, path: string, response: ServerResponse): void {
    if (!isText(path, 1, 1000)) throw bad("file")
    if (SECRET.test(path)) throw new Refusal(422, "SECRET_FILE")
    const text = sandbox.files.get(path)
    if (text === undefined) throw new Refusal(404, "NO_FILE")
    response.writeHead(200, { "content-disposition": "attachment", "content-type": "application/octet-stream" }).end(text)
  }
}
