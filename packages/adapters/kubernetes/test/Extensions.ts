/**
 * The controllers of agent-sandbox's extensions, as those of v0.5.6 do it: a pool of Sandboxes that are made of a template, and claims,
 * which take one of those over or get a new one of the claim's own name. What they say of a Sandbox they read of its pod.
 */
import { createHash, randomBytes } from "node:crypto"
import type { ApiServer, Stored } from "./ApiServer.ts"

const WARM_POOL = "agents.x-k8s.io/warm-pool-sandbox"
const TEMPLATE_REF = "agents.x-k8s.io/sandbox-template-ref-hash"
const TEMPLATE_HASH = "agents.x-k8s.io/sandbox-template-hash"
const CLAIM_UID = "agents.x-k8s.io/claim-uid"
const ASSIGNED = "agents.x-k8s.io/sandbox-name"

/** A claim waits so long for Sandboxes of its pool that have no address yet. */
const GRACE_MILLIS = 2000

/** The domains of labels that claims may put on pods; the controller's flag says others. */
const DOMAINS = ["sandbox.users.io"]
const RESTRICTED = ["kubernetes.io", "k8s.io", "agents.x-k8s.io"]
const EXEMPTED = "cluster-autoscaler.kubernetes.io/safe-to-evict"

const hash = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 8)

const isOf = (domain: string, domains: ReadonlyArray<string>) => domains.some((one) => domain === one || domain.endsWith(`.${one}`))

const controllerOf = ({ metadata: { ownerReferences = [] } }: Stored) => ownerReferences.find(({ controller }) => controller === true)

const ownerOf = ({ apiVersion, kind, metadata: { name, uid } }: Stored) => [{ apiVersion, kind, name, uid, controller: true }]

const isReady = ({ status }: Stored) =>
  status?.conditions?.some(({ status, type }: { status: string; type: string }) => type === "Ready" && status === "True") === true

const failed = (reason: string, message: string) => ({ conditions: [{ type: "Ready", status: "False", reason, message }] })

export class Extensions {
  readonly #server: ApiServer
  readonly #timers = new Set<NodeJS.Timeout>()
  #isDue = false

  constructor(server: ApiServer) {
    this.#server = server
    server.listeners.push(() => this.#look())
  }

  close() {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#isDue = true
  }

  #look() {
    if (this.#isDue || !this.#server.hasExtensions) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      for (const sandbox of this.#server.all("sandboxes")) this.#tell(sandbox)
      for (const claim of this.#server.all("sandboxclaims")) this.#claim(claim)
      for (const pool of this.#server.all("sandboxwarmpools")) this.#fill(pool)
    })
  }

  #status(plural: string, { metadata: { name }, status }: Stored, next: unknown) {
    if (JSON.stringify(status) !== JSON.stringify(next)) this.#server.change(plural, name, { status: next })
  }

  #tell(sandbox: Stored) {
    const pod = this.#server.get("pods", sandbox.metadata.name)
    const isIts = pod !== undefined && controllerOf(pod)?.uid === sandbox.metadata.uid
    const ip = isIts ? pod.status?.podIP : undefined
    const ready = isIts && isReady(pod)
    this.#status("sandboxes", sandbox, {
      conditions: [{ type: "Ready", status: ready ? "True" : "False", reason: ready ? "DependenciesReady" : "DependenciesNotReady" }],
      podIPs: ip === undefined ? [] : [ip]
    })
  }

  #templateOf(pool: Stored | undefined) {
    return pool === undefined ? undefined : this.#server.get("sandboxtemplates", pool.spec.sandboxTemplateRef.name)
  }

  #members({ metadata: { uid } }: Stored) {
    return this.#server.all("sandboxes").filter((sandbox) =>
      controllerOf(sandbox)?.uid === uid && sandbox.metadata.deletionTimestamp === undefined
    )
  }

  #blueprint({ spec: { podTemplate, service } }: Stored, labels: Record<string, string>, annotations: Record<string, string> = {}) {
    const { metadata = {}, spec } = structuredClone(podTemplate)
    return {
      podTemplate: {
        metadata: { labels: { ...metadata.labels, ...labels }, annotations: { ...metadata.annotations, ...annotations } },
        spec
      },
      ...(service === undefined ? {} : { service })
    }
  }

  #make(name: string, owner: Stored, template: Stored, labels: Record<string, string>, annotations?: Record<string, string>) {
    this.#server.put("sandboxes", {
      apiVersion: "agents.x-k8s.io/v1beta1",
      kind: "Sandbox",
      metadata: { name, labels: { ...labels, [TEMPLATE_REF]: hash(template.metadata.name) }, ownerReferences: ownerOf(owner) },
      spec: this.#blueprint(template, labels, annotations)
    })
  }

  #fill(pool: Stored) {
    const template = this.#templateOf(pool)
    const { metadata: { name }, spec: { replicas = 1, updateStrategy } } = pool
    if (template === undefined) return
    const version = hash(JSON.stringify(template.spec))
    let members = this.#members(pool)
    if (updateStrategy?.type === "Recreate") {
      for (const { metadata } of members) if (metadata.labels?.[TEMPLATE_HASH] !== version) this.#server.delete("sandboxes", metadata.name)
      members = this.#members(pool)
    }
    for (let i = members.length; i < replicas; i++) {
      this.#make(`${name}-${randomBytes(3).toString("hex")}`, pool, template, { [WARM_POOL]: hash(name), [TEMPLATE_HASH]: version })
    }
    const excess = members.toSorted((a, b) => Number(isReady(a)) - Number(isReady(b))).slice(0, Math.max(0, members.length - replicas))
    for (const { metadata } of excess) this.#server.delete("sandboxes", metadata.name)
    this.#status("sandboxwarmpools", pool, { replicas: members.length, readyReplicas: members.filter(isReady).length })
  }

  #wrong({ spec: { additionalPodMetadata: { annotations = {}, labels = {} } = {} } }: Stored): string | undefined {
    const domainOf = (key: string) => key.slice(0, Math.max(0, key.indexOf("/")))
    const label = Object.keys(labels).find((key) => !isOf(domainOf(key), DOMAINS))
    if (label !== undefined) return `label domain "${domainOf(label)}" is not in the allowlist`
    const annotation = Object.keys(annotations).find((key) => isOf(domainOf(key), RESTRICTED) && key !== EXEMPTED)
    return annotation === undefined ? undefined : `restricted system domain: "${annotation}" is not allowed in AdditionalPodMetadata`
  }

  #claim(claim: Stored) {
    const { metadata: { creationTimestamp = "", deletionTimestamp, name, uid }, spec, status } = claim
    if (deletionTimestamp !== undefined) return
    const say = (next: object) => this.#status("sandboxclaims", claim, next)
    const wrong = this.#wrong(claim)
    if (wrong !== undefined) return say(failed("InvalidMetadata", wrong))
    const has = this.#server.all("sandboxes").find((one) =>
      controllerOf(one)?.uid === uid && [status?.sandbox?.name, claim.metadata.annotations?.[ASSIGNED], name].includes(one.metadata.name)
    )
    if (has !== undefined) {
      return say({ conditions: has.status?.conditions ?? [], sandbox: { name: has.metadata.name, podIPs: has.status?.podIPs ?? [] } })
    }
    const pool = this.#server.get("sandboxwarmpools", spec.warmPoolRef.name)
    if (pool === undefined) return say(failed("WarmPoolNotFound", `SandboxWarmPool "${spec.warmPoolRef.name}" not found`))
    const template = this.#templateOf(pool)
    if (template === undefined) return say(failed("TemplateNotFound", `SandboxTemplate "${pool.spec.sandboxTemplateRef.name}" not found`))
    const labels = { [CLAIM_UID]: uid }
    const annotations: Record<string, string> = spec.additionalPodMetadata?.annotations ?? {}
    const members = this.#members(pool)
    const reached = members.filter(({ status }) => (status?.podIPs ?? []).length > 0)
    const one = reached.find(isReady) ?? reached[0]
    if (one !== undefined) {
      this.#server.change("sandboxclaims", name, { metadata: { annotations: { [ASSIGNED]: one.metadata.name } } })
      this.#server.change("sandboxes", one.metadata.name, {
        metadata: { labels: { ...labels, [WARM_POOL]: null, [TEMPLATE_HASH]: null }, ownerReferences: ownerOf(claim) },
        spec: {
          podTemplate: {
            metadata: { labels: { ...labels, [WARM_POOL]: null, [TEMPLATE_HASH]: null }, annotations }
          }
        }
      })
      return
    }
    const left = GRACE_MILLIS - (Date.now() - Date.parse(creationTimestamp))
    if (members.length > 0 && left > 0) {
      const timer = setTimeout(() => {
        this.#timers.delete(timer)
        this.#look()
      }, left + 1)
      this.#timers.add(timer)
      return
    }
    if (this.#server.get("sandboxes", name) === undefined) this.#make(name, claim, template, labels, annotations)
  }
}
