/** All settings of the service, read from the environment, and their documentation. */
import { nearest } from "@slipway/domain/text/EditDistance"
import * as PreviewOrigin from "@slipway/http/server/PreviewOrigin"
import * as Effect from "effect/Effect"
import * as Agents from "./Agents.ts"
import * as Clones from "./Clones.ts"
import * as GitHub from "./GitHub.ts"
import * as Isolation from "./Isolation.ts"
import * as Kubernetes from "./Kubernetes.ts"
import * as Lifetimes from "./Lifetimes.ts"
import * as Limits from "./Limits.ts"
import * as Listening from "./Listening.ts"
import * as Models from "./Models.ts"
import * as Oidc from "./Oidc.ts"
import * as Processes from "./Processes.ts"
import * as Publishing from "./Publishing.ts"
import { type Group, InvalidSetting, type Setting } from "./Setting.ts"
import * as SourceHosts from "./SourceHosts.ts"
import * as Storage from "./Storage.ts"
import * as Traces from "./Traces.ts"

interface Subject {
  readonly title: string
  readonly settings: ReadonlyArray<Setting<unknown>>
}

const subject = (title: string, ...groups: ReadonlyArray<Group>): Subject => ({
  title,
  settings: groups.flatMap((group) => Object.values(group))
})

/** In the order of the documentation. */
export const subjects: ReadonlyArray<Subject> = [
  subject("Listening", Listening.settings, Listening.edge),
  subject("Outgoing requests", Listening.outgoing),
  subject("Storage", Storage.settings),
  subject("Processes", Processes.settings),
  subject("Logs", Processes.logging),
  subject("Traces", Traces.settings),
  subject("Limits of keys, users and grants", Limits.settings, Limits.edge),
  subject("Times of sandboxes", Lifetimes.settings),
  subject("Models and what they cost", Models.settings),
  subject("Source hosts", SourceHosts.settings),
  subject("GitHub", GitHub.app, GitHub.signIn, GitHub.both),
  subject("OpenID Connect", Oidc.client, Oidc.entry, Oidc.ci),
  subject("Publishing", Publishing.settings),
  subject("Repositories", Clones.settings),
  subject("Isolation", Isolation.settings, Isolation.limits),
  subject("Kubernetes", Kubernetes.settings),
  subject("Agents", Agents.settings),
  subject("Webhooks", Publishing.webhooks)
]

export const all: ReadonlyArray<Setting<unknown>> = subjects.flatMap(({ settings }) => settings)

const values = Effect.gen(function*() {
  yield* Listening.loadOutgoing
  return {
    ...yield* Listening.load,
    ...yield* Storage.load,
    ...yield* Processes.load,
    ...yield* Limits.load,
    ...yield* Lifetimes.load,
    /** For the HTTP side. */
    edge: { ...yield* Listening.loadEdge, ...yield* Limits.loadEdge },
    ...yield* Models.load,
    /** The hosts of repositories and pull requests. */
    sourceHosts: yield* SourceHosts.load,
    signIn: yield* GitHub.loadSignIn,
    /** Sign-in with OpenID Connect; `null`: none. */
    oidc: yield* Oidc.load,
    ...yield* Oidc.loadCi,
    commit: yield* Publishing.load,
    clone: yield* Clones.load,
    ...yield* Isolation.load,
    /** For machines in a cluster. */
    kubernetes: yield* Kubernetes.load,
    /** For isolated sandboxes. */
    limits: yield* Isolation.loadLimits,
    ...yield* Agents.load,
    /** `null`: no traces are collected. */
    traces: yield* Traces.load,
    ...yield* Publishing.loadWebhooks
  }
})

/** The settings of a process; the modules of the subjects describe each. Logging is separate. */
export interface Settings extends Effect.Success<typeof values> {}

/** The settings of this process. Fails with the first invalid one. */
export const load: Effect.Effect<Settings, InvalidSetting> = Effect.gen(function*() {
  const loaded = yield* values
  const { role } = Processes.settings
  if (loaded.role !== "all" && loaded.databaseUrl === null) {
    return yield* new InvalidSetting({
      setting: Storage.settings.databaseUrl.name,
      expected: `set when ${role.name} is ${loaded.role}: processes share one database`
    })
  }
  if (loaded.role === "worker" && loaded.publicUrl === null) {
    return yield* new InvalidSetting({
      setting: Listening.settings.publicUrl.name,
      expected: `set when ${role.name} is worker: it listens nowhere itself, and its pull requests and events link to that address`
    })
  }
  const { previewOrigins, publicUrl } = loaded
  if (previewOrigins !== null && publicUrl !== null && PreviewOrigin.covers(previewOrigins, publicUrl)) {
    return yield* new InvalidSetting({
      setting: Listening.settings.previewUrl.name,
      expected: `another domain than that of ${Listening.settings.publicUrl.name}: every name below it is one of a preview`
    })
  }
  return loaded
})

/** Removes the secrets from the environment that child processes inherit. */
export const hideSecrets = Effect.sync(() => {
  for (const { inherited, name, secret } of all) if (secret === true && inherited !== true) delete process.env[name]
})

/** An example of setting variables for a command, for its help. */
export const EXAMPLE = "DATABASE_URL=postgres://… SLIPWAY_PUBLIC_URL=https://slipway.example"

/** The variables of programs that use the API. */
export const OF_PROGRAMS: ReadonlyArray<string> = ["SLIPWAY_URL", "SLIPWAY_API_KEY", "SLIPWAY_OTHER_API_KEY", "SLIPWAY_NO_SCOPE_API_KEY"]

const CONNECTIONS = "SLIPWAY_STREAMS_PER_USER sets it too, in proportion."
const POD_TEMPLATE = "Write it into the file of SLIPWAY_KUBERNETES_POD_TEMPLATE."
const PLAIN_POD = "Machines of Kubernetes are plain pods."

/** Settings of earlier versions, and what to do instead. */
const REMOVED: Readonly<Record<string, string>> = {
  SLIPWAY_STREAMS_PER_GRANT: CONNECTIONS,
  SLIPWAY_DOWNLOADS_PER_USER: CONNECTIONS,
  SLIPWAY_DOWNLOADS_PER_GRANT: CONNECTIONS,
  SLIPWAY_KEEP_ALIVE_SECONDS: "It is always 65 seconds: let the proxy keep idle connections for less.",
  SLIPWAY_WORKER_AGENTS: "It is always four times SLIPWAY_WORKER_SLOTS.",
  SLIPWAY_WORKER_BOOTS: "It is always two for each processor.",
  SLIPWAY_CLONE_UNUSED_DAYS: "It is always 30 days.",
  SLIPWAY_CHECKOUT_FILES: "SLIPWAY_CHECKOUT_MIB raises it too, in proportion.",
  SLIPWAY_KUBERNETES_MACHINES: PLAIN_POD,
  SLIPWAY_KUBERNETES_WARM_PODS: PLAIN_POD,
  SLIPWAY_KUBERNETES_INSTALLATION: "It is the name in SLIPWAY_KUBERNETES_OWNER.",
  SLIPWAY_KUBERNETES_CONTEXT: "Make it the current context of the file in SLIPWAY_KUBERNETES_KUBECONFIG.",
  SLIPWAY_KUBERNETES_REQUEST_PERCENT: "It is always 25.",
  SLIPWAY_KUBERNETES_NODE_SELECTOR: POD_TEMPLATE,
  SLIPWAY_KUBERNETES_TOLERATIONS: POD_TEMPLATE,
  SLIPWAY_KUBERNETES_PULL_SECRETS: POD_TEMPLATE,
  SLIPWAY_KUBERNETES_RUNTIME_CLASS: POD_TEMPLATE
}

/**
 * A line for each unknown variable that looks like a setting. It is logged, not refused, because processes of two versions share one
 * environment during an upgrade.
 */
export const unknown = (environment: Readonly<Record<string, string | undefined>>): ReadonlyArray<string> => {
  const names = all.map(({ name }) => name)
  const known = new Set<string>([...names, ...OF_PROGRAMS])
  return Object.keys(environment).filter((name) => name.startsWith("SLIPWAY_") && !known.has(name)).map((name) => {
    const removed = REMOVED[name]
    if (removed !== undefined) return `${name} is set, but this setting was removed: it does nothing. ${removed}`
    const meant = nearest(name, names)
    const next = meant === null ? "Those there are: slipway serve --help" : `Did you mean ${meant}?`
    return `${name} is set, but there is no such setting: it does nothing. ${next}`
  })
}

/** The settings as a table for help texts: name, default, meaning. */
export const table: ReadonlyArray<readonly [name: string, defaultValue: string, about: string]> = all.map(
  (
    { about, default: fallback, name, type: { unit } }
  ) => [name, fallback === null ? "" : unit === undefined ? fallback : `${fallback} ${unit}`, about]
)
