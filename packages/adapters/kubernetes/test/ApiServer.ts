/**
 * An API server of Kubernetes as far as machines need one: HTTPS with a bearer token, objects with versions, lists in pages, watches
 * with bookmarks, refusals as `Status`. What it is sent it takes by Kubernetes' own schemas, and no field that those do not know.
 */
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import type { IncomingMessage, ServerResponse } from "node:http"
import { createServer, type Server } from "node:https"
import { complaints } from "./Schemas.ts"

export interface Metadata {
  name: string
  namespace: string
  uid: string
  resourceVersion: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  ownerReferences?: Array<{ apiVersion: string; kind: string; name: string; uid: string; controller?: boolean }>
  creationTimestamp?: string
  finalizers?: Array<string>
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
}

export interface Stored {
  apiVersion: string
  kind: string
  metadata: Metadata
  // As they were sent: what is in them depends on the kind.
  // oxlint-disable-next-line typescript/no-explicit-any
  spec?: any
  // oxlint-disable-next-line typescript/no-explicit-any
  status?: any
  // oxlint-disable-next-line typescript/no-explicit-any
  [field: string]: any
}

type ChangeType = "ADDED" | "MODIFIED" | "DELETED"

interface Change {
  readonly version: number
  readonly plural: string
  readonly type: ChangeType
  readonly object: Stored
}

export interface Sent {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly body: unknown
}

class Refused extends Error {
  readonly code: number
  readonly reason: string
  constructor(code: number, reason: string, message: string) {
    super(message)
    this.code = code
    this.reason = reason
  }
}

const PLURALS: Readonly<Record<string, string>> = {
  pods: "v1 Pod",
  secrets: "v1 Secret",
  configmaps: "v1 ConfigMap",
  events: "v1 Event",
  networkpolicies: "networking.k8s.io/v1 NetworkPolicy"
}

/** RFC 1123; labels of Kubernetes. */
const NAME = /^[a-z\d]([a-z\d.-]{0,251}[a-z\d])?$/u
const LABEL_VALUE = /^([A-Za-z\d]([\w.-]{0,61}[A-Za-z\d])?)?$/u
const LABEL_NAME = /^([a-z\d]([a-z\d.-]*[a-z\d])?\/)?[A-Za-z\d]([\w.-]{0,61}[A-Za-z\d])?$/u
const QUANTITY = /^\d+(\.\d+)?(m|k|[KMGT]i?)?$/u

/** Which capabilities the level baseline of Pod Security lets a container add. */
const BASELINE = [
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "MKNOD",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT"
]

/** An API server's checks of a pod beyond its schema, as far as ours could be wrong. */
const checkPod = (spec: Stored["spec"], runtimeClasses: ReadonlyArray<string>) => {
  const invalid = (message: string): never => {
    throw new Refused(422, "Invalid", message)
  }
  if (spec.dnsPolicy === "None" && !(spec.dnsConfig?.nameservers?.length > 0)) {
    invalid("spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None")
  }
  if (spec.runtimeClassName !== undefined && !runtimeClasses.includes(spec.runtimeClassName)) {
    throw new Refused(403, "Forbidden", `pod rejected: RuntimeClass "${spec.runtimeClassName}" not found`)
  }
  const volumes = new Set<string>(spec.volumes.map(({ name }: { name: string }) => name))
  if (volumes.size !== spec.volumes.length) invalid("spec.volumes: Duplicate value")
  for (const { emptyDir, secret } of spec.volumes) {
    if (emptyDir?.sizeLimit !== undefined && !QUANTITY.test(emptyDir.sizeLimit)) invalid("sizeLimit: no quantity")
    if (secret?.defaultMode > 0o777) invalid("defaultMode: Invalid value")
  }
  for (const container of spec.containers) {
    for (const { mountPath, name } of container.volumeMounts) {
      if (!volumes.has(name)) invalid(`spec.containers[0].volumeMounts[0].name: Not found: ${name}`)
      if (!mountPath.startsWith("/")) invalid("mountPath")
    }
    for (const quantity of Object.values({ ...container.resources.limits, ...container.resources.requests })) {
      if (!QUANTITY.test(String(quantity))) invalid(`resources: Invalid value: ${String(quantity)}`)
    }
    const { add = [], drop = [] } = container.securityContext.capabilities
    const beyond = add.filter((capability: string) => !BASELINE.includes(capability))
    if (beyond.length > 0 || spec.hostNetwork || spec.hostPID || spec.hostIPC || container.securityContext.privileged) {
      throw new Refused(403, "Forbidden", `pods "x" is forbidden: violates PodSecurity "baseline:latest": ${beyond.join(", ")}`)
    }
    if (!drop.includes("ALL")) invalid("the test wants capabilities dropped")
  }
}

const check = (object: Stored, runtimeClasses: ReadonlyArray<string>) => {
  const { annotations = {}, labels = {}, name } = object.metadata
  if (!NAME.test(name)) throw new Refused(422, "Invalid", `metadata.name: Invalid value: ${name}`)
  for (const [key, value] of Object.entries(labels)) {
    if (!LABEL_NAME.test(key) || !LABEL_VALUE.test(value)) throw new Refused(422, "Invalid", `metadata.labels: Invalid value: ${value}`)
  }
  for (const key of Object.keys(annotations)) {
    if (!LABEL_NAME.test(key)) throw new Refused(422, "Invalid", `metadata.annotations: Invalid value: ${key}`)
  }
  if (object.kind === "Pod") checkPod(object.spec, runtimeClasses)
}

const selects = (selector: string, { labels = {} }: Metadata): boolean =>
  selector.split(",").filter((part) => part !== "").every((part) => {
    const [, key = "", operator, value] = /^([^!=]+)(!=|=)(.*)$/u.exec(part) ?? []
    return operator === "!=" ? labels[key] !== value : labels[key] === value
  })

const merge = (into: unknown, patch: unknown): unknown => {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch
  const merged: Record<string, unknown> = typeof into === "object" && into !== null && !Array.isArray(into) ? { ...into } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = merge(merged[key], value)
  }
  return merged
}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString("utf8")
}

export class ApiServer {
  readonly sent: Array<Sent> = []
  readonly tokens = new Set<string>()
  /** Refused requests: `verb plural`. */
  readonly forbidden = new Set<string>()
  readonly runtimeClasses: Array<string> = []
  /** How old objects are when they are made, milliseconds. */
  age = 0
  /** The limit of pods in the namespace; one more is refused. */
  quota = Number.POSITIVE_INFINITY
  /** The limit of objects in a page, whatever is asked for. */
  page = Number.POSITIVE_INFINITY
  /** Tokens of pages that were given before are refused as expired, so many times. */
  expire = 0
  /** Called before a request is answered. */
  hear: (sent: Sent) => void = () => {}
  /** Called for each change, in order. */
  readonly listeners: Array<(plural: string, type: ChangeType, object: Stored) => void> = []

  #waiting: Array<() => void> = []

  /** Resolves with the next change or request. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Resolves with what it finds, now or after some change. */
  async until<A>(find: () => A | undefined): Promise<A> {
    for (let found = find();; found = find()) {
      if (found !== undefined) return found
      await this.changed()
    }
  }

  readonly #objects = new Map<string, Stored>()
  readonly #watches = new Set<{ readonly plural: string; readonly selector: string; readonly response: ServerResponse }>()
  #changes: Array<Change> = []
  #version = 100
  #forgotten = 0
  readonly #server: Server

  constructor(tls: { readonly key: string; readonly cert: string }) {
    this.#server = createServer(tls, (request, response) => void this.#answer(request, response))
  }

  async listen(): Promise<number> {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    const address = this.#server.address()
    return typeof address === "object" && address !== null ? address.port : 0
  }

  close() {
    this.cutWatches()
    this.#server.close()
    this.#server.closeAllConnections()
  }

  get watches(): number {
    return this.#watches.size
  }

  /** The server forgets what happened: watches that go on from before it have to list again. */
  forget() {
    this.#forgotten = this.#version
    this.#changes = []
  }

  cutWatches() {
    for (const { response } of this.#watches) response.destroy()
    this.#watches.clear()
  }

  /** As after `timeoutSeconds`: what was written arrives. */
  endWatches() {
    for (const { response } of this.#watches) response.end()
    this.#watches.clear()
  }

  bookmark() {
    for (const { plural, response } of this.#watches) this.#bookmark(response, plural)
  }

  #bookmark(response: ServerResponse, plural: string) {
    const [apiVersion, kind] = (PLURALS[plural] ?? "").split(" ")
    const object = { apiVersion, kind, metadata: { resourceVersion: String(this.#version) } }
    response.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`)
  }

  all(plural: string): ReadonlyArray<Stored> {
    return [...this.#objects].filter(([key]) => key.startsWith(`${plural}/`)).map(([, object]) => object)
  }

  get(plural: string, name: string): Stored | undefined {
    return this.#objects.get(`${plural}/${name}`)
  }

  /** Makes an object as another client does. */
  put(plural: string, object: Omit<Stored, "metadata"> & { metadata: Partial<Metadata> & { name: string } }): Stored {
    const stored: Stored = structuredClone({
      ...object,
      metadata: {
        namespace: "sandboxes",
        uid: randomUUID(),
        resourceVersion: "0",
        creationTimestamp: new Date(Date.now() - this.age).toISOString(),
        ...object.metadata
      }
    }) as Stored
    this.#store(plural, this.#objects.has(`${plural}/${stored.metadata.name}`) ? "MODIFIED" : "ADDED", stored)
    return stored
  }

  /** A change of what is there. */
  change(plural: string, name: string, patch: unknown) {
    const object = this.get(plural, name)
    if (object !== undefined) this.#store(plural, "MODIFIED", merge(object, patch) as Stored)
  }

  remove(plural: string, name: string) {
    const object = this.get(plural, name)
    if (object === undefined) return
    this.#objects.delete(`${plural}/${name}`)
    this.#tell(plural, "DELETED", object)
    this.#collect()
  }

  /** Deletes an object as any client does. Pods end in their own time. */
  delete(plural: string, name: string, graceSeconds?: number) {
    const object = this.get(plural, name)
    if (object === undefined) return
    const isKept = (object.metadata.finalizers ?? []).length > 0
    if (plural !== "pods" || graceSeconds === 0) {
      if (!isKept) return this.remove(plural, name)
    }
    if (object.metadata.deletionTimestamp !== undefined) return
    const deletionGracePeriodSeconds = graceSeconds ?? object.spec?.terminationGracePeriodSeconds ?? 0
    this.change(plural, name, { metadata: { deletionTimestamp: new Date().toISOString(), deletionGracePeriodSeconds } })
  }

  #store(plural: string, type: ChangeType, object: Stored) {
    object.metadata.resourceVersion = String(++this.#version)
    this.#objects.set(`${plural}/${object.metadata.name}`, object)
    this.#tell(plural, type, object)
    if (type === "ADDED") this.#collect()
  }

  #tell(plural: string, type: ChangeType, object: Stored) {
    const version = type === "DELETED" ? ++this.#version : this.#version
    const copy = structuredClone(object)
    copy.metadata.resourceVersion = String(version)
    const change: Change = { version, plural, type, object: copy }
    this.#changes.push(change)
    for (const watch of this.#watches) {
      if (watch.plural === plural && selects(watch.selector, object.metadata)) this.#write(watch.response, change)
    }
    for (const listener of this.listeners) listener(plural, type, copy)
    this.#wake()
  }

  #wake() {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  #write(response: ServerResponse, { object, type }: Change) {
    response.write(`${JSON.stringify({ type, object })}\n`)
  }

  /** The garbage collector: what has owners, and none of them is there. */
  #collect() {
    setImmediate(() => {
      const there = new Set([...this.#objects.values()].map(({ metadata }) => metadata.uid))
      for (const [key, { metadata: { name, ownerReferences = [] } }] of this.#objects) {
        if (ownerReferences.length > 0 && !ownerReferences.some(({ uid }) => there.has(uid))) {
          this.delete(key.slice(0, key.indexOf("/")), name)
        }
      }
    })
  }

  async #answer(request: IncomingMessage, response: ServerResponse) {
    const reply = (code: number, body: unknown) => {
      response.writeHead(code, { "content-type": "application/json" })
      response.end(JSON.stringify(body))
    }
    try {
      const url = new URL(request.url ?? "", "https://kubernetes")
      const text = await bodyOf(request)
      const body: unknown = text === "" ? undefined : JSON.parse(text)
      const sent: Sent = { method: request.method ?? "", path: url.pathname, query: url.searchParams, body }
      this.sent.push(sent)
      this.hear(sent)
      this.#wake()
      const token = /^Bearer (.*)$/u.exec(request.headers.authorization ?? "")?.[1]
      if (token === undefined || !this.tokens.has(token)) throw new Refused(401, "Unauthorized", "Unauthorized")
      if (body !== undefined && request.method !== "PATCH") {
        const wrong = complaints(body)
        if (wrong.length > 0) throw new Refused(400, "BadRequest", `strict decoding error: ${wrong.join("; ")}`)
      }
      if (request.method === "PATCH" && request.headers["content-type"] !== "application/merge-patch+json") {
        throw new Refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
      }
      if (!this.#discover(url.pathname, body, reply)) this.#serve(request.method ?? "", url, body, response, reply)
    } catch (error) {
      const { code, message, reason } = error instanceof Refused ? error : new Refused(500, "InternalError", String(error))
      reply(code, { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code })
    }
  }

  #discover(path: string, body: unknown, reply: (code: number, body: unknown) => void): boolean {
    if (path === "/version") reply(200, { major: "1", minor: "33", gitVersion: "v1.33.1" })
    else if (path === "/apis/node.k8s.io/v1/runtimeclasses") {
      if (this.forbidden.has("list runtimeclasses")) throw new Refused(403, "Forbidden", "runtimeclasses.node.k8s.io is forbidden")
      reply(200, {
        kind: "RuntimeClassList",
        metadata: { resourceVersion: "1" },
        items: this.runtimeClasses.map((name) => ({
          metadata: { name, uid: name, resourceVersion: "1" },
          handler: name
        }))
      })
    } else if (path === "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") {
      const { spec } = body as Stored
      const { resource, verb } = spec.resourceAttributes
      reply(201, { ...(body as Stored), status: { allowed: !this.forbidden.has(`${verb} ${resource}`) } })
    } else return false
    return true
  }

  #serve(method: string, url: URL, body: unknown, response: ServerResponse, reply: (code: number, body: unknown) => void) {
    const [, group, namespace, plural = "", name] =
      /^\/(api\/v1|apis\/[^/]+\/[^/]+)\/namespaces\/([^/]+)\/([a-z]+)(?:\/([^/]+))?$/u.exec(url.pathname) ?? []
    const known = PLURALS[plural]?.split(" ")[0] ?? ""
    const isThere = group === (known.includes("/") ? `apis/${known}` : `api/${known}`)
    if (!isThere || namespace !== "sandboxes") throw new Refused(404, "NotFound", "the server could not find the requested resource")
    const isWatch = url.searchParams.get("watch") === "true"
    const verb = method === "GET"
      ? isWatch ? "watch" : name === undefined ? "list" : "get"
      : method === "POST"
      ? "create"
      : method.toLowerCase()
    if (this.forbidden.has(`${verb} ${plural}`)) {
      throw new Refused(403, "Forbidden", `${plural} is forbidden: User "system:serviceaccount:slipway:worker" cannot ${verb} resource`)
    }
    if (isWatch) return this.#watch(plural, url.searchParams, response)
    if (verb === "list") return reply(200, this.#list(plural, url.searchParams))
    if (verb === "create") return reply(201, this.#create(plural, body as Stored))
    const object = this.get(plural, name ?? "")
    if (object === undefined) throw new Refused(404, "NotFound", `${plural} "${name}" not found`)
    if (verb === "patch") {
      const { metadata: { uid = object.metadata.uid } = {} } = body as { metadata?: { uid?: string } }
      if (uid !== object.metadata.uid) throw new Refused(409, "Conflict", "Precondition failed: UID in precondition does not match")
      const patched = merge(object, body) as Stored
      const { status: _status, ...sent } = patched
      const {
        deletionGracePeriodSeconds: _grace,
        deletionTimestamp: _deleted,
        creationTimestamp: _created,
        resourceVersion: _version,
        uid: _uid,
        ...metadata
      } = sent.metadata
      const wrong = complaints({ ...sent, metadata })
      if (wrong.length > 0) throw new Refused(422, "Invalid", wrong.join("; "))
      check(patched, this.runtimeClasses)
      this.change(plural, object.metadata.name, body)
    }
    if (verb === "delete") {
      const { gracePeriodSeconds, preconditions } = (body ?? {}) as { gracePeriodSeconds?: number; preconditions?: { uid?: string } }
      if (preconditions?.uid !== undefined && preconditions.uid !== object.metadata.uid) {
        throw new Refused(409, "Conflict", "Precondition failed: UID in precondition does not match")
      }
      this.delete(plural, object.metadata.name, gracePeriodSeconds)
    }
    reply(200, this.get(plural, object.metadata.name) ?? object)
  }

  #create(plural: string, body: Stored): Stored {
    if (this.#objects.has(`${plural}/${body.metadata.name}`)) {
      throw new Refused(409, "AlreadyExists", `${plural} "${body.metadata.name}" already exists`)
    }
    check(body, this.runtimeClasses)
    if (plural === "pods" && this.all("pods").length >= this.quota) {
      throw new Refused(403, "Forbidden", `pods "${body.metadata.name}" is forbidden: exceeded quota: sandboxes, requested: pods=1`)
    }
    const { stringData, ...rest } = body
    return this.put(plural, {
      ...rest,
      ...(stringData === undefined ? {} : {
        data: Object.fromEntries(Object.entries(stringData).map(([key, value]) => [key, Buffer.from(String(value)).toString("base64")]))
      })
    } as Stored)
  }

  #list(plural: string, query: URLSearchParams): unknown {
    const token = query.get("continue")
    if (token !== null && this.expire > 0) {
      this.expire--
      throw new Refused(410, "Expired", "The provided continue parameter is too old to display a consistent list result.")
    }
    const uid = /^involvedObject\.uid=(.*)$/u.exec(query.get("fieldSelector") ?? "")?.[1]
    const found = this.all(plural).filter((object) =>
      selects(query.get("labelSelector") ?? "", object.metadata) && (uid === undefined || object["involvedObject"]?.uid === uid)
    ).toSorted((a, b) => a.metadata.name < b.metadata.name ? -1 : 1)
    const from = token === null ? 0 : Number(token)
    const to = from + Math.min(Number(query.get("limit") ?? this.page), this.page)
    const [apiVersion, kind] = (PLURALS[plural] ?? "").split(" ")
    return {
      apiVersion,
      kind: `${kind}List`,
      metadata: { resourceVersion: String(this.#version), ...(to < found.length ? { continue: String(to) } : {}) },
      items: found.slice(from, to)
    }
  }

  #watch(plural: string, query: URLSearchParams, response: ServerResponse) {
    const selector = query.get("labelSelector") ?? ""
    const from = Number(query.get("resourceVersion"))
    response.writeHead(200, { "content-type": "application/json" })
    if (from < this.#forgotten) {
      const object = {
        kind: "Status",
        apiVersion: "v1",
        status: "Failure",
        message: "too old resource version",
        reason: "Expired",
        code: 410
      }
      response.end(`${JSON.stringify({ type: "ERROR", object })}\n`)
      return
    }
    for (const change of this.#changes) {
      if (change.version > from && change.plural === plural && selects(selector, change.object.metadata)) this.#write(response, change)
    }
    response.flushHeaders()
    const watch = { plural, selector, response }
    this.#watches.add(watch)
    response.on("close", () => this.#watches.delete(watch))
  }
}
